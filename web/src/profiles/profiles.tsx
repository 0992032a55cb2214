// The profiles that a run keeps, the last first; two of them can be compared.
import { useEffect, useState } from "preact/hooks";
import { fetchProfiles } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { KeptProfile, RunView } from "../api/views.ts";
import { plural } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import { go } from "../shell/navigation.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { profileHash } from "../shell/route.ts";
import { Time } from "../shell/time.tsx";
import { printable } from "../text/printable.ts";
import { useSession } from "../shell/session_page.tsx";
import { PROFILE_KINDS, ProfileButton } from "./profile_button.tsx";
import { kindText, ranksText, samplesText, whyNoProfile } from "./profile_text.ts";

const PAUSE_MS = 5000;

interface RowProps {
  id: string;
  profile: KeptProfile;
  isSelected: boolean;
  onSelect: () => void;
}

function Row({ id, profile, isSelected, onSelect }: RowProps) {
  const { name, kind, time, who, ranks, seconds, problems } = profile;
  return (
    <tr>
      <td>
        <input type="checkbox" checked={isSelected} aria-label={`Select ${name}`} onChange={onSelect} />
      </td>
      <td>
        <a href={profileHash(id, name)}>{time > 0 ? <Time time={time} /> : printable(name)}</a>
      </td>
      <td>{printable(kindText(kind))}</td>
      <td>{ranksText(ranks)}</td>
      <td class="number">{durationText(seconds)}</td>
      <td class="number">{printable(samplesText(profile))}</td>
      <td class="quiet details">
        {printable(who || "not known")}
        {problems.length > 0 && (
          <span class="warn-text" title={problems.map(printable).join("\n")}>
            {" "}
            · {plural(problems.length, "remark")}
          </span>
        )}
      </td>
    </tr>
  );
}

/** Two flame graphs of the same things. */
function canCompare(all: KeptProfile[], selected: string[]): boolean {
  const [one, other] = all.filter(({ name }) => selected.includes(name));
  return one !== undefined && other !== undefined && one.kind === other.kind && one.kind !== "timeline";
}

/** The later of two compared with the earlier. */
function compareHash(id: string, all: KeptProfile[], selected: string[]): string {
  const [later, earlier] = all.filter(({ name }) => selected.includes(name));
  return profileHash(id, later?.name ?? "", { than: earlier?.name ?? "" });
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
  const reason = whyNoProfile(run, info?.read_only ?? false);
  const toggle = (name: string) =>
    setSelected(selected.includes(name) ? selected.filter((one) => one !== name) : [...selected, name].slice(-2));
  const tools = (
    <div class="toolbar">
      {PROFILE_KINDS.map((kind) => (
        <ProfileButton key={kind} id={id} run={run} kind={kind} />
      ))}
      {data && data.length > 1 && (
        <button
          type="button"
          disabled={!canCompare(data, selected)}
          title={canCompare(data, selected) ? "" : "Select two flame graphs of one kind"}
          onClick={() => go(compareHash(id, data, selected))}
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
          A profile shows in which functions the workers spend their processor time, who allocates memory, or which
          operators run when. It is kept with the run.
        </Empty>
      </>
    );
  }
  return (
    <>
      {tools}
      <div class="scrolls" tabIndex={0} role="group" aria-label="Profiles">
        <table>
          <thead>
            <tr>
              <th>
                <span class="for-screen-readers">Select</span>
              </th>
              <th>Time</th>
              <th>Kind</th>
              <th>Workers</th>
              <th class="number">Length</th>
              <th class="number">Samples</th>
              <th>Asked by</th>
            </tr>
          </thead>
          <tbody>
            {data.map((profile) => (
              <Row
                key={profile.name}
                id={id}
                profile={profile}
                isSelected={selected.includes(profile.name)}
                onSelect={() => toggle(profile.name)}
              />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
