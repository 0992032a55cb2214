// The charts of a run's metrics. They are read for what is shown, with as many points as a screen can show.
import { useEffect, useMemo, useState } from "preact/hooks";
import { fetchMetrics } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { RunView } from "../api/views.ts";
import { Chart } from "../chart/chart.tsx";
import { ChartTools, chartViewOf } from "../chart/chart_tools.tsx";
import { compareMetricNames, flatMetrics, metricNumber, pointsOf } from "../chart/series.ts";
import { countText } from "../format/number.ts";
import { setParameters } from "../shell/navigation.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import type { Parameters } from "../shell/route.ts";

const POINTS = 800;
const CHARTS_AT_FIRST = 12;
const LEAST_PAUSE_MS = 2000; // between two readings of a live run's curves

/** Numbers among the last metrics, by name: what can be asked for before the server has told all names. */
function knownNames(run: RunView): string[] {
  return flatMetrics(run.metrics)
    .filter(([, value]) => metricNumber(value) !== undefined)
    .map(([name]) => name)
    .sort(compareMetricNames);
}

/** A count that goes up when there are new reports, at most once in `pauseMs`. */
function useRefreshes(report: number, pauseMs: number): number {
  const [count, setCount] = useState(0);
  const [lastReport, setLastReport] = useState(report);
  useEffect(() => {
    if (report === lastReport) return;
    const timer = window.setTimeout(() => {
      setLastReport(report);
      setCount((before) => before + 1);
    }, pauseMs);
    return () => window.clearTimeout(timer);
  }, [lastReport, report !== lastReport]);
  return count;
}

export function MetricCharts({ id, run, parameters }: { id: string; run: RunView; parameters: Parameters }) {
  const view = chartViewOf(parameters);
  const { from, to } = view;
  const text = (parameters["metric"] ?? "").toLowerCase();
  const [most, setMost] = useState(CHARTS_AT_FIRST);
  const [names, setNames] = useState(() => knownNames(run));
  const matching = names.filter((name) => name.toLowerCase().includes(text));
  const shown = matching.slice(0, most);
  const key = JSON.stringify([shown, from, to]);
  const series = useResource(key, async () => {
    const answer = await fetchMetrics(id, { names: shown, points: POINTS, from, to });
    // Those of the last report first: they were asked for already.
    setNames((before) => {
      const others = answer.names.filter((name) => !before.includes(name)).sort(compareMetricNames);
      return others.length > 0 ? [...before, ...others] : before;
    });
    return answer.series;
  });
  // Without names there is nothing to see yet: the first report is shown at once.
  const refreshes = useRefreshes(run.report, names.length === 0 ? 0 : LEAST_PAUSE_MS);
  const { reload } = series;
  useEffect(() => {
    if (refreshes > 0) reload();
  }, [refreshes, reload]);
  const lines = useMemo(() => {
    const entries = Object.entries(series.data ?? {});
    return new Map(entries.map(([name, json]) => [name, [{ label: name, points: pointsOf(json) }]]));
  }, [series.data]);

  if (names.length === 0 && !series.isLoading && !series.problem) {
    return (
      <Empty title="No numbers were reported yet">
        A train loop reports them with{" "}
        <code>
          paceline.train.report({"{"}"loss": …{"}"})
        </code>
        .
      </Empty>
    );
  }
  return (
    <>
      <ChartTools view={view}>
        <label class="search small">
          <span class="for-screen-readers">Metrics with</span>
          <input
            type="search"
            data-filter
            placeholder={`Filter ${countText(names.length)} metrics`}
            value={parameters["metric"] ?? ""}
            onInput={(event) => setParameters({ metric: event.currentTarget.value })}
          />
        </label>
      </ChartTools>
      {series.problem && <ProblemNotice problem={series.problem} onRetry={reload} />}
      {!series.data && series.isLoading && <Loading />}
      <div class="charts" aria-busy={series.isLoading}>
        {shown.map((name) => {
          const one = lines.get(name);
          return (
            one && (
              <Chart
                key={name}
                title={name}
                lines={one}
                x={view.x}
                logarithmic={view.logarithmic}
                smoothing={view.smoothing}
                sync={`run ${id}`}
                onZoom={view.zoom}
                onReset={view.reset}
              />
            )
          );
        })}
      </div>
      {matching.length === 0 && names.length > 0 && <Empty title="No metric has such a name" />}
      {matching.length > shown.length && (
        <button type="button" onClick={() => setMost(most + CHARTS_AT_FIRST)}>
          Show more of {countText(matching.length)} metrics
        </button>
      )}
    </>
  );
}
