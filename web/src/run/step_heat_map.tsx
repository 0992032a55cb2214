// How long each rank's steps took over time, as a heat map on which a slow rank stands out.
import { useMemo } from "preact/hooks";
import { fetchStepTimes } from "../api/api.ts";
import type { RunView } from "../api/views.ts";
import { SpanTools } from "../nodes/chart_grid.tsx";
import { useRefreshed } from "../nodes/refresh.ts";
import { partOf } from "../nodes/sample_charts.ts";
import { Choices } from "../shell/choices.tsx";
import { setParameters } from "../shell/navigation.ts";
import { Loading, ProblemNotice } from "../shell/notices.tsx";
import type { Parameters } from "../shell/route.ts";
import { HeatCanvas, heightOf } from "./heat_canvas.tsx";
import { type HeatKind, heatOf } from "./step_heat.ts";

const TEXT_HEIGHT = 73; // above and below the map: what is under it does not move when it comes
const POINTS = 90; // of 15 minutes: what the samples of ten seconds have
const MANY_RANKS = 64;
const PAUSE_MS = 2000;
const LONG_PAUSE_MS = 15_000; // the server reads the samples of all nodes

function Legend({ kind }: { kind: HeatKind }) {
  const [least, most] = kind === "others" ? ["as the others", "twice their time, or more"] : ["quickest", "slowest"];
  return (
    <span class="heat-legend">
      {least} <span class="heat-scale" aria-hidden="true" /> {most}
    </span>
  );
}

const KINDS: { key: HeatKind; title: string }[] = [
  { key: "others", title: "Against the others" },
  { key: "time", title: "Step time" },
];

export function StepHeatMap({ id, run, parameters }: { id: string; run: RunView; parameters: Parameters }) {
  const last = run.live ? Date.now() / 1000 : run.since;
  const part = partOf(parameters, run.created, last);
  const key = JSON.stringify([id, parameters["span"], parameters["from"], parameters["to"]]);
  const pause = run.workers.length > MANY_RANKS ? LONG_PAUSE_MS : PAUSE_MS;
  const { data, problem, reload } = useRefreshed(
    key,
    run.live && !parameters["from"],
    () => fetchStepTimes(id, { points: POINTS, ...part }),
    pause,
  );
  const heat = useMemo(() => data && heatOf(data), [data]);
  const kind: HeatKind = parameters["heat"] === "time" ? "time" : "others";
  return (
    <section class="heat-map" aria-labelledby="heat-title">
      <h2 id="heat-title">Step time of each rank</h2>
      <div class="toolbar">
        <Choices label="Colours by" all={KINDS} chosen={kind} onChoose={(key) => setParameters({ heat: key === "others" ? "" : key })} />
        <SpanTools parameters={parameters} isBare />
        <span class="fill" />
        <Legend kind={kind} />
      </div>
      {problem && !problem.needsSession && <ProblemNotice problem={problem} onRetry={reload} />}
      {!heat && !problem && (
        <div style={{ minHeight: `${heightOf(run.workers.length) + TEXT_HEIGHT}px` }}>
          <Loading />
        </div>
      )}
      {heat && heat.columns === 0 && (
        <p class="quiet">
          No steps were timed in this time: a step is a batch of a prepared data loader or a dataset, or, in Python, a step of an optimizer.
        </p>
      )}
      {heat && heat.columns > 0 && <HeatCanvas id={id} heat={heat} kind={kind} />}
    </section>
  );
}
