// The beginning: a one-time code in the address becomes a session and leaves the history; then the pages are shown.
import { render } from "preact";
import { Problem, openSession } from "./api/api.ts";
import { problemOfFailure } from "./api/problem.ts";
import { App } from "./shell/app.tsx";
import "./style/style.css";

function codeInAddress(): string | undefined {
  return /^#code=(.+)$/.exec(window.location.hash)?.[1];
}

async function exchangeCode(): Promise<Problem | undefined> {
  const code = codeInAddress();
  if (code === undefined) return undefined;
  window.history.replaceState(null, "", "#/runs"); // before anything else: nobody shall read it there
  try {
    await openSession(decodeURIComponent(code));
    return undefined;
  } catch (error) {
    return problemOfFailure(error);
  }
}

// An address with a code may be opened where the pages are already: that loads nothing by itself.
window.addEventListener("hashchange", () => {
  if (codeInAddress() !== undefined) window.location.reload();
});
void exchangeCode().then((problem) => render(<App sessionProblem={problem} />, document.body));
