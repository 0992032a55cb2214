// One worker, by its rank: how it stands, what it did over time, its log, its profiles, and the collectives it is in.
import { useEffect } from "preact/hooks";
import { fetchLogStreams, fetchProfiles } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { LogStream, RunView, Worker } from "../api/views.ts";
import { bytesText, countText, numberText, percentText } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import { LogPane } from "../logs/log_pane.tsx";
import { streamTitle } from "../logs/streams.ts";
import { ProfileTable } from "../profiles/profile_table.tsx";
import { shownStage } from "../runs/run_state.ts";
import { Crumbs, runCrumbs } from "../shell/crumbs.tsx";
import { Icon } from "../shell/icons.tsx";
import { setParameters } from "../shell/navigation.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { type Parameters, nodeHash, runHash, workerHash } from "../shell/route.ts";
import { StateBadge } from "../shell/state_badge.tsx";
import { useNow } from "../shell/time.tsx";
import { printable } from "../text/printable.ts";
import { CollectivesOfRank } from "./collectives.tsx";
import { useRun } from "./live_run.ts";
import { WorkerActions } from "./worker_actions.tsx";
import { WorkerCharts } from "./worker_charts.tsx";
import { cpuShare } from "./worker_numbers.ts";

const LIST_PAUSE_MS = 5000;

