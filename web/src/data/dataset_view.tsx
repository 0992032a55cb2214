// One dataset: what bounds it, its operators in the order in which blocks go through them, and how long ranks waited.
import type { DatasetSummary, OperatorSummary } from "../api/views.ts";
import { byteRateText, bytesText, coresText, countText, maybe, numberText, percentText, plural } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import type { Tone } from "../runs/run_state.ts";
import { Icon, type IconName } from "../shell/icons.tsx";
import { printable } from "../text/printable.ts";
import { busyShares, waitedShare } from "./dataset_numbers.ts";

const STATES: { [state in OperatorSummary["state"]]: { tone: Tone; icon: IconName; word: string; title: string } } = {
  running: { tone: "live", icon: "play", word: "running", title: "It works on blocks" },
  idle: { tone: "quiet", icon: "clock", word: "idle", title: "Nobody wants blocks of it now" },
  stuck: { tone: "bad", icon: "warning", word: "stuck", title: "It is at one block for 10 s and more" },
  blocked: { tone: "warn", icon: "warning", word: "held up", title: "The ranks have not taken what is there yet" },
  ended: { tone: "quiet", icon: "check", word: "ended", title: "The run does not read any more" },
};

export function DataState({ state }: { state: OperatorSummary["state"] }) {
  const { tone, icon, word, title } = STATES[state] ?? { tone: "quiet", icon: "question", word: state, title: "" };
  return (
    <span class={`state ${tone}`} title={title}>
      <Icon name={icon} /> {word}
    </span>
  );
}

interface OperatorProps {
  operator: OperatorSummary;
  /** How many there are before it. */
  level: number;
  /** Its share of what all of them work. */
  busy: number;
  isBottleneck: boolean;
}

function Operator({ operator, level, busy, isBottleneck }: OperatorProps) {
  const { figures } = operator;
  const stuck = operator.state === "stuck" ? ` for ${durationText(figures.task_running_time_max)}` : "";
  return (
    <tr class={isBottleneck ? "bottleneck" : ""}>
      <td class="operator" style={{ paddingLeft: `${10 + 14 * Math.min(level, 8)}px` }}>
        {level > 0 && (
          <span class="quiet" aria-hidden="true">
            ↳{" "}
          </span>
        )}
        {printable(operator.name)}
        {isBottleneck && <span class="tag">bottleneck</span>}
      </td>
      <td>
        <DataState state={operator.state} />
        {stuck}
      </td>
      <td class="number">{maybe(operator.rows_per_s, (rows) => `${numberText(Math.round(rows))}/s`)}</td>
      <td class="number">{maybe(operator.bytes_per_s, byteRateText)}</td>
      <td>
        <span class="share" title="Of the time that all operators of this dataset have worked">
          <span class="share-bar" aria-hidden="true">
            <span style={{ width: `${100 * busy}%` }} />
          </span>
          {maybe(operator.busy_threads, coresText)}
        </span>
      </td>
      <td class="number">{countText(figures.num_tasks_running)}</td>
      <td class="number">{countText(figures.rows_task_outputs_generated)}</td>
      <td class="number">{bytesText(figures.bytes_task_outputs_generated)}</td>
      <td class="number">{durationText(figures.block_generation_time_p50)}</td>
      <td class="number">{durationText(figures.block_generation_time_p95)}</td>
      <td class="number">{durationText(figures.task_submission_backpressure_time)}</td>
    </tr>
  );
}

function Operators({ dataset }: { dataset: DatasetSummary }) {
  const busy = busyShares(dataset);
  const isOver = dataset.state === "ended";
  return (
    <div class="scrolls" tabIndex={0} role="group" aria-label={`Operators of ${printable(dataset.name)}`}>
      <table class="operators">
        <thead>
          <tr>
            <th>Operator</th>
            <th>State</th>
            <th class="number">{isOver ? "Rows, mean" : "Rows"}</th>
            <th class="number">{isOver ? "Bytes, mean" : "Bytes"}</th>
            <th>Busy threads</th>
            <th class="number">Tasks now</th>
            <th class="number">Rows in all</th>
            <th class="number">Bytes in all</th>
            <th class="number">Block, median</th>
            <th class="number">Block, 95 %</th>
            <th class="number">Back-pressure</th>
          </tr>
        </thead>
        <tbody>
          {dataset.operators.map((operator, level) => (
            <Operator
              key={level}
              operator={operator}
              level={level}
              busy={busy[level] ?? 0}
              isBottleneck={dataset.bottleneck !== "" && dataset.bottleneck === operator.name}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What lies between the last operator and the ranks. */
function Queue({ dataset: { read_ahead: queue } }: { dataset: DatasetSummary }) {
  return (
    <dl class="facts">
      <div>
        <dt>Read ahead, waiting for ranks</dt>
        <dd class="number">
          {plural(queue.num_external_outqueue_blocks, "block")}, {bytesText(queue.num_external_outqueue_bytes)}
        </dd>
      </div>
      <div>
        <dt>Back-pressure: waited for ranks to take some</dt>
        <dd class="number">{durationText(queue.task_output_backpressure_time)}</dd>
      </div>
      <div>
        <dt>Windows read, taken</dt>
        <dd class="number">
          {countText(queue.windows_read)}, {countText(queue.windows_taken)}
        </dd>
      </div>
      <div>
        <dt>Ranks waited for windows</dt>
        <dd class="number">{durationText(queue.input_wait_time)}</dd>
      </div>
    </dl>
  );
}

function Ranks({ dataset }: { dataset: DatasetSummary }) {
  if (dataset.ranks.length === 0) return null;
  return (
    <details class="dataset-ranks">
      <summary>Ranks that read it, and how long each waited</summary>
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
    </details>
  );
}

export interface DatasetViewProps {
  dataset: DatasetSummary;
  /** Several data processes read it: which one this is, is said. */
  tellsProcess: boolean;
  /** Of its title. */
  level: "h2" | "h3";
}

export function DatasetView({ dataset, tellsProcess, level: Title }: DatasetViewProps) {
  return (
    <article class="dataset">
      <div class="dataset-title">
        <Title>{printable(dataset.name)}</Title>
        <DataState state={dataset.state} />
        {tellsProcess && (
          <span class="quiet">
            data process {dataset.process} on {printable(dataset.host)}
          </span>
        )}
      </div>
      <p class={dataset.bottleneck ? "verdict warn-text" : "verdict"}>
        {dataset.bottleneck && <Icon name="warning" />} {printable(dataset.verdict)}
      </p>
      <Operators dataset={dataset} />
      <Queue dataset={dataset} />
      <Ranks dataset={dataset} />
    </article>
  );
}
