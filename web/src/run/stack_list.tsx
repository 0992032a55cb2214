// Stacks of workers: ranks that stand at the same place shown once, their main threads first.
import type { WorkerStacks } from "../api/views.ts";
import { ranksText } from "../format/number.ts";
import { printable } from "../text/printable.ts";
import { type StackGroup, frameText, pythonGroups, stackGroups } from "./stack_groups.ts";

const OPEN_AT_FIRST = 4;

function Group({ group, isOpen }: { group: StackGroup; isOpen: boolean }) {
  return (
    <details open={isOpen} class="stack">
      <summary>
        <strong>{ranksText(group.ranks)}</strong> thread <code>{printable(group.thread)}</code>
        <span class="quiet"> {printable(group.frames[0] ? frameText(group.frames[0]) : group.problem)}</span>
      </summary>
      <ol class="frames">
        {group.frames.map((frame, index) => (
          <li key={index} class={frame.inlined ? "inlined" : ""}>
            <code>{printable(frame.function || `in ${frame.module || "unknown code"}`)}</code>
            {frame.file && <span class="quiet number"> {printable(`${frame.file}:${frame.line}`)}</span>}
          </li>
        ))}
      </ol>
      {group.problem && <p class="quiet">{printable(group.problem)}</p>}
    </details>
  );
}

function PythonStacks({ workers }: { workers: WorkerStacks[] }) {
  const groups = pythonGroups(workers);
  const problem = workers.find((worker) => worker.stacks.python_problem !== "")?.stacks.python_problem;
  return (
    <>
      {groups.map(({ ranks, text }, index) => (
        <details key={text} class="stack" open={index < OPEN_AT_FIRST}>
          <summary>
            <strong>{ranksText(ranks)}</strong> in Python
          </summary>
          <pre class="frames">{printable(text)}</pre>
        </details>
      ))}
      {groups.length === 0 && problem && <p class="quiet">No Python frames: {printable(problem)}</p>}
    </>
  );
}

export function StackList({ workers }: { workers: WorkerStacks[] }) {
  const groups = stackGroups(workers);
  const mains = groups.filter((group) => group.isMain);
  const others = groups.filter((group) => !group.isMain);
  return (
    <>
      <PythonStacks workers={workers} />
      {mains.length > 0 && <h3>Main threads</h3>}
      {mains.map((group, index) => (
        <Group key={index} group={group} isOpen={index < OPEN_AT_FIRST} />
      ))}
      {others.length > 0 && <h3>Other threads</h3>}
      {others.map((group, index) => (
        <Group key={index} group={group} isOpen={false} />
      ))}
    </>
  );
}
