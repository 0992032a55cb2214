// Nodes, a row each, with what they do now: of one run, or of all of them.
import { type ComponentChildren, Fragment } from "preact";
import type { NodeSample, NodeSummary } from "../api/views.ts";
import { byteRateText, bytesText, coresText, countText, maybe, percentText, rangesText } from "../format/number.ts";
import { nodeHash, runHash } from "../shell/route.ts";
import { printable } from "../text/printable.ts";
import { Icon } from "../shell/icons.tsx";
import type { Machine, NodeOfRun } from "./machines.ts";

/** A share as a bar with its number. */
function Share({ part, whole, text }: { part: number | null; whole: number | null; text: string }) {
  if (part === null || whole === null || whole <= 0) return <>–</>;
  const share = Math.min(1, part / whole);
  return (
    <span class="share">
      <span class="share-bar" aria-hidden="true">
        <span class={share > 0.9 ? "full" : ""} style={{ width: `${100 * share}%` }} />
      </span>
      {text}
    </span>
  );
}

function sumOf(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? known.reduce((sum, value) => sum + value, 0) : null;
}

function meanOf(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  const sum = sumOf(known);
  return sum === null ? null : sum / known.length;
}

export function NodeState({ state }: { state: NodeSummary["state"] }) {
  if (state === "live") return <span class="state live"><Icon name="play" /> live</span>;
  if (state === "silent") {
    return (
      <span class="state warn" title="The run goes on, but no samples of this node come">
        <Icon name="warning" /> silent
      </span>
    );
  }
  return <span class="state quiet"><Icon name="check" /> ended</span>;
}

/** What a machine does, whoever makes it. */
function MachineCells({ sample: now }: { sample: NodeSample }) {
  const gpuMemory = sumOf(now.gpus.map((gpu) => gpu.memory_used_bytes));
  const gpuTotal = sumOf(now.gpus.map((gpu) => gpu.memory_total_bytes));
  const gpuShare = meanOf(now.gpus.map((gpu) => gpu.utilization_ratio));
  const diskUsed =
    now.disk_size_bytes === null || now.disk_free_bytes === null ? null : now.disk_size_bytes - now.disk_free_bytes;
  return (
    <>
      <td>
        <Share
          part={now.cpu_ratio}
          whole={1}
          text={`${maybe(now.cpu_ratio, percentText)} of ${maybe(now.cores, countText)}`}
        />
      </td>
      <td>
        <Share
          part={now.memory_used_bytes}
          whole={now.memory_total_bytes}
          text={`${maybe(now.memory_used_bytes, bytesText)} of ${maybe(now.memory_total_bytes, bytesText)}`}
        />
      </td>
      <td>
        {now.gpus.length === 0 ? (
          <span class="quiet">none</span>
        ) : (
          <Share part={gpuShare} whole={1} text={`${maybe(gpuShare, percentText)} of ${now.gpus.length}`} />
        )}
      </td>
      <td>
        <Share
          part={gpuMemory}
          whole={gpuTotal}
          text={`${maybe(gpuMemory, bytesText)} of ${maybe(gpuTotal, bytesText)}`}
        />
      </td>
      <td>
        <Share part={diskUsed} whole={now.disk_size_bytes} text={`${maybe(now.disk_free_bytes, bytesText)} free`} />
      </td>
      <td class="number">{maybe(now.network_received_bytes_per_s, byteRateText)}</td>
      <td class="number">{maybe(now.network_sent_bytes_per_s, byteRateText)}</td>
    </>
  );
}

/** What the processes of a run take of a machine. */
function RunCells({ sample }: { sample: NodeSample }) {
  const { processes } = sample;
  return (
    <>
      <td>{maybe(sumOf(processes.map((one) => one.cpu_cores)), (cores) => `${coresText(cores)} cores`)}</td>
      <td>{maybe(sumOf(processes.map((one) => one.rss_bytes)), bytesText)}</td>
      <td />
      <td>{maybe(sumOf(processes.map((one) => one.gpu_memory_bytes)), bytesText)}</td>
      <td />
      <td />
      <td />
    </>
  );
}

function Table({ children }: { children: ComponentChildren }) {
  return (
    <div class="scrolls" tabIndex={0} role="group" aria-label="Nodes">
      <table class="nodes">
        <thead>
          <tr>
            <th>Node</th>
            <th>State</th>
            <th>Ranks</th>
            <th>CPU</th>
            <th>Memory</th>
            <th>GPUs</th>
            <th>GPU memory</th>
            <th>Disk</th>
            <th class="number">Received</th>
            <th class="number">Sent</th>
            <th class="number">Processes</th>
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** The nodes of one run. */
export function NodeTable({ run, nodes }: { run: string; nodes: NodeSummary[] }) {
  return (
    <Table>
      {nodes.map((node) => (
        <tr key={node.name}>
          <td>
            <a href={nodeHash(run, node.name)}>
              <bdi>{printable(node.name)}</bdi>
            </a>
          </td>
          <td>
            <NodeState state={node.state} />
          </td>
          <td>{rangesText(Object.values(node.ranks)) || "–"}</td>
          <MachineCells sample={node.sample} />
          <td class="number">{countText(node.sample.processes.length)}</td>
        </tr>
      ))}
    </Table>
  );
}

function RunRow({ run, node }: NodeOfRun) {
  return (
    <tr class="run-on-node">
      <td>
        <span class="quiet" aria-hidden="true">
          ↳{" "}
        </span>
        <a href={runHash(run.id)}>
          <bdi>{printable(run.name)}</bdi>
        </a>{" "}
        <a class="quiet" href={nodeHash(run.id, node.name)} aria-label={`its processes: ${printable(run.name)} on ${printable(node.name)}`}>
          its processes
        </a>
      </td>
      <td>
        <NodeState state={node.state} />
      </td>
      <td>{rangesText(Object.values(node.ranks)) || "–"}</td>
      <RunCells sample={node.sample} />
      <td class="number">{countText(node.sample.processes.length)}</td>
    </tr>
  );
}

/** Each machine once, and beneath it the runs that have it. */
export function MachineTable({ machines }: { machines: Machine[] }) {
  return (
    <Table>
      {machines.map(({ name, newest, runs }) => (
        <Fragment key={name}>
          <tr class="machine">
            <td>
              <a href={nodeHash(newest.run.id, name)}>
                <bdi>{printable(name)}</bdi>
              </a>
            </td>
            <td>
              <NodeState state={newest.node.state} />
            </td>
            <td />
            <MachineCells sample={newest.node.sample} />
            <td class="number">{countText(runs.reduce((sum, { node }) => sum + node.sample.processes.length, 0))}</td>
          </tr>
          {runs.map((one) => (
            <RunRow key={one.run.id} {...one} />
          ))}
        </Fragment>
      ))}
    </Table>
  );
}
