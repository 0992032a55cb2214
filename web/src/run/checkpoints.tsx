// The checkpoints that a run has kept, with the metrics of their reports, what validation said, and whether they are whole.
import { useEffect, useRef, useState } from "preact/hooks";
import { verifyCheckpoint } from "../api/api.ts";
import { problemOfFailure } from "../api/problem.ts";
import type { Checkpoint, CheckpointStatus, RunView } from "../api/views.ts";
import { flatMetrics, metricNumber } from "../chart/series.ts";
import { bytesText, countText, numberText, plural } from "../format/number.ts";
import type { ShownState } from "../runs/run_state.ts";
import { CopyButton } from "../shell/copy_button.tsx";
import { Empty } from "../shell/notices.tsx";
import { StateBadge } from "../shell/state_badge.tsx";
import { Time } from "../shell/time.tsx";
import { printable } from "../text/printable.ts";

const STATUS: { [status in CheckpointStatus]: ShownState } = {
  committed: { word: "committed", tone: "good", icon: "check" },
  validated: { word: "validated", tone: "good", icon: "check" },
  pending_validation: { word: "validation pending", tone: "live", icon: "clock" },
  validation_timeout: { word: "validation timed out", tone: "warn", icon: "warning" },
  validation_failed: { word: "validation failed", tone: "bad", icon: "cross" },
};

function folderOf(checkpoint: Checkpoint): string {
  return checkpoint.name || `checkpoint_${String(checkpoint.report).padStart(6, "0")}`;
}

/**
 * Asks for all of the checkpoint to be read, however long that takes. Once nobody sees it any more it ends: the server
 * reads one checkpoint at a time.
 */
function Verification({ id, folder }: { id: string; folder: string }) {
  const [found, setFound] = useState<ShownState | "reading" | undefined>();
  const reading = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => reading.current?.abort(), []);
  const verify = async () => {
    const { signal } = (reading.current = new AbortController());
    setFound("reading");
    try {
      const { is_whole: isWhole, problem, files, bytes } = await verifyCheckpoint(id, folder, signal);
      setFound(
        isWhole
          ? { word: `whole: ${plural(files, "file")}, ${bytesText(bytes)}`, tone: "good", icon: "check" }
          : { word: printable(problem), tone: "bad", icon: "cross" },
      );
    } catch (error) {
      if (signal.aborted) return;
      const { title, detail } = problemOfFailure(error);
      setFound({ word: printable(`not verified: ${detail || title}`), tone: "warn", icon: "warning" });
    }
  };
  return (
    <span class="verification" role="status">
      {typeof found === "object" && (
        <StateBadge state={found} />
      )}
      {!(typeof found === "object" && found.tone === "good") && (
        <button type="button" disabled={found === "reading"} title="Reads all of its files, and compares them with its manifest" onClick={() => void verify()}>
          {found === "reading" ? "Reading…" : typeof found === "object" ? "Again" : "Verify"}
        </button>
      )}
    </span>
  );
}

export function Checkpoints({ id, run }: { id: string; run: RunView }) {
  if (run.checkpoints.length === 0) {
    return (
      <Empty title="No checkpoint is kept" command={`paceline checkpoint ls ${run.name}`}>
        A train loop hands one over with <code>report(metrics, checkpoint)</code>.
      </Empty>
    );
  }
  const names = [...new Set(run.checkpoints.flatMap((one) => flatMetrics(one.metrics).map(([name]) => name)))].sort();
  return (
    <div class="scrolls" tabIndex={0} role="group" aria-label="Checkpoints">
      <table>
        <thead>
          <tr>
            <th>Checkpoint</th>
            <th class="number">Report</th>
            <th>Status</th>
            <th>Files</th>
            <th class="number">Time</th>
            {names.map((name) => (
              <th key={name} class="number">
                {printable(name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {[...run.checkpoints].reverse().map((checkpoint) => {
            const metrics = new Map(flatMetrics(checkpoint.metrics));
            const folder = folderOf(checkpoint);
            return (
              <tr key={`${folder} ${checkpoint.report}`}>
                <td>
                  <code>{printable(folder)}</code>
                  <CopyButton text={`${run.location}/${folder}`} what="the checkpoint's path" />
                </td>
                <td class="number">{countText(checkpoint.report)}</td>
                <td>
                  <StateBadge state={STATUS[checkpoint.status] ?? STATUS.committed} />
                </td>
                <td>
                  <Verification id={id} folder={folder} />
                </td>
                <td class="number">
                  <Time time={checkpoint.time} />
                </td>
                {names.map((name) => {
                  const value = metrics.get(name);
                  const number = metricNumber(value);
                  const text = number === undefined ? String(value ?? "–") : numberText(number);
                  return (
                    <td key={name} class="number">
                      {printable(text)}
                    </td>
                  );
                })}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
