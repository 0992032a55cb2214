// What the nodes of a run did over time, all together.
import { useEffect, useMemo } from "preact/hooks";
import { fetchNodes, fetchRuns, fetchSamples } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { RunRow } from "../api/views.ts";
import { countText } from "../format/number.ts";
import { setParameters } from "../shell/navigation.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { type Parameters, runHash } from "../shell/route.ts";
import { printable } from "../text/printable.ts";
import { ChartGrid, SpanTools } from "./chart_grid.tsx";
import { NodeTable } from "./node_table.tsx";
import { useRefreshed } from "./refresh.ts";
import { MOST_LINES, clusterCharts, partOf } from "./sample_charts.ts";

const POINTS = 300;
const LISTED_RUNS = 100;
/** Of a node; the numbers of processes have the page of their node. */
const NAMES = [
  "cpu_ratio",
  "memory_used_bytes",
  "network_received_bytes_per_s",
  "network_sent_bytes_per_s",
  "disk_read_bytes_per_s",
  "disk_written_bytes_per_s",
  "disk_free_bytes",
  "gpu/",
  "processes/",
];

function RunChoice({ runs, id }: { runs: RunRow[]; id: string }) {
  return (
    <label>
      Run{" "}
      <select value={id} onChange={(event) => setParameters({ run: event.currentTarget.value, from: "", to: "" })}>
        {!runs.some((run) => run.id === id) && <option value={id}>{id}</option>}
        {runs.map((run) => (
          <option key={run.id} value={run.id}>
            {printable(run.name)} ({run.state})
          </option>
        ))}
      </select>
    </label>
  );
}

function RunMetrics({ id, parameters }: { id: string; parameters: Parameters }) {
  const listed = useRefreshed(`nodes ${id}`, true, () => fetchNodes(id));
  const nodes = listed.data?.nodes ?? [];
  const data = listed.data?.data_processes ?? [];
  const shown = nodes.slice(0, MOST_LINES);
  const isLive = nodes.some((node) => node.state === "live");
  const first = Math.min(...nodes.map((node) => node.first));
  const last = Math.max(...nodes.map((node) => node.sample.time));
  const part = partOf(parameters, first, last);
  const names = JSON.stringify([shown.map((node) => node.name), data]);
  const key =
    nodes.length > 0 ? JSON.stringify([id, names, parameters["span"], parameters["from"], parameters["to"]]) : null;
  const samples = useRefreshed(key, isLive && !parameters["from"], async () => {
    const [ofNodes, ofData] = await Promise.all([
      Promise.all(
        shown.map(async ({ name }) => ({
          name,
          samples: await fetchSamples(id, { node: name, names: NAMES, points: POINTS, ...part }),
        })),
      ),
      Promise.all(
        data.map(async (name) => ({ name, samples: await fetchSamples(id, { data: name, points: POINTS, ...part }) })),
      ),
    ]);
    return { ofNodes, ofData };
  });
  const charts = useMemo(
    () => (samples.data ? clusterCharts(samples.data.ofNodes, samples.data.ofData) : []),
    [samples.data],
  );
  const problem = listed.problem ?? samples.problem;
  return (
    <>
      {problem && !problem.needsSession && <ProblemNotice problem={problem} onRetry={listed.reload} />}
      {!listed.data && !problem && <Loading />}
      {listed.data && nodes.length === 0 && (
        <Empty title="This run has no samples of its nodes">
          Agents take them each second; a run that trains in its driver, or is of an earlier version, has none.
        </Empty>
      )}
      {nodes.length > 0 && (
        <>
          <NodeTable run={id} nodes={nodes} />
          <h2>Over time</h2>
          <SpanTools parameters={parameters} />
          {nodes.length > shown.length && (
            <p class="quiet">
              The charts show the first {countText(shown.length)} of {countText(nodes.length)} nodes.
            </p>
          )}
          <ChartGrid charts={charts} sync={`cluster ${id}`} isLoading={samples.isLoading} />
        </>
      )}
    </>
  );
}

export function MetricsPage({ parameters }: { parameters: Parameters }) {
  const list = useResource("runs", () => fetchRuns({ limit: LISTED_RUNS }));
  useEffect(() => void (document.title = "Metrics — Paceline"), []);
  const runs = list.data?.runs ?? [];
  const id = parameters["run"] || (runs.find((run) => run.driver === "alive") ?? runs[0])?.id;
  return (
    <div class="page">
      <h1>Metrics</h1>
      {list.problem && !list.problem.needsSession && <ProblemNotice problem={list.problem} onRetry={list.reload} />}
      {!list.data && !list.problem && <Loading />}
      {list.data && !id && <Empty title="There is no run yet" />}
      {id && (
        <>
          <div class="toolbar">
            <RunChoice runs={runs} id={id} />
            <a href={runHash(id)}>To the run</a>
          </div>
          <RunMetrics key={id} id={id} parameters={parameters} />
        </>
      )}
    </div>
  );
}
