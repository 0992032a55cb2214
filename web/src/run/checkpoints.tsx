// The checkpoints that a run has kept, with the metrics of their reports and what validation said.
import type { Checkpoint, CheckpointStatus, RunView } from "../api/views.ts";
import { flatMetrics, metricNumber } from "../chart/series.ts";
import { countText, numberText } from "../format/number.ts";
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

export function Checkpoints({ run }: { run: RunView }) {
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
              <tr key={folder}>
                <td>
                  <code>{printable(folder)}</code>
                  <CopyButton text={`${run.location}/${folder}`} what="the checkpoint's path" />
                </td>
                <td class="number">{countText(checkpoint.report)}</td>
                <td>
                  <StateBadge state={STATUS[checkpoint.status] ?? STATUS.committed} />
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
