// One profile: its flame graph with filters, the functions with most of it; or it beside another, and what has changed.
import { useEffect, useMemo } from "preact/hooks";
import { fetchProfile, fetchProfiles } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import { useRun } from "../run/live_run.ts";
import { Crumbs, runCrumbs } from "../shell/crumbs.tsx";
import { Loading, ProblemNotice } from "../shell/notices.tsx";
import { type Parameters, runHash } from "../shell/route.ts";
import { printable } from "../text/printable.ts";
import { OneProfile } from "./one_profile.tsx";
import { ProfileButton } from "./profile_button.tsx";
import { InterpreterChoice, LanguageChoice, RankSelect, ThanSelect, ThreadSelect } from "./profile_filters.tsx";
import { ProfileHead, Timelines } from "./profile_head.tsx";
import { canCompare, factsOf, isProfileKind } from "./profile_kinds.ts";
import { viewOf } from "./profile_view.ts";
import { TwoProfiles } from "./two_profiles.tsx";

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
  const isOther = than !== undefined && own.data !== undefined && !canCompare(own.data.profile, than.profile);
  const runName = printable(run.data?.name ?? id);
  useEffect(() => {
    document.title = `Profile of ${runName} — Paceline`;
  }, [runName]);
  const problem = own.problem ?? other.problem ?? run.problem;
  const { data: graph } = own;
  const kind = graph?.profile.kind ?? "";
  const { title, hasStacks } = factsOf(kind);
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
      <Crumbs
        above={[...runCrumbs(id, run.data?.name), { title: "Profiles", hash: runHash(id, { tab: "profiles" }) }]}
      />
      {problem && !problem.needsSession && (
        <ProblemNotice problem={problem} onRetry={own.problem ? own.reload : other.reload} />
      )}
      {!graph && !problem && <Loading />}
      {graph && view && (
        <>
          <div class="run-title">
            <h1>
              {printable(title)}
              {view.than !== "" && ", compared"}
            </h1>
            <span class="fill" />
            {run.data && isProfileKind(kind) && (
              <ProfileButton id={id} run={run.data} rank={view.rank} kind={kind} label="Another" />
            )}
          </div>
          <ProfileHead id={id} graph={graph} />
          {!hasStacks && <Timelines id={id} profile={graph.profile} />}
          {isOther && (
            <p class="notice warn">
              Only profiles of one kind can be compared: the other one is of kind {printable(than.profile.kind)}.
            </p>
          )}
          {hasStacks && (view.than === "" || isOther) && <OneProfile graph={graph} view={view} tools={tools} />}
          {view.than !== "" && than && !isOther && <TwoProfiles graph={graph} than={than} view={view} tools={tools} />}
          {view.than !== "" && !than && !other.problem && <Loading />}
        </>
      )}
    </div>
  );
}
