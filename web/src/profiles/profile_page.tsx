// One profile: its flame graph with filters, the functions with most time; or it beside another, and what has changed.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useMemo } from "preact/hooks";
import { fetchProfile, fetchProfiles, speedscopePath, timelinePath } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { FlameGraph, KeptProfile, ProfileKind } from "../api/views.ts";
import { bytesText, countText, plural } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import { useRun } from "../run/live_run.ts";
import { setParameters } from "../shell/navigation.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { type Parameters, runHash } from "../shell/route.ts";
import { Time } from "../shell/time.tsx";
import { printable } from "../text/printable.ts";
import { FlameChart } from "./flame_chart.tsx";
import type { FlameColors } from "./flame_colors.ts";
import { type DiffTree, diffTree } from "./flame_diff.ts";
import { type FlameTree, matchedCount, secondsPerSample } from "./flame_tree.ts";
import { matches } from "./function_name.ts";
import { ChangeTable, FunctionTable } from "./function_tables.tsx";
import { ProfileButton } from "./profile_button.tsx";
import {
  InterpreterChoice,
  LanguageChoice,
  RankSelect,
  Search,
  ThanSelect,
  ThreadSelect,
} from "./profile_filters.tsx";
import { TITLES, changeText, kindText, nodeText, ranksText, timeText } from "./profile_text.ts";
import { type ProfileView, treeOf, viewOf } from "./profile_view.ts";

/** Which frames the search means, and in what share of the samples one of them is. */
function useMatches(tree: FlameTree, search: string) {
  return useMemo(() => {
    if (search === "") return { isMatch: undefined, matched: undefined };
    const matching = tree.frames.map((frame) => matches(frame, search));
    const isMatch = (frame: number) => matching[frame]!;
    return { isMatch, matched: tree.count > 0 ? matchedCount(tree, isMatch) / tree.count : 0 };
  }, [tree, search]);
}

const onZoom = (node: number) => setParameters({ at: node < 0 ? "" : String(node) }, { replace: false });
const onSearch = (text: string) => setParameters({ q: text });

/** A zoom that the tree does not have, or no more, is none. */
function zoomIn(tree: FlameTree, zoom: number): number {
  return (tree.total[zoom] ?? 0) > 0 ? zoom : -1;
}

/** `rank`: of which there are none; undefined: of nothing that was chosen. */
function NoSamples({ graph, rank }: { graph: FlameGraph; rank: number | undefined }) {
  const whose = rank === undefined ? "" : ` of rank ${rank}`;
  const process = graph.processes.find((one) => one.rank === rank && one.ways.length === 0);
  return (
    <Empty title={`There are no samples${whose}`}>
      {process
        ? printable(process.problems.join("; "))
        : "What was chosen used no processor time: it waited, for data or for other ranks. Its stacks tell where."}
    </Empty>
  );
}

/** What the outermost box is. */
function allText(count: number, second: number | null): string {
  if (second === null) return bytesText(count);
  return `${plural(count, "sample")}${second > 0 ? `, ${durationText(count * second)}` : ""}`;
}

