// Two profiles beside each other: one tree of both, by the shares that functions have of all samples. Pure.
//
// Shares, since two profiles seldom have as many samples. A box is as wide as the mean of its two shares, so that what
// is only in one of them is seen too.
import type { FlameFrame } from "../api/views.ts";
import { type FlameTree, functionShares, withTotals } from "./flame_tree.ts";
import { TreeBuilder, frameKey } from "./tree_builder.ts";

export interface DiffTree extends FlameTree {
  /** Shares of the node with what it called, in the first profile and in the second. */
  before: Float64Array;
  after: Float64Array;
}

/** The tree's nodes as nodes of the union. */
function add(tree: FlameTree, union: TreeBuilder): Int32Array {
  const frames = tree.frames.map((frame) => union.frameNumber(frame));
  const numbers = new Int32Array(tree.parent.length).fill(-1);
  for (let node = 0; node < numbers.length; node++) {
    if (!tree.total[node]) continue;
    const above = tree.parent[node]!;
    numbers[node] = union.nodeBelow(above < 0 ? -1 : numbers[above]!, frames[tree.frame[node]!]!);
  }
  return numbers;
}

function sharesIn(tree: FlameTree, numbers: Int32Array, size: number): Float64Array {
  const own = new Float64Array(size);
  if (tree.count > 0) {
    numbers.forEach((node, at) => {
      if (node >= 0) own[node]! += tree.own[at]! / tree.count;
    });
  }
  return own;
}

export function diffTree(before: FlameTree, after: FlameTree): DiffTree {
  const union = new TreeBuilder();
  const [first, second] = [add(before, union), add(after, union)];
  const size = union.parent.length;
  const [a, b] = [sharesIn(before, first, size), sharesIn(after, second, size)];
  const own = a.map((share, node) => (share + b[node]!) / 2);
  return {
    ...withTotals(union.parent, own),
    frames: union.frames,
    frame: union.frame,
    before: withTotals(union.parent, a).total,
    after: withTotals(union.parent, b).total,
  };
}

export interface Change {
  frame: FlameFrame;
  /** Shares of all samples. */
  ownBefore: number;
  ownAfter: number;
  totalBefore: number;
  totalAfter: number;
}

/** What functions had and have, those first whose share has changed most. */
export function changes(before: FlameTree, after: FlameTree, by: "own" | "total"): Change[] {
  const all = new Map<string, Change>();
  const note = (tree: FlameTree, own: "ownBefore" | "ownAfter", total: "totalBefore" | "totalAfter") => {
    for (const share of functionShares(tree)) {
      const frame = tree.frames[share.frame]!;
      const key = frameKey(frame);
      const none = { frame, ownBefore: 0, ownAfter: 0, totalBefore: 0, totalAfter: 0 };
      all.set(key, { ...(all.get(key) ?? none), [own]: share.own / tree.count, [total]: share.total / tree.count });
    }
  };
  note(before, "ownBefore", "totalBefore");
  note(after, "ownAfter", "totalAfter");
  return [...all.values()].sort((one, other) => Math.abs(changeOf(other, by)) - Math.abs(changeOf(one, by)));
}

export function changeOf(change: Change, by: "own" | "total"): number {
  return by === "own" ? change.ownAfter - change.ownBefore : change.totalAfter - change.totalBefore;
}
