// What a worker's process did over time, from what its agent has sampled. A restart begins another process.
import { useMemo } from "preact/hooks";
import { fetchNodes, fetchSamples } from "../api/api.ts";
import type { Worker } from "../api/views.ts";
import { ChartGrid, SpanTools } from "../nodes/chart_grid.tsx";
import { useRefreshed } from "../nodes/refresh.ts";
import { partOf, workerCharts } from "../nodes/sample_charts.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import type { Parameters } from "../shell/route.ts";

const POINTS = 300;

export function WorkerCharts({ id, worker, parameters }: { id: string; worker: Worker; parameters: Parameters }) {
  const nodes = useRefreshed(`nodes ${id}`, true, () => fetchNodes(id));
  const node = nodes.data?.nodes.find((one) => one.name === worker.node);
  const part = partOf(parameters, node?.first ?? 0, node?.sample.time ?? 0);
  const key = node
    ? JSON.stringify([id, worker.worker, parameters["span"], parameters["from"], parameters["to"]])
    : null;
  const samples = useRefreshed(key, node?.state !== "ended" && !parameters["from"], () =>
    fetchSamples(id, { node: worker.node, names: [`process/${worker.worker}/`], points: POINTS, ...part }),
  );
  const charts = useMemo(() => (samples.data ? workerCharts(samples.data, worker.worker) : []), [samples.data]);
  const problem = nodes.problem ?? samples.problem;
  if (problem && !problem.needsSession) return <ProblemNotice problem={problem} onRetry={nodes.reload} />;
  if (!nodes.data || (node && !samples.data)) return <Loading />;
  if (!node) {
    return (
      <Empty title="This worker was not sampled">
        Agents sample workers each second; a run of an earlier version has no samples.
      </Empty>
    );
  }
  return (
    <>
      <SpanTools parameters={parameters} />
      {charts.length === 0 && (
        <Empty title="There are no samples of it in this time">
          Agents sample workers each second: one that has ended sooner has none.
        </Empty>
      )}
      <ChartGrid charts={charts} sync={`worker ${id}`} isLoading={samples.isLoading} />
    </>
  );
}
