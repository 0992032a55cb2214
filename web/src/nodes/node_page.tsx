// One node of a run: what it does now, its processes, and what it did over time.
import { useEffect, useMemo } from "preact/hooks";
import { fetchNodes, fetchSamples } from "../api/api.ts";
import type { NodeSummary } from "../api/views.ts";
import { byteRateText, bytesText, coresText, countText, maybe, numberText, percentText } from "../format/number.ts";
import { Crumbs } from "../shell/crumbs.tsx";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { type Parameters, logsHash, runHash, workerHash } from "../shell/route.ts";
import { Ago, useNow } from "../shell/time.tsx";
import { printable } from "../text/printable.ts";
import { ChartGrid, SpanTools } from "./chart_grid.tsx";
import { NodeState } from "./node_table.tsx";
import { useRefreshed } from "./refresh.ts";
import { nodeCharts, partOf, processLabel } from "./sample_charts.ts";

const POINTS = 400;

function Facts({ node }: { node: NodeSummary }) {
  const now = node.sample;
  const time = useNow(node.state !== "ended");
  const of = (part: number | null, whole: number | null) => `${maybe(part, bytesText)} of ${maybe(whole, bytesText)}`;
  const facts: [string, string][] = [
    ["CPU", `${maybe(now.cpu_ratio, percentText)} of ${maybe(now.cores, countText)} cores`],
    ["Load", maybe(now.load_1m, numberText)],
    ["Memory", of(now.memory_used_bytes, now.memory_total_bytes)],
    ["Network in, out", `${maybe(now.network_received_bytes_per_s, byteRateText)}, ${maybe(now.network_sent_bytes_per_s, byteRateText)}`],
    ["Disks in, out", `${maybe(now.disk_read_bytes_per_s, byteRateText)}, ${maybe(now.disk_written_bytes_per_s, byteRateText)}`],
    ["Disk space free", of(now.disk_free_bytes, now.disk_size_bytes)],
  ];
  if (now.group_memory_limit_bytes !== null) {
    facts.push(["Memory of the control group", of(now.group_memory_used_bytes, now.group_memory_limit_bytes)]);
  }
  return (
    <dl class="facts">
      <div>
        <dt>State</dt>
        <dd>
          <NodeState state={node.state} />
        </dd>
      </div>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
      <div>
        <dt>Last sample</dt>
        <dd>
          <Ago time={now.time} now={time} />
        </dd>
      </div>
    </dl>
  );
}

