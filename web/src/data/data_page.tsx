// The datasets of all recent runs: what each operator does, what is queued, and what bounds them; those that go on first.
import { useEffect } from "preact/hooks";
import { fetchAllData } from "../api/api.ts";
import type { DataOfRun } from "../api/views.ts";
import { plural } from "../format/number.ts";
import { useRefreshed } from "../nodes/refresh.ts";
import { shownState } from "../runs/run_state.ts";
import { Icon } from "../shell/icons.tsx";
import { setParameters } from "../shell/navigation.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { type Parameters, runHash } from "../shell/route.ts";
import { StateBadge } from "../shell/state_badge.tsx";
import { Ago, useNow } from "../shell/time.tsx";
import { printable } from "../text/printable.ts";
import { isMeant } from "./dataset_numbers.ts";
import { DatasetView } from "./dataset_view.tsx";
import { hasSeveralProcesses } from "./run_datasets.tsx";

const isLive = ({ driver }: DataOfRun) => driver === "alive" || driver === "elsewhere";

function RunData({ run, now }: { run: DataOfRun; now: number }) {
  return (
    <section class="run-data" aria-label={`Datasets of ${printable(run.name)}`}>
      <div class="run-title">
        <h2>
          <a href={runHash(run.id, { tab: "data" })}>
            <bdi>{printable(run.name)}</bdi>
          </a>
        </h2>
        <StateBadge state={shownState({ ...run, gone: false })} />
        <span class="quiet">
          <Ago time={run.since} now={now} />
        </span>
      </div>
      {run.datasets.map((dataset) => (
        <DatasetView
          key={`${dataset.process} ${dataset.name}`}
          dataset={dataset}
          tellsProcess={hasSeveralProcesses(run.datasets)}
          level="h3"
        />
      ))}
    </section>
  );
}

export function DataPage({ parameters }: { parameters: Parameters }) {
  const { data, problem, reload } = useRefreshed("data", true, fetchAllData);
  const now = useNow();
  useEffect(() => void (document.title = "Data — Paceline"), []);
  const text = parameters["q"] ?? "";
  const runs = (data ?? [])
    .map((run) => ({ ...run, datasets: run.datasets.filter((dataset) => isMeant(run.name, dataset, text)) }))
    .filter(({ datasets }) => datasets.length > 0);
  const shown = [...runs.filter(isLive), ...runs.filter((run) => !isLive(run))];
  const count = shown.reduce((sum, run) => sum + run.datasets.length, 0);
  return (
    <div class="page">
      <h1>Data</h1>
      {problem && !problem.needsSession && <ProblemNotice problem={problem} onRetry={reload} />}
      {!data && !problem && <Loading />}
      {data?.length === 0 && (
        <Empty title="No run has read a dataset of paceline.data yet">
          Datasets that a trainer gets as <code>datasets=</code> are shown here, while they are read and after that.
        </Empty>
      )}
      {data && data.length > 0 && (
        <div class="toolbar">
          <label class="search">
            <Icon name="search" />
            <span class="for-screen-readers">Filter by run, dataset or operator</span>
            <input
              type="search"
              data-filter
              placeholder="Filter by run, dataset or operator"
              value={text}
              spellcheck={false}
              onInput={(event) => setParameters({ q: event.currentTarget.value })}
            />
            <kbd aria-hidden="true">/</kbd>
          </label>
          <span class="quiet" role="status">
            {plural(count, "dataset")} of {plural(shown.length, "run")}
          </span>
        </div>
      )}
      {data && data.length > 0 && shown.length === 0 && <Empty title="No run, dataset or operator has such a name" />}
      {shown.map((run) => (
        <RunData key={run.id} run={run} now={now} />
      ))}
    </div>
  );
}
