// Why a run ended: the cause in one line, then where it happened, then what the worker wrote last.
import { useState } from "preact/hooks";
import type { RunView } from "../api/views.ts";
import { CopyButton } from "../shell/copy_button.tsx";
import { logsHash } from "../shell/route.ts";
import { AnsiLine } from "../text/ansi_line.tsx";
import { withoutAnsi } from "../text/ansi.ts";
import { printable } from "../text/printable.ts";
import { splitError } from "./error_parts.ts";

const LINES_AT_FIRST = 8;

/** The log of the rank that the error begins with. */
function logOfCause(run: RunView): string | undefined {
  const rank = /^rank (\d+)/i.exec(run.error)?.[1];
  const worker = run.workers.find((one) => String(one.rank) === rank);
  return worker ? `worker_${worker.worker}` : undefined;
}

export function ErrorText({ id, run }: { id: string; run: RunView }) {
  const [isWhole, setWhole] = useState(false);
  const { cause, where, written, file } = splitError(run.error);
  const shown = isWhole ? written : written.slice(-LINES_AT_FIRST);
  const stream = logOfCause(run);
  const tone = run.state === "errored" ? "bad" : "quiet-notice";
  return (
    <div class={`error-text ${tone}`} {...(tone === "bad" ? { role: "alert" } : {})}>
      <div class="error-head">
        <p class="error-cause">
          <AnsiLine line={cause} />
        </p>
        <CopyButton text={run.error.split("\n").map(withoutAnsi).join("\n")} what="the error" />
      </div>
      {where.length > 0 && (
        <pre class="error-where">
          {where.map((line, index) => (
            <div key={index}>
              <AnsiLine line={line} />
            </div>
          ))}
        </pre>
      )}
      {written.length > 0 && (
        <>
          <p class="error-label">Last lines that it wrote</p>
          <pre class="error-lines" tabIndex={0} aria-label="Last lines that it wrote">
            {shown.map((line, index) => (
              <div key={index}>
                <AnsiLine line={line} />
              </div>
            ))}
          </pre>
        </>
      )}
      {(stream || file || written.length > LINES_AT_FIRST) && (
        <p class="error-links">
          {stream && <a href={logsHash(id, stream)}>Whole log of this rank</a>}
          {written.length > LINES_AT_FIRST && (
            <button type="button" class="link" onClick={() => setWhole(!isWhole)}>
              {isWhole ? "Fewer lines" : "More lines"}
            </button>
          )}
          {file && <code class="quiet">{printable(file)}</code>}
        </p>
      )}
    </div>
  );
}