function Gpus({ node }: { node: NodeSummary }) {
  const { gpus, no_gpus_because: why } = node.sample;
  if (gpus.length === 0) return <p class="quiet">No GPUs are shown: {printable(why || "the node has none")}.</p>;
  return (
    <div class="scrolls" tabIndex={0} role="group" aria-label="GPUs">
      <table>
        <thead>
          <tr>
            <th class="number">GPU</th>
            <th>Name</th>
            <th class="number">Busy</th>
            <th class="number">Memory</th>
            <th class="number">Power</th>
            <th class="number">Temperature</th>
            <th>Clocks</th>
            <th class="number">Memory errors</th>
          </tr>
        </thead>
        <tbody>
          {gpus.map((gpu) => (
            <tr key={gpu.uuid}>
              <td class="number">{gpu.index}</td>
              <td title={printable(gpu.uuid)}>{printable(gpu.name)}</td>
              <td class="number">{maybe(gpu.utilization_ratio, percentText)}</td>
              <td class="number">
                {maybe(gpu.memory_used_bytes, bytesText)} of {maybe(gpu.memory_total_bytes, bytesText)}
              </td>
              <td class="number">{maybe(gpu.power_watts, (watts) => `${countText(watts)} W`)}</td>
              <td class="number">{maybe(gpu.temperature_celsius, (degrees) => `${countText(degrees)} °C`)}</td>
              <td>{gpu.throttled === null ? "–" : gpu.throttled > 0 ? <span class="warn-text">held down</span> : "free"}</td>
              <td class="number">{maybe(gpu.ecc_errors_total, countText)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const LOG_OF_ROLE: { [role: string]: string } = { worker: "worker_", program: "worker_", data: "data_" };

function Processes({ id, node }: { id: string; node: NodeSummary }) {
  return (
    <div class="scrolls" tabIndex={0} role="group" aria-label="Processes">
      <table>
        <thead>
          <tr>
            <th>Process</th>
            <th class="number">Process id</th>
            <th class="number">Cores</th>
            <th class="number">Memory</th>
            <th class="number">GPU memory</th>
            <th class="number">Threads</th>
            <th class="number">Descriptors</th>
            <th class="number">Read</th>
            <th class="number">Written</th>
            <th>Log</th>
          </tr>
        </thead>
        <tbody>
          {node.sample.processes.map((process) => {
            const label = processLabel(String(process.worker), process.role, node.ranks);
            const log = LOG_OF_ROLE[process.role];
            const rank = node.ranks[String(process.worker)];
            return (
              <tr key={process.worker}>
                <td>
                  {rank === undefined ? printable(label) : <a href={workerHash(id, rank)}>{printable(label)}</a>}
                </td>
                <td class="number">{process.pid}</td>
                <td class="number">{maybe(process.cpu_cores, coresText)}</td>
                <td class="number">{maybe(process.rss_bytes, bytesText)}</td>
                <td class="number">{maybe(process.gpu_memory_bytes, bytesText)}</td>
                <td class="number">{maybe(process.threads, countText)}</td>
                <td class="number">{maybe(process.descriptors, countText)}</td>
                <td class="number">{maybe(process.read_bytes_per_s, byteRateText)}</td>
                <td class="number">{maybe(process.written_bytes_per_s, byteRateText)}</td>
                <td>
                  {log && (
                    <a href={logsHash(id, log + process.worker)} aria-label={`Log of ${printable(label)}`}>
                      Log
                    </a>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

export function NodePage({ id, node: name, parameters }: { id: string; node: string; parameters: Parameters }) {
  const nodes = useRefreshed(`nodes ${id}`, true, () => fetchNodes(id));
  const node = nodes.data?.nodes.find((one) => one.name === name);
  const isLive = node?.state !== "ended";
  const part = partOf(parameters, node?.first ?? 0, node?.sample.time ?? 0);
  const key = node ? JSON.stringify([id, name, parameters["span"], parameters["from"], parameters["to"]]) : null;
  const samples = useRefreshed(key, isLive && !parameters["from"], () =>
    fetchSamples(id, { node: name, points: POINTS, ...part }),
  );
  useEffect(() => void (document.title = `${printable(name)} — Paceline`), [name]);
  const charts = useMemo(
    () => (samples.data && node ? nodeCharts(samples.data, node.ranks) : []),
    [samples.data, JSON.stringify(node?.ranks)],
  );
  const problem = nodes.problem ?? samples.problem;
  return (
    <div class="page">
      <Crumbs
        above={[
          { title: "Nodes", hash: "#/nodes" },
          { title: "Run", hash: runHash(id) },
        ]}
      />
      <h1>
        <bdi>{printable(name)}</bdi>
      </h1>
      {problem && !problem.needsSession && <ProblemNotice problem={problem} onRetry={nodes.reload} />}
      {!nodes.data && !problem && <Loading />}
      {nodes.data && !node && <Empty title="The run has no samples of this node" />}
      {node && (
        <>
          <Facts node={node} />
          <h2>Processes of the run</h2>
          <Processes id={id} node={node} />
          <h2>GPUs</h2>
          <Gpus node={node} />
          <h2>Over time</h2>
          <SpanTools parameters={parameters} />
          <ChartGrid charts={charts} sync={`node ${id}`} isLoading={samples.isLoading} />
        </>
      )}
    </div>
  );
}
