// Stacks of all ranks, merged: ranks that stand at the same place are one group. Pure.
import type { StackFrame, ThreadStack, WorkerStacks } from "../api/views.ts";
import { ranksText } from "../format/number.ts";

export interface StackGroup {
  thread: string;
  /** The ranks with this stack; −1: a worker without a rank. */
  ranks: number[];
  frames: StackFrame[];
  problem: string;
  /** The main thread, which trains. */
  isMain: boolean;
}

/** Two threads stand at the same place when their functions and lines are the same: addresses say nothing. */
function keyOf(thread: ThreadStack, isMain: boolean): string {
  const name = isMain ? "main" : thread.name;
  return JSON.stringify([name, thread.problem, thread.frames.map((frame) => [frame.function, frame.file, frame.line])]);
}

/** A group for each key, in the order in which they came; `key` is found in many workers, and in one several times. */
class Groups<Group extends { ranks: number[] }> {
  readonly #groups = new Map<string, Group>();

  add(key: string, rank: number, make: () => Group) {
    const group = this.#groups.get(key) ?? make();
    this.#groups.set(key, group);
    if (!group.ranks.includes(rank)) group.ranks.push(rank);
  }

  all(): Group[] {
    return [...this.#groups.values()];
  }
}

/** Main threads first; of each, the place where the fewest ranks stand first: that is where to look. */
export function stackGroups(workers: WorkerStacks[]): StackGroup[] {
  const groups = new Groups<StackGroup>();
  for (const { rank, stacks } of workers) {
    stacks.threads.forEach((thread, index) => {
      const isMain = index === 0;
      const { name, frames, problem } = thread;
      groups.add(keyOf(thread, isMain), rank, () => ({ thread: name, ranks: [], frames, problem, isMain }));
    });
  }
  return groups.all().sort(
    (a, b) =>
      Number(b.isMain) - Number(a.isMain) || a.ranks.length - b.ranks.length || a.thread.localeCompare(b.thread),
  );
}

export interface PythonGroup {
  ranks: number[];
  text: string;
}

/** What py-spy says of threads, without what tells one process from another, or one moment. */
function placesIn(python: string): string {
  return python
    .split("\n")
    .map((line) => line.replace(/^ {2}/, "")) // which paceline/stacks/python.cpp puts before each
    .filter((line) => !/^(Process \d|Python v\d)/.test(line))
    .map((line) => line.replace(/^Thread \S+ \([^)]*\)(: )?/, "Thread ").trimEnd())
    .join("\n")
    .trim();
}

/** The same of Python's stacks. */
export function pythonGroups(workers: WorkerStacks[]): PythonGroup[] {
  const groups = new Groups<PythonGroup>();
  for (const { rank, stacks } of workers) {
    const text = placesIn(stacks.python);
    if (text !== "") groups.add(text, rank, () => ({ ranks: [], text }));
  }
  return groups.all().sort((a, b) => a.ranks.length - b.ranks.length);
}

export function frameText(frame: StackFrame): string {
  const name = frame.function || `in ${frame.module || "unknown code"}`;
  if (!frame.file) return frame.function && frame.module ? `${name} (${frame.module})` : name;
  return `${name} (${frame.file}:${frame.line})`;
}

export function stacksText(workers: WorkerStacks[]): string {
  const python = pythonGroups(workers).map(({ ranks, text }) => `${ranksText(ranks)} in Python\n${text}`);
  const native = stackGroups(workers)
    .map(({ thread, ranks, frames, problem }) => {
      const lines = frames.map((frame) => `    ${frameText(frame)}`);
      return [`thread "${thread}" of ${ranksText(ranks)}`, ...lines, ...(problem ? [`    ${problem}`] : [])].join(
        "\n",
      );
    });
  return [...python, ...native].join("\n\n");
}