/** Nothing here shows timelines: what does reads files. */
function Timelines({ id, profile }: { id: string; profile: KeptProfile }) {
  return (
    <>
      <p>
        LibTorch's operators in all threads, in Chrome's format: open a file at{" "}
        <code>ui.perfetto.dev</code>, which sends it nowhere, or at <code>chrome://tracing</code>.
      </p>
      <ul class="timelines">
        {profile.ranks.map((rank) => (
          <li key={rank}>
            <a href={timelinePath(id, profile.name, rank)} download={`timeline_rank_${rank}.json.gz`}>
              Download rank {rank}
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}

function OneProfile({ graph, view, tools }: { graph: FlameGraph; view: ProfileView; tools: ComponentChildren }) {
  const tree = useMemo(
    () => treeOf(graph, view, view.rank),
    [graph, view.rank, view.thread, view.language, view.interpreter],
  );
  const { isMatch, matched } = useMatches(tree, view.search);
  const second = secondsPerSample(graph);
  const describe = useCallback(
    (node: number) =>
      node < 0
        ? allText(tree.count, second)
        : nodeText(tree.total[node]!, tree.own[node]!, tree.count, second),
    [tree, second],
  );
  const colorOf = useCallback(
    (node: number, colors: FlameColors) => colors.ofFrame(tree.frames[tree.frame[node]!]!),
    [tree],
  );
  return (
    <>
      <div class="toolbar">
        <Search view={view} matched={matched} />
        {tools}
      </div>
      {tree.count === 0 ? (
        <NoSamples graph={graph} rank={view.rank} />
      ) : (
        <>
          <FlameChart
            label="Flame graph"
            tree={tree}
            zoom={zoomIn(tree, view.zoom)}
            onZoom={onZoom}
            isMatch={isMatch}
            describe={describe}
            colorOf={colorOf}
          />
          <FunctionTable tree={tree} onSearch={onSearch} />
        </>
      )}
    </>
  );
}

function largestChange(tree: DiffTree): number {
  let most = 0.01; // what is less than a point is noise
  for (let node = 0; node < tree.before.length; node++) {
    most = Math.max(most, Math.abs(tree.after[node]! - tree.before[node]!));
  }
  return most;
}

interface TwoProfilesProps {
  graph: FlameGraph;
  than: FlameGraph;
  view: ProfileView;
  tools: ComponentChildren;
}

function TwoProfiles({ graph, than, view, tools }: TwoProfilesProps) {
  const { before, after, tree } = useMemo(() => {
    const first = treeOf(than, view, view.thanRank);
    const second = treeOf(graph, view, view.rank);
    return { before: first, after: second, tree: diffTree(first, second) };
  }, [graph, than, view.rank, view.thanRank, view.thread, view.language, view.interpreter]);
  const { isMatch, matched } = useMatches(tree, view.search);
  const most = useMemo(() => largestChange(tree), [tree]);
  const describe = useCallback(
    (node: number) =>
      node < 0
        ? `${plural(before.count, "sample")} before, ${countText(after.count)} after`
        : changeText(tree.before[node]!, tree.after[node]!),
    [tree],
  );
  const change = (node: number) => tree.after[node]! - tree.before[node]!;
  const colorOf = useCallback(
    (node: number, colors: FlameColors) => colors.ofChange(change(node) / most),
    [tree, most],
  );
  const markOf = useCallback(
    (node: number) => (Math.abs(change(node)) < 0.005 ? "" : change(node) > 0 ? "▲ " : "▼ "),
    [tree],
  );
  return (
    <>
      <div class="toolbar">
        <Search view={view} matched={matched} />
        {tools}
        <RankSelect label="Before" graph={than} rank={view.thanRank} name="than_rank" />
      </div>
      <p class="flame-legend">
        <span class="swatch more" /> ▲ a larger share than in{" "}
        <strong>{than === graph ? "the other rank" : printable(timeText(than.profile))}</strong>{" "}
        <span class="swatch less" /> ▼ a smaller one. Boxes are as wide as the mean of both.
      </p>
      {before.count === 0 && <NoSamples graph={than} rank={view.thanRank} />}
      {after.count === 0 && <NoSamples graph={graph} rank={view.rank} />}
      {before.count > 0 && after.count > 0 && (
        <>
          <FlameChart
            label="Flame graph of the changes"
            tree={tree}
            zoom={zoomIn(tree, view.zoom)}
            onZoom={onZoom}
            isMatch={isMatch}
            describe={describe}
            colorOf={colorOf}
            markOf={markOf}
          />
          <ChangeTable before={before} after={after} onSearch={onSearch} />
        </>
      )}
    </>
  );
}

function Head({ id, graph }: { id: string; graph: FlameGraph }) {
  const { profile } = graph;
  const dropped = graph.processes.reduce((sum, process) => sum + process.dropped, 0);
  const address = encodeURIComponent(`../${speedscopePath(id, profile.name)}`);
  const viewer = `speedscope/#profileURL=${address}&view=left-heavy`; // samples are counted, not in the order of time
  return (
    <>
      <dl class="facts">
        <div>
          <dt>Taken</dt>
          <dd>{profile.time > 0 ? <Time time={profile.time} /> : printable(profile.name)}</dd>
        </div>
        <div>
          <dt>Workers</dt>
          <dd>{ranksText(profile.ranks)}</dd>
        </div>
        <div>
          <dt>Sampled for</dt>
          <dd class="number">{durationText(profile.seconds)}</dd>
        </div>
        <div>
          <dt>Asked by</dt>
          <dd>{printable(profile.who || "not known")}</dd>
        </div>
        {profile.kind !== "timeline" && <div>
          <dt>Elsewhere</dt>
          <dd>
            <a href={viewer} target="_blank" rel="noopener">
              Open in speedscope
            </a>{" "}
            ·{" "}
            <a href={speedscopePath(id, profile.name)} download={`${profile.name}.speedscope.json`}>
              Download
            </a>
          </dd>
        </div>}
      </dl>
      {(profile.problems.length > 0 || dropped > 0) && (
        <details class="profile-problems">
          <summary>{plural(profile.problems.length + Number(dropped > 0), "remark")} on what is missing</summary>
          <ul>
            {profile.problems.map((problem) => (
              <li key={problem}>{printable(problem)}</li>
            ))}
            {dropped > 0 && <li>{plural(dropped, "sample")} found no room</li>}
          </ul>
        </details>
      )}
    </>
  );
}

export interface ProfilePageProps {
  id: string;
  name: string;
  parameters: Parameters;
}

export function ProfilePage({ id, name, parameters }: ProfilePageProps) {
  const run = useRun(id);
  const own = useResource(`${id}/${name}`, () => fetchProfile(id, name));
  const list = useResource(id, () => fetchProfiles(id));
  const view = useMemo(() => own.data && viewOf(parameters, own.data), [parameters, own.data]);
  const wanted = view?.than && view.than !== name ? view.than : null;
  const other = useResource(wanted && `${id}/${wanted}`, () => fetchProfile(id, wanted!));
  const than = view?.than === name ? own.data : other.data;
  const runName = printable(run.data?.name ?? id);
  useEffect(() => {
    document.title = `Profile of ${runName} — Paceline`;
  }, [runName]);
  const problem = own.problem ?? other.problem ?? run.problem;
  const { data: graph } = own;
  const isTimeline = graph?.profile.kind === "timeline";
  const tools = graph && view && (
    <>
      <RankSelect label={view.than ? "After" : "Workers"} graph={graph} rank={view.rank} name="rank" />
      <LanguageChoice graph={graph} view={view} />
      <ThreadSelect graph={graph} view={view} />
      <InterpreterChoice graph={graph} view={view} />
      <ThanSelect profiles={list.data ?? []} graph={graph} view={view} />
    </>
  );
  return (
    <div class="page">
      <nav class="crumbs" aria-label="Where you are">
        <a href="#/runs">Runs</a>
        <a href={runHash(id)}>
          <bdi>{runName}</bdi>
        </a>
        <a href={runHash(id, { tab: "profiles" })}>Profiles</a>
      </nav>
      {problem && !problem.needsSession && (
        <ProblemNotice problem={problem} onRetry={own.problem ? own.reload : other.reload} />
      )}
      {!graph && !problem && <Loading />}
      {graph && view && (
        <>
          <div class="run-title">
            <h1>
              {printable(TITLES[graph.profile.kind as ProfileKind] ?? kindText(graph.profile.kind))}
              {view.than !== "" && ", compared"}
            </h1>
            <span class="fill" />
            {run.data && (
              <ProfileButton id={id} run={run.data} rank={view.rank} kind={graph.profile.kind as ProfileKind} label="Another" />
            )}
          </div>
          <Head id={id} graph={graph} />
          {isTimeline && <Timelines id={id} profile={graph.profile} />}
          {!isTimeline && view.than === "" && <OneProfile graph={graph} view={view} tools={tools} />}
          {view.than !== "" && than && <TwoProfiles graph={graph} than={than} view={view} tools={tools} />}
          {view.than !== "" && !than && !other.problem && <Loading />}
        </>
      )}
    </div>
  );
}
