// Kept profiles, a row each.
import type { KeptProfile } from "../api/views.ts";
import { plural, ranksText } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import { profileHash } from "../shell/route.ts";
import { Time } from "../shell/time.tsx";
import { printable } from "../text/printable.ts";
import { factsOf } from "./profile_kinds.ts";
import { samplesText } from "./profile_text.ts";

/** Rows that can be selected. */
export interface Selection {
  names: string[];
  onToggle: (name: string) => void;
}

export interface ProfileTableProps {
  id: string;
  profiles: KeptProfile[];
  selection?: Selection;
  /** Links show this rank alone. */
  rank?: number;
}

interface RowProps extends Omit<ProfileTableProps, "profiles"> {
  profile: KeptProfile;
}

function Row({ id, profile, selection, rank }: RowProps) {
  const { name, kind, time, who, ranks, seconds, problems } = profile;
  const parameters = rank === undefined || ranks.length < 2 ? {} : { rank: String(rank) };
  return (
    <tr>
      {selection && (
        <td>
          <input
            type="checkbox"
            checked={selection.names.includes(name)}
            aria-label={`Select ${name}`}
            onChange={() => selection.onToggle(name)}
          />
        </td>
      )}
      <td>
        <a href={profileHash(id, name, parameters)}>{time > 0 ? <Time time={time} /> : printable(name)}</a>
      </td>
      <td>{printable(factsOf(kind).shortTitle)}</td>
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

export function ProfileTable({ id, profiles, selection, rank }: ProfileTableProps) {
  return (
    <div class="scrolls" tabIndex={0} role="group" aria-label="Profiles">
      <table>
        <thead>
          <tr>
            {selection && (
              <th>
                <span class="for-screen-readers">Select</span>
              </th>
            )}
            <th>Time</th>
            <th>Kind</th>
            <th>Workers</th>
            <th class="number">Length</th>
            <th class="number">Samples</th>
            <th>Asked by</th>
          </tr>
        </thead>
        <tbody>
          {profiles.map((profile) => (
            <Row
              key={profile.name}
              id={id}
              profile={profile}
              {...(selection && { selection })}
              {...(rank !== undefined && { rank })}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}
