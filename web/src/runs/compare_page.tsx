// Curves of several runs in one chart, and what their last reports say.
import { useEffect, useMemo } from "preact/hooks";
import { fetchMetrics, fetchRun } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { RunView } from "../api/views.ts";
import { Chart } from "../chart/chart.tsx";
import { ChartTools, chartViewOf } from "../chart/chart_tools.tsx";
import { compareMetricNames, extentOf, flatMetrics, metricNumber, pointsOf } from "../chart/series.ts";
import { countText, numberText } from "../format/number.ts";
import { Crumbs, RUNS } from "../shell/crumbs.tsx";
import { setParameters } from "../shell/navigation.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { type Parameters, runHash } from "../shell/route.ts";
import { StateBadge } from "../shell/state_badge.tsx";
import { Time } from "../shell/time.tsx";
import { printable } from "../text/printable.ts";
import { shownState } from "./run_state.ts";

const POINTS = 800;

interface Compared {
  id: string;
  run: RunView;
}

/** Metrics with numbers that any of them has, those of all first. */
function commonMetrics(all: Compared[]): string[] {
  const counts = new Map<string, number>();
  for (const { run } of all) {
    for (const [name, value] of flatMetrics(run.metrics)) {
      if (metricNumber(value) !== undefined) counts.set(name, (counts.get(name) ?? 0) + 1);
    }
  }
  return [...counts].sort(([a, n], [b, m]) => m - n || compareMetricNames(a, b)).map(([name]) => name);
}

function CompareTable({
  all,
  series,
  metric,
}: {
  all: Compared[];
  series: ReturnType<typeof pointsOf>[];
  metric: string;
}) {
  return (
    <div class="scrolls" tabIndex={0} role="group" aria-label="Compared runs">
      <table>
        <thead>
          <tr>
            <th>Run</th>
            <th>State</th>
            <th class="number">Report</th>
            <th class="number">Last {printable(metric)}</th>
            <th class="number">Lowest</th>
            <th class="number">Highest</th>
            <th class="number">Workers</th>
            <th class="number">Created</th>
          </tr>
        </thead>
        <tbody>
          {all.map(({ id, run }, number) => {
            const extent = series[number] ? extentOf(series[number]) : null;
            const last = flatMetrics(run.metrics).find(([name]) => name === metric)?.[1];
            return (
              <tr key={id}>
                <td>
                  <span class={`swatch line-${number % 8}`} />{" "}
                  <a href={runHash(id)}>
                    <bdi>{printable(run.name)}</bdi>
                  </a>
                </td>
                <td>
                  <StateBadge state={shownState({ ...run, driver: null })} />
                </td>
                <td class="number">{countText(run.report)}</td>
                <td class="number">{numberText(metricNumber(last) ?? NaN)}</td>
                <td class="number">{extent ? numberText(extent.least) : "–"}</td>
                <td class="number">{extent ? numberText(extent.greatest) : "–"}</td>
                <td class="number">{run.attempts.at(-1)?.world_size ?? "–"}</td>
                <td class="number">
                  <Time time={run.created} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

export function ComparePage({ ids, parameters }: { ids: string[]; parameters: Parameters }) {
  const runs = useResource(ids.join("\n") || null, () =>
    Promise.all(ids.map(async (id): Promise<Compared> => ({ id, run: await fetchRun(id) }))),
  );
  const names = useMemo(() => commonMetrics(runs.data ?? []), [runs.data]);
  const metric = parameters["metric"] ?? names[0] ?? "";
  const view = chartViewOf(parameters);
  const { from, to } = view;
  const key = runs.data && metric ? [ids.join("\n"), metric, from ?? "", to ?? ""].join("\n") : null;
  const curves = useResource(key, async () => {
    const answers = await Promise.all(ids.map((id) => fetchMetrics(id, { names: [metric], points: POINTS, from, to })));
    return answers.map((answer) => pointsOf(answer.series[metric]));
  });
  const lines = useMemo(() => {
    return (runs.data ?? []).map(({ run }, number) => ({
      label: run.name,
      points: curves.data?.[number] ?? pointsOf(undefined),
    }));
  }, [runs.data, curves.data]);

  useEffect(() => {
    document.title = "Compare — Paceline";
  }, []);
  const problem = runs.problem ?? curves.problem;
  if (ids.length === 0) {
    return (
      <Empty title="No runs are selected">
        <a href="#/runs">Select some in the list</a>
      </Empty>
    );
  }
  return (
    <div class="page">
      <Crumbs above={[RUNS]} />
      <h1>Compare {ids.length} runs</h1>
      {problem && <ProblemNotice problem={problem} onRetry={runs.problem ? runs.reload : curves.reload} />}
      {!runs.data && !problem && <Loading />}
      {runs.data && (
        <>
          <ChartTools view={view}>
            <label>
              Metric{" "}
              <select value={metric} onChange={(event) => setParameters({ metric: event.currentTarget.value })}>
                {names.map((name) => (
                  <option key={name} value={name}>
                    {printable(name)}
                  </option>
                ))}
              </select>
            </label>
          </ChartTools>
          {curves.data ? (
            <Chart
              title={metric}
              lines={lines}
              x={view.x}
              logarithmic={view.logarithmic}
              smoothing={view.smoothing}
              sync="compare"
              height={340}
              onZoom={view.zoom}
              onReset={view.reset}
            />
          ) : (
            <Loading />
          )}
          <CompareTable all={runs.data} series={curves.data ?? []} metric={metric} />
        </>
      )}
    </div>
  );
}
