// FlameTree: what a flame graph shows, functions below those that called them, each with its samples. Pure.
//
// Nodes have numbers; a parent's is smaller than its children's. A node without samples is not shown.
import type { FlameFrame, FlameGraph, FlameThread } from "../api/views.ts";
import { factsOf } from "./profile_kinds.ts";

export interface FlameTree {
  frames: FlameFrame[];
  /** −1: nobody called it. */
  parent: ArrayLike<number>;
  frame: ArrayLike<number>;
  /** Samples in which it ran itself, and with what it called. */
  own: Float64Array;
  total: Float64Array;
  /** Of all nodes together. */
  count: number;
}

/** Which part of a profile is meant; undefined: all. */
export interface Selection {
  rank?: number | undefined;
  thread?: string | undefined;
  language?: string | undefined;
}

export function isSelected(graph: FlameGraph, thread: FlameThread, selection: Selection): boolean {
  if (selection.rank !== undefined && graph.processes[thread.process]?.rank !== selection.rank) return false;
  if (selection.thread !== undefined && thread.name !== selection.thread) return false;
  return selection.language === undefined || thread.language === selection.language;
}

/** The samples of what is selected, of all its threads together. */
export function mergedTree(graph: FlameGraph, selection: Selection): FlameTree {
  const size = graph.parent.length;
  const own = new Float64Array(size);
  for (const thread of graph.threads) {
    if (!isSelected(graph, thread, selection)) continue;
    thread.nodes.forEach((node, index) => (own[node]! += thread.counts[index] ?? 0));
  }
  return { ...withTotals(graph.parent, own), frames: graph.frames, frame: graph.frame };
}

/** Adds up what nodes have themselves. */
export function withTotals(parent: ArrayLike<number>, own: Float64Array) {
  const total = own.slice();
  let count = 0;
  for (let node = total.length - 1; node >= 0; node--) {
    const above = parent[node]!;
    if (above >= 0) total[above]! += total[node]!;
    else count += total[node]!;
  }
  return { parent, own, total, count };
}

/** Samples by what a thread is called, or by its language, of what is selected otherwise; the most first. */
export function samplesBy(graph: FlameGraph, key: "name" | "language", selection: Selection): [string, number][] {
  const counts = new Map<string, number>();
  for (const thread of graph.threads) {
    if (!isSelected(graph, thread, selection)) continue;
    const count = thread.counts.reduce((sum, one) => sum + one, 0);
    if (count > 0) counts.set(thread[key], (counts.get(thread[key]) ?? 0) + count);
  }
  return [...counts].sort(([a, n], [b, m]) => m - n || a.localeCompare(b));
}

/** Ranks with a process in the profile, in their order. */
export function ranksOf(graph: FlameGraph): number[] {
  return [...new Set(graph.processes.map(({ rank }) => rank).filter((rank) => rank >= 0))].sort((a, b) => a - b);
}

/** Seconds for which one sample stands; null where bytes are counted. */
export function secondsPerSample(graph: FlameGraph): number | null {
  if (factsOf(graph.profile.kind).isOfBytes) return null;
  const rate = graph.processes.find((process) => process.rate > 0)?.rate ?? 0;
  return rate > 0 ? 1 / rate : 0;
}

/** From the outermost caller to the node itself. */
export function pathTo(tree: { parent: ArrayLike<number> }, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at >= 0; at = tree.parent[at]!) path.push(at);
  return path.reverse();
}

export interface FunctionShare {
  /** Position in the tree's `frames`. */
  frame: number;
  own: number;
  total: number;
}

/** By function, wherever it was called; one that calls itself has a sample once. */
export function functionShares(tree: FlameTree): FunctionShare[] {
  const shares = tree.frames.map((_, frame): FunctionShare => ({ frame, own: 0, total: 0 }));
  for (let node = 0; node < tree.parent.length; node++) {
    if (!tree.total[node]) continue;
    const share = shares[tree.frame[node]!]!;
    share.own += tree.own[node]!;
    if (!isBelowItself(tree, node)) share.total += tree.total[node]!;
  }
  return shares.filter((share) => share.total > 0);
}

function isBelowItself(tree: FlameTree, node: number): boolean {
  const frame = tree.frame[node];
  for (let at = tree.parent[node]!; at >= 0; at = tree.parent[at]!) if (tree.frame[at] === frame) return true;
  return false;
}

/** Samples with one of these functions anywhere on the stack. */
export function matchedCount(tree: FlameTree, isMatch: (frame: number) => boolean): number {
  const below = new Uint8Array(tree.parent.length); // whether one above matches
  let count = 0;
  for (let node = 0; node < below.length; node++) {
    const above = tree.parent[node]!;
    if (above >= 0 && below[above]) below[node] = 1;
    else if (isMatch(tree.frame[node]!)) {
      below[node] = 1;
      count += tree.total[node]!;
    }
  }
  return count;
}
