// One run: its state and the reason of it, its attempts, and in sections everything that is known of it.
import { useCallback, useEffect, useMemo } from "preact/hooks";
import { fetchHangs } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { RunView } from "../api/views.ts";
import { RunDatasets } from "../data/run_datasets.tsx";
import { countText } from "../format/number.ts";
import { shownState } from "../runs/run_state.ts";
import { Crumbs, RUNS } from "../shell/crumbs.tsx";
import { Loading, ProblemNotice } from "../shell/notices.tsx";
import { type Parameters, runHash } from "../shell/route.ts";
import { Profiles } from "../profiles/profiles.tsx";
import { printable } from "../text/printable.ts";
import { Attempts } from "./attempts.tsx";
import { Checkpoints } from "./checkpoints.tsx";
import { CollectivesSection } from "./collectives.tsx";
import { Configuration } from "./configuration.tsx";
import { ControllerLog } from "./controller_log.tsx";
import { Events } from "./events.tsx";
import { GoodputBar } from "./goodput.tsx";
import { Hangs } from "./hangs.tsx";
import { MetricCharts } from "./metric_charts.tsx";
import { driverOf } from "./run_driver.ts";
import { useRun } from "./live_run.ts";
import { RunHeader } from "./run_header.tsx";
import { Workers } from "./workers.tsx";

interface Section {
  key: string;
  title: string;
  count?: (run: RunView) => number;
}

const SECTIONS: Section[] = [
  { key: "", title: "Metrics" },
  { key: "workers", title: "Workers", count: (run) => run.workers.length },
  { key: "checkpoints", title: "Checkpoints", count: (run) => run.checkpoints.length },
  { key: "data", title: "Data", count: (run) => run.datasets.length },
  { key: "collectives", title: "Collectives" },
  { key: "hangs", title: "Hangs", count: (run) => run.hangs?.length ?? 0 },
  { key: "profiles", title: "Profiles" },
  { key: "events", title: "Events" },
  { key: "controller", title: "Controller log" },
  { key: "configuration", title: "Configuration" },
];

/** While a run lives it may hang: what was found last of this attempt stands above everything else. */
function HangNotice({ id, run }: { id: string; run: RunView }) {
  const { data } = useResource(run.hangs?.length ? `${id} ${run.hangs.at(-1)}` : null, () => fetchHangs(id));
  const last = data?.at(-1);
  if (!last || last.attempt !== run.attempts.at(-1)?.attempt) return null;
  return (
    <p class="notice bad" role="alert">
      <span>
        This attempt was found to hang: {printable(last.text)}{" "}
        <a href={runHash(id, { tab: "hangs", hang: last.name })}>Who waits for whom</a>
      </span>
    </p>
  );
}

function Sections({ id, run, tab }: { id: string; run: RunView; tab: string }) {
  return (
    <nav class="sections" aria-label="Sections of the run">
      {SECTIONS.map(({ key, title, count }) => (
        <a key={key} href={runHash(id, { tab: key })} aria-current={tab === key ? "page" : undefined}>
          {title}
          {count && <span class="count">{countText(count(run))}</span>}
        </a>
      ))}
    </nav>
  );
}

function SectionContent({ id, run, parameters }: { id: string; run: RunView; parameters: Parameters }) {
  switch (parameters["tab"] ?? "") {
    case "workers":
      return <Workers id={id} run={run} parameters={parameters} />;
    case "checkpoints":
      return <Checkpoints id={id} run={run} />;
    case "data":
      return <RunDatasets id={id} run={run} />;
    case "collectives":
      return <CollectivesSection id={id} run={run} />;
    case "hangs":
      return <Hangs id={id} run={run} parameters={parameters} />;
    case "profiles":
      return <Profiles id={id} run={run} />;
    case "events":
      return <Events id={id} run={run} />;
    case "controller":
      return <ControllerLog id={id} run={run} />;
    case "configuration":
      return <Configuration id={id} run={run} />;
    default:
      return <MetricCharts id={id} run={run} parameters={parameters} />;
  }
}

export function RunPage({ id, parameters }: { id: string; parameters: Parameters }) {
  const { data: run, problem, reload } = useRun(id);
  const tab = parameters["tab"] ?? "";
  const word = useMemo(() => (run ? shownState({ ...run, driver: driverOf(run) }).word : ""), [run]);
  useEffect(() => {
    document.title = `${printable(run?.name ?? id)}${word ? ` · ${word}` : ""} — Paceline`;
  }, [run?.name, id, word]);
  const onChanged = useCallback(() => reload(), [reload]);

  return (
    <div class="page">
      <Crumbs above={[RUNS]} />
      {problem && !problem.needsSession && <ProblemNotice problem={problem} onRetry={reload} />}
      {!run && !problem && <Loading />}
      {run && (
        <>
          <RunHeader id={id} run={run} onChanged={onChanged} />
          {run.live && <HangNotice id={id} run={run} />}
          <Attempts run={run} />
          <GoodputBar run={run} />
          <Sections id={id} run={run} tab={tab} />
          <section aria-label={SECTIONS.find((one) => one.key === tab)?.title ?? "Metrics"}>
            <SectionContent id={id} run={run} parameters={parameters} />
          </section>
        </>
      )}
    </div>
  );
}
