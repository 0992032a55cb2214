// What a run's datasets have given, by operator, and how long the ranks waited for them.
import type { Dataset, DatasetStep, RunView } from "../api/views.ts";
import { bytesText, countText, percentText, plural } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import { Empty } from "../shell/notices.tsx";
import { printable } from "../text/printable.ts";

const MUCH_WAITING = 0.05; // of the time that a rank has an epoch open

function waitedShare(rank: { waited_s: number; open_s: number }): number {
  return rank.open_s > 0 ? rank.waited_s / rank.open_s : 0;
}

function slowestOf(steps: DatasetStep[]): DatasetStep | undefined {
  return steps.reduce<DatasetStep | undefined>(
    (slowest, step) => (step.block_generation_time > (slowest?.block_generation_time ?? 0) ? step : slowest),
    undefined,
  );
}

function Verdict({ dataset }: { dataset: Dataset }) {
  const worst = dataset.ranks.reduce((most, rank) => Math.max(most, waitedShare(rank)), 0);
  const slowest = slowestOf(dataset.steps);
  if (worst < MUCH_WAITING) return <p>Ranks wait at most {percentText(worst)} of the time: data is not the limit.</p>;
  return (
    <p>
      Ranks wait up to <strong>{percentText(worst)}</strong> of the time
      {slowest && (
        <>
          ; the slowest operator is <strong>{printable(slowest.name)}</strong>
        </>
      )}
      .
    </p>
  );
}

function DatasetView({ dataset }: { dataset: Dataset }) {
  return (
    <article class="dataset">
      <h2>{printable(dataset.name)}</h2>
      <Verdict dataset={dataset} />
      <div class="scrolls" tabIndex={0} role="group" aria-label={`Operators of ${printable(dataset.name)}`}>
        <table>
          <thead>
            <tr>
              <th>Operator</th>
              <th class="number">Rows</th>
              <th class="number">Bytes</th>
              <th class="number">Blocks</th>
              <th class="number">Running</th>
              <th class="number">Time</th>
              <th class="number">Block, median</th>
              <th class="number">Block, 95 %</th>
              <th class="number">Back-pressure</th>
            </tr>
          </thead>
          <tbody>
            {dataset.steps.map((step, index) => (
              <tr key={index}>
                <td>{printable(step.name)}</td>
                <td class="number">{countText(step.rows_task_outputs_generated)}</td>
                <td class="number">{bytesText(step.bytes_task_outputs_generated)}</td>
                <td class="number">{countText(step.num_task_outputs_generated)}</td>
                <td class="number">{countText(step.num_tasks_running)}</td>
                <td class="number">{durationText(step.block_generation_time)}</td>
                <td class="number">{durationText(step.block_generation_time_p50)}</td>
                <td class="number">{durationText(step.block_generation_time_p95)}</td>
                <td class="number">{durationText(step.task_submission_backpressure_time)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="scrolls" tabIndex={0} role="group" aria-label={`Ranks that read ${printable(dataset.name)}`}>
        <table>
          <thead>
            <tr>
              <th class="number">Rank</th>
              <th class="number">Rows</th>
              <th class="number">Batches</th>
              <th class="number">Bytes</th>
              <th class="number">Waited</th>
              <th class="number">Share of the time</th>
            </tr>
          </thead>
          <tbody>
            {dataset.ranks.map((rank) => (
              <tr key={rank.rank}>
                <td class="number">{rank.rank}</td>
                <td class="number">{countText(rank.rows)}</td>
                <td class="number">{countText(rank.batches)}</td>
                <td class="number">{bytesText(rank.bytes)}</td>
                <td class="number">{durationText(rank.waited_s)}</td>
                <td class="number">{percentText(waitedShare(rank))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </article>
  );
}

export function Datasets({ run }: { run: RunView }) {
  if (run.datasets.length === 0) {
    return (
      <Empty title="This run reads no dataset of paceline.data">
        Batches of a <code>DataLoader</code> are not counted here.
      </Empty>
    );
  }
  return (
    <>
      <p class="quiet">{plural(run.datasets.length, "dataset")}, as the last data process counted them.</p>
      {run.datasets.map((dataset) => (
        <DatasetView key={dataset.name} dataset={dataset} />
      ))}
    </>
  );
}
