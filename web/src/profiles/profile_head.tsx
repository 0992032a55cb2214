// What a profile is, whose, who asked for it, what is missing in it, and where else it can be looked at.
import { speedscopePath, timelinePath } from "../api/api.ts";
import type { FlameGraph, KeptProfile } from "../api/views.ts";
import { plural, ranksText } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import { Time } from "../shell/time.tsx";
import { printable } from "../text/printable.ts";
import { factsOf } from "./profile_kinds.ts";

/** Nothing here shows timelines: what does reads files. */
export function Timelines({ id, profile }: { id: string; profile: KeptProfile }) {
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

export function ProfileHead({ id, graph }: { id: string; graph: FlameGraph }) {
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
        {factsOf(profile.kind).hasStacks && (
          <div>
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
          </div>
        )}
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