function Facts({ id, run, worker }: { id: string; run: RunView; worker: Worker }) {
  const now = useNow(run.live);
  const facts: [string, string | undefined][] = [
    ["Process", String(worker.pid)],
    ["Local rank", worker.local_rank === undefined ? undefined : String(worker.local_rank)],
    ["Step", worker.step === undefined ? undefined : countText(worker.step)],
    ["Phase", worker.phase === undefined ? undefined : worker.phase.replace(/_/g, " ")],
    ["In it for", worker.phase_s === undefined ? undefined : durationText(worker.phase_s)],
    ["Step time", worker.step_s ? durationText(worker.step_s) : undefined],
    ["CPU since it started", worker.cpu_s === undefined ? undefined : percentText(cpuShare(worker, now))],
    ["Memory", worker.resident_bytes === undefined ? undefined : bytesText(worker.resident_bytes)],
  ];
  return (
    <dl class="facts">
      <div>
        <dt>Node</dt>
        <dd>
          <a href={nodeHash(id, worker.node)}>
            <bdi>{printable(worker.node)}</bdi>
          </a>
        </dd>
      </div>
      {facts.map(
        ([name, value]) =>
          value !== undefined && (
            <div key={name}>
              <dt>{name}</dt>
              <dd class="number">{printable(value)}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

/** The ranks beside it, without going back to the list. */
function Neighbours({ id, run, rank }: { id: string; run: RunView; rank: number }) {
  const ranks = run.workers.flatMap((worker) => worker.rank ?? []).sort((a, b) => a - b);
  const at = ranks.indexOf(rank);
  const link = (other: number | undefined, text: string) =>
    other !== undefined && <a href={workerHash(id, other)}>{text}</a>;
  return (
    <span class="neighbours">
      {link(ranks[at - 1], `‹ rank ${ranks[at - 1]}`)} {link(at < 0 ? undefined : ranks[at + 1], `rank ${ranks[at + 1]} ›`)}
    </span>
  );
}

/** Logs of the rank: of each attempt's worker, those of now last. */
function WorkerLog({ id, run, worker, rank, parameters }: WorkerPartProps) {
  const list = useResource(id, () => fetchLogStreams(id));
  const { reload } = list;
  useEffect(() => {
    if (!run.live) return;
    const timer = window.setInterval(reload, LIST_PAUSE_MS);
    return () => window.clearInterval(timer);
  }, [run.live, reload]);
  if (list.problem) return <ProblemNotice problem={list.problem} onRetry={reload} />;
  if (!list.data) return <Loading />;
  const own: LogStream[] = list.data.streams.filter((one) => one.rank === rank);
  const usual = `worker_${worker.worker}`;
  const chosen = own.find(({ stream }) => stream === (parameters["log"] ?? usual))?.stream ?? own.at(-1)?.stream;
  if (chosen === undefined) return <Empty title="This rank has written no log" />;
  return (
    <div class="log-in-page">
      <LogPane id={id} stream={chosen} isLive={run.live} search={parameters["q"] ?? ""}>
        {own.length > 1 && (
          <label>
            Log of{" "}
            <select value={chosen} onChange={(event) => setParameters({ log: event.currentTarget.value })}>
              {own.map((one) => (
                <option key={one.stream} value={one.stream}>
                  {printable(streamTitle(one, true))} ({bytesText(one.size)})
                </option>
              ))}
            </select>
          </label>
        )}
        <code class="stream-name">{printable(chosen)}</code>
      </LogPane>
    </div>
  );
}

function WorkerProfiles({ id, run, rank }: { id: string; run: RunView; rank: number }) {
  const { data, problem, reload } = useResource(id, () => fetchProfiles(id));
  useEffect(() => {
    if (!run.live) return;
    const timer = window.setInterval(reload, LIST_PAUSE_MS);
    return () => window.clearInterval(timer);
  }, [run.live, reload]);
  if (problem && !data) return <ProblemNotice problem={problem} onRetry={reload} />;
  if (!data) return <Loading />;
  const own = data.filter(({ ranks }) => ranks.includes(rank));
  if (own.length === 0) {
    return <Empty title="No profile of this rank was taken" command={`paceline profile ${run.name} --rank ${rank}`} />;
  }
  return <ProfileTable id={id} profiles={own} rank={rank} />;
}

interface WorkerPartProps {
  id: string;
  run: RunView;
  worker: Worker;
  rank: number;
  parameters: Parameters;
}

function WorkerParts({ id, run, worker, rank, parameters }: WorkerPartProps) {
  return (
    <>
      <div class="run-title">
        <h1>Rank {rank}</h1>
        <StateBadge state={shownStage(worker.stage)} />
        {worker.last_stage && <span class="quiet">was {printable(worker.last_stage)}</span>}
        {worker.slow !== undefined && (
          <span class="state warn" title="Its steps take longer than the others'">
            <Icon name="warning" /> slow, {numberText(worker.slow)}×
          </span>
        )}
        <Neighbours id={id} run={run} rank={rank} />
        <span class="fill" />
        <WorkerActions id={id} run={run} worker={worker} rank={rank} />
      </div>
      <Facts id={id} run={run} worker={worker} />
      <h2>{run.attempts.length > 1 ? `Over time, in attempt ${run.attempts.at(-1)?.attempt}` : "Over time"}</h2>
      <WorkerCharts id={id} worker={worker} parameters={parameters} />
      <h2>Log</h2>
      <WorkerLog id={id} run={run} worker={worker} rank={rank} parameters={parameters} />
      <h2>Open collectives</h2>
      <CollectivesOfRank id={id} run={run} rank={rank} />
      <h2>Profiles</h2>
      <WorkerProfiles id={id} run={run} rank={rank} />
    </>
  );
}

export function WorkerPage({ id, rank, parameters }: { id: string; rank: number; parameters: Parameters }) {
  const { data: run, problem, reload } = useRun(id);
  const name = printable(run?.name ?? id);
  useEffect(() => void (document.title = `Rank ${rank} of ${name} — Paceline`), [rank, name]);
  const worker = run?.workers.find((one) => one.rank === rank);
  return (
    <div class="page">
      <Crumbs above={[...runCrumbs(id, run?.name), { title: "Workers", hash: runHash(id, { tab: "workers" }) }]} />
      {problem && !problem.needsSession && <ProblemNotice problem={problem} onRetry={reload} />}
      {!run && !problem && <Loading />}
      {run && !worker && (
        <Empty title={`The last attempt has no rank ${rank}`}>
          <a href={runHash(id, { tab: "workers" })}>The workers that it has</a>
        </Empty>
      )}
      {run && worker && <WorkerParts id={id} run={run} worker={worker} rank={rank} parameters={parameters} />}
    </div>
  );
}
