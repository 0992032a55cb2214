// The times at which a run hung: who waited for whom, how each rank stood, and where, from the stacks of all of them.
import { fetchHang, fetchHangs } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { Hang, RunView } from "../api/views.ts";
import { plural, ranksText } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { type Parameters, runHash } from "../shell/route.ts";
import { printable } from "../text/printable.ts";
import { type Wait, isWaitedFor, waitsOf } from "./hang_waits.ts";
import { StackList } from "./stack_list.tsx";

function WaitItem({ wait }: { wait: Wait }) {
  return (
    <li>
      {ranksText(wait.waiting)} {wait.waiting.length === 1 ? "waits" : "wait"} in{" "}
      <strong>{printable(wait.collective)}</strong> {wait.number}
      {wait.group > 1 && ` of group ${wait.group}`}
      {wait.missing.length > 0 && (
        <>
          , to which <strong>{ranksText(wait.missing)}</strong> {wait.missing.length === 1 ? "has" : "have"} not come
        </>
      )}
      {wait.elsewhere.length > 0 && (
        <>
          , where <strong>{ranksText(wait.elsewhere)}</strong> {wait.elsewhere.length === 1 ? "calls" : "call"} another
        </>
      )}
      {wait.missing.length + wait.elsewhere.length === 0 && ", to which all have come"}
    </li>
  );
}

function Ranks({ hang, waits }: { hang: Hang; waits: Wait[] }) {
  // Those who keep the others waiting first: with a thousand ranks they would not be seen otherwise.
  const suspects = new Set(hang.suspects);
  const ranks = [...hang.ranks].sort(
    (a, b) => Number(suspects.has(b.rank)) - Number(suspects.has(a.rank)) || a.rank - b.rank,
  );
  return (
    <div class="scrolls ranks-that-stood" tabIndex={0} role="group" aria-label="How each rank stood">
      <table>
        <thead>
          <tr>
            <th class="number">Rank</th>
            <th>Stood</th>
            <th class="number">Step</th>
            <th class="number">Without progress for</th>
            <th class="number">Longest pause before</th>
          </tr>
        </thead>
        <tbody>
          {ranks.map(({ rank, standing, progress }) => (
            <tr key={rank} class={suspects.has(rank) ? "suspect" : ""}>
              <td class="number">{rank}</td>
              <td>
                {printable(standing)}
                {isWaitedFor(waits, rank) && <span class="tag">others wait for it</span>}
              </td>
              <td class="number">{progress.step}</td>
              <td class="number">{durationText(progress.idle_s)}</td>
              <td class="number">{durationText(progress.longest_pause_s)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Evidence({ id, name }: { id: string; name: string }) {
  const { data, problem, reload } = useResource(`${id} ${name}`, () => fetchHang(id, name));
  if (problem) return <ProblemNotice problem={problem} onRetry={reload} />;
  if (!data) return <Loading />;
  const { hang, workers, stacks } = data;
  const waits = waitsOf(hang.ranks);
  return (
    <>
      <p class="notice bad">{printable(hang.text || "what was found could not be read")}</p>
      {waits.length > 0 && (
        <>
          <h2>Who waits for whom</h2>
          <ul class="under-way">
            {waits.map((wait) => (
              <WaitItem key={`${wait.group} ${wait.number} ${wait.collective}`} wait={wait} />
            ))}
          </ul>
        </>
      )}
      <h2>How each rank stood</h2>
      <Ranks hang={hang} waits={waits} />
      <h2>Stack traces</h2>
      {workers.length > 0 && <StackList workers={workers} />}
      {workers.length === 0 && stacks && <pre class="frames">{printable(stacks)}</pre>}
      {workers.length === 0 && !stacks && <p class="quiet">None could be taken.</p>}
    </>
  );
}

export function Hangs({ id, run, parameters }: { id: string; run: RunView; parameters: Parameters }) {
  const { data, problem, reload } = useResource(`${id} ${run.attempts.length}`, () => fetchHangs(id));
  if (problem) return <ProblemNotice problem={problem} onRetry={reload} />;
  if (!data) return <Loading />;
  const shown = data.find(({ name }) => name === parameters["hang"]) ?? data.at(-1);
  if (!shown) {
    return (
      <Empty title="This run has not hung" command={run.live ? `paceline stacks ${run.name}` : ""}>
        A rank that makes no progress while others wait for it is found, with the stacks of all, before anything is done.
      </Empty>
    );
  }
  return (
    <>
      <div class="toolbar">
        <nav class="choices" aria-label="When it hung">
          {data.map(({ name, attempt }) => (
            <a
              key={name}
              href={runHash(id, { tab: "hangs", hang: name })}
              aria-current={name === shown.name ? "page" : undefined}
            >
              {printable(name)} <span class="quiet">{attempt > 0 && `attempt ${attempt}`}</span>
            </a>
          ))}
        </nav>
        <span class="quiet">
          {plural(data.length, "hang")}
          {shown.deadlock && "; a deadlock: it could not go on"}
          {!shown.certain && "; it may have been slow only"}
        </span>
      </div>
      <Evidence id={id} name={shown.name} />
    </>
  );
}
