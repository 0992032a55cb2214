// The profiles that a run keeps, the last first; two of them can be compared.
import { useEffect, useState } from "preact/hooks";
import { fetchProfiles } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { KeptProfile, RunView } from "../api/views.ts";
import { whyNotAskable } from "../run/why_not.ts";
import { go } from "../shell/navigation.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { profileHash } from "../shell/route.ts";
import { printable } from "../text/printable.ts";
import { useSession } from "../shell/session_page.tsx";
import { ProfileButton } from "./profile_button.tsx";
import { PROFILE_KINDS, canCompare } from "./profile_kinds.ts";
import { ProfileTable } from "./profile_table.tsx";

const PAUSE_MS = 5000;

/** Where the later of the two that are selected is compared with the earlier; "" where they cannot be. */
function compareHash(id: string, all: KeptProfile[], selected: string[]): string {
  const [later, earlier] = all.filter(({ name }) => selected.includes(name));
  return later && earlier && canCompare(later, earlier) ? profileHash(id, later.name, { than: earlier.name }) : "";
}

export function Profiles({ id, run }: { id: string; run: RunView }) {
  const { data, problem, reload } = useResource(id, () => fetchProfiles(id));
  const [selected, setSelected] = useState<string[]>([]);
  const { info } = useSession();
  useEffect(() => {
    if (!run.live) return;
    const timer = window.setInterval(reload, PAUSE_MS); // others take profiles too
    return () => window.clearInterval(timer);
  }, [run.live, reload]);
  const reason = whyNotAskable(run, info?.read_only ?? false);
  const toggle = (name: string) =>
    setSelected(selected.includes(name) ? selected.filter((one) => one !== name) : [...selected, name].slice(-2));
  const comparison = compareHash(id, data ?? [], selected);
  const tools = (
    <div class="toolbar">
      {PROFILE_KINDS.map((kind) => (
        <ProfileButton key={kind} id={id} run={run} kind={kind} />
      ))}
      {data && data.length > 1 && (
        <button
          type="button"
          disabled={comparison === ""}
          title={comparison ? "" : "Select two flame graphs of one kind"}
          onClick={() => go(comparison)}
        >
          Compare
        </button>
      )}
      {reason && <span class="quiet">{printable(reason)}</span>}
    </div>
  );
  if (problem && !data) return <ProblemNotice problem={problem} onRetry={reload} />;
  if (!data) return <Loading />;
  if (data.length === 0) {
    return (
      <>
        {tools}
        <Empty title="No profile was taken" command={`paceline profile ${run.name}`}>
          A profile shows in which functions the workers spend their processor time, where their threads wait, who
          allocates memory, or which operators run when. It is kept with the run.
        </Empty>
      </>
    );
  }
  return (
    <>
      {tools}
      <ProfileTable id={id} profiles={data} selection={{ names: selected, onToggle: toggle }} />
    </>
  );
}
