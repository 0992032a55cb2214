// Shown where the server knows no session of this browser: the code that `paceline dashboard` has printed opens one, or
// the token that lets in from the network.
import { useEffect, useState } from "preact/hooks";
import { openSession } from "../api/api.ts";
import { session } from "../api/session.ts";
import { type Problem, problemOfFailure } from "../api/problem.ts";
import { Command } from "./copy_button.tsx";
import { ProblemNotice } from "./notices.tsx";

/** What the server says of itself; asked for once. */
export function useSession() {
  const [, setCount] = useState(0);
  useEffect(() => session.watch(() => setCount((count) => count + 1)), []);
  return session;
}

/** The code in what was pasted: the code itself, or the address with it. */
export function codeIn(text: string): string {
  return /#code=([^&\s/]+)/.exec(text)?.[1] ?? text.trim();
}

export function SessionPage({ problem }: { problem: Problem | undefined }) {
  const [text, setText] = useState("");
  const [refusal, setRefusal] = useState(problem);
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      await openSession(codeIn(text));
      window.location.reload();
    } catch (error) {
      setRefusal(problemOfFailure(error));
    }
  };
  return (
    <form class="session" onSubmit={(event) => void submit(event)}>
      <h1>This browser has no session</h1>
      <p>
        The dashboard shows runs only to who has its code. <Command text="paceline dashboard" /> prints an address with
        a new one: open it, or paste it here. Where it listens on the network, the token of its file will do too.
      </p>
      {refusal && <ProblemNotice problem={refusal} />}
      <label>
        Address, code or token
        <input value={text} autocomplete="off" onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="submit" class="primary" disabled={codeIn(text) === ""}>
        Open
      </button>
    </form>
  );
}
