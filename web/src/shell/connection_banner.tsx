// Whether the server is heard.
import { useEffect, useState } from "preact/hooks";
import { connection } from "../api/connection.ts";
import { clockText } from "../format/time.ts";

function useConnection() {
  const [, setCount] = useState(0);
  useEffect(() => connection.watch(() => setCount((count) => count + 1)), []);
  return connection;
}

export function ConnectionMark() {
  const { state } = useConnection();
  if (state === "none") return null;
  return (
    <span class={`connection ${state === "open" ? "good" : "bad"}`}>{state === "open" ? "live" : "not connected"}</span>
  );
}

/** The region is always there, so that screen readers say what comes into it. */
export function ConnectionBanner() {
  const { state, heard } = useConnection();
  return (
    <div role="status">
      {state === "lost" && (
        <p class="banner">
          <strong>The dashboard does not answer, reconnecting…</strong>{" "}
          {heard > 0 && <>What you see was known at {clockText(heard)}.</>}
        </p>
      )}
    </div>
  );
}
