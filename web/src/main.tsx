// The beginning: a one-time code in the address becomes a session and leaves the history; then the pages are shown.
import { render } from "preact";
import { Problem, fetchSession, openSession } from "./api/api.ts";
import { problemOfFailure } from "./api/problem.ts";
import { App } from "./shell/app.tsx";
import "./style/style.css";

/** "#code=CODE", or "#code=CODE/runs/ID" with the page that is meant. */
function codeInAddress(): { code: string; page: string } | undefined {
  const found = /^#code=([^/]+)(\/.*)?$/.exec(window.location.hash);
  return found === null ? undefined : { code: found[1] ?? "", page: found[2] ?? "/runs" };
}

async function exchangeCode(): Promise<Problem | undefined> {
  const address = codeInAddress();
  if (address === undefined) return undefined;
  window.history.replaceState(null, "", "#" + address.page); // before anything else: nobody shall read it there
  try {
    await openSession(decodeURIComponent(address.code));
    return undefined;
  } catch (error) {
    const problem = problemOfFailure(error);
    return fetchSession().then(
      () => undefined, // who has a session needs no other
      () => problem,
    );
  }
}

// An address with a code may be opened where the pages are already: that loads nothing by itself.
window.addEventListener("hashchange", () => {
  if (codeInAddress() !== undefined) window.location.reload();
});
void exchangeCode().then((problem) => render(<App sessionProblem={problem} />, document.body));
