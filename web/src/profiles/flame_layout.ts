// Where the boxes of a flame graph lie: callers above, what they called below, as wide as their samples. Pure.

/** What the layout needs of a tree. */
export interface Measured {
  parent: ArrayLike<number>;
  total: ArrayLike<number>;
  count: number;
}

export interface Box {
  node: number;
  row: number;
  /** Shares of the width, from 0 to 1. */
  left: number;
  right: number;
}

export interface Layout {
  /** Row by row, each from left to right. */
  rows: Box[][];
  /** So many outermost callers have no row. */
  hidden: number;
}

/** Children of each node as lists in two arrays: those of node i begin at start[i + 1] and end before start[i + 2]. */
export interface Children {
  start: Int32Array;
  list: Int32Array;
}

/** Those with most samples first; nodes without samples are left out. start[0] begins the outermost ones. */
export function childrenOf(tree: Measured): Children {
  const size = tree.parent.length;
  const start = new Int32Array(size + 2);
  for (let node = 0; node < size; node++) if (tree.total[node]! > 0) start[tree.parent[node]! + 2]!++;
  for (let at = 1; at < start.length; at++) start[at]! += start[at - 1]!;
  const list = new Int32Array(start[size + 1]!);
  const next = start.slice();
  for (let node = 0; node < size; node++) {
    if (tree.total[node]! > 0) list[next[tree.parent[node]! + 1]!++] = node;
  }
  for (let node = -1; node < size; node++) {
    const begin = start[node + 1]!;
    const end = start[node + 2]!;
    if (end - begin > 1) list.subarray(begin, end).sort((a, b) => tree.total[b]! - tree.total[a]! || a - b);
  }
  return { start, list };
}

/** The innermost function that is in all samples: each of its callers does nothing but call the next. −1: none. */
export function trunkOf(tree: Measured, children: Children): number {
  let node = -1;
  for (;;) {
    const only = children.list[children.start[node + 1]!];
    if (only === undefined || children.start[node + 2]! - children.start[node + 1]! !== 1) return node;
    if (tree.total[only]! < tree.count * (1 - 1e-9)) return node;
    node = only;
  }
}

export interface LayoutOptions {
  /** What is narrower, as a share of the width, is left out with what it called: nobody could see it. */
  least: number;
  /** More callers of the node have no row. */
  mostCallers?: number;
}

/** With the whole width for node `zoom` and, above it, its callers; −1: for all. */
export function layoutOf(
  tree: Measured,
  children: Children,
  zoom: number,
  { least, mostCallers = Infinity }: LayoutOptions,
): Layout {
  const rows: Box[][] = [];
  const callers: number[] = [];
  for (let at = zoom; at >= 0; at = tree.parent[at]!) callers.unshift(at);
  const hidden = Math.max(0, callers.length - 1 - mostCallers);
  callers.splice(0, hidden);
  callers.forEach((node, row) => (rows[row] = [{ node, row, left: 0, right: 1 }]));
  const whole = zoom >= 0 ? tree.total[zoom]! : tree.count;
  if (!(whole > 0)) return { rows, hidden };
  let above: Box[] = zoom >= 0 ? rows[callers.length - 1]! : [{ node: -1, row: -1, left: 0, right: 1 }];
  for (let row = callers.length; above.length > 0; row++) {
    const boxes: Box[] = [];
    for (const { node: caller, left: begin } of above) {
      let left = begin;
      for (let at = children.start[caller + 1]!; at < children.start[caller + 2]!; at++) {
        const node = children.list[at]!;
        const right = left + tree.total[node]! / whole;
        if (right - left < least) break; // the others are narrower still
        boxes.push({ node, row, left, right });
        left = right;
      }
    }
    if (boxes.length > 0) rows[row] = boxes;
    above = boxes;
  }
  return { rows, hidden };
}

/** The box at a place: a row, and a share of the width. */
export function boxAt(layout: Layout, row: number, x: number): Box | undefined {
  const boxes = layout.rows[row];
  if (!boxes) return undefined;
  let first = 0;
  let end = boxes.length;
  while (first < end) {
    const middle = (first + end) >> 1;
    if (boxes[middle]!.right <= x) first = middle + 1;
    else end = middle;
  }
  const box = boxes[first];
  return box && box.left <= x ? box : undefined;
}

export type Direction = "up" | "down" | "left" | "right" | "first" | "last";

/** Where the keyboard's arrows lead from a box: to its caller, to what it called most, to its neighbours in the row. */
export function neighbour(layout: Layout, from: Box | undefined, direction: Direction): Box | undefined {
  if (!from) return layout.rows[0]?.[0];
  const boxes = layout.rows[from.row] ?? [];
  const at = boxes.findIndex((box) => box.node === from.node);
  switch (direction) {
    case "up":
      return boxAt(layout, from.row - 1, (from.left + from.right) / 2) ?? from;
    case "down":
      return layout.rows[from.row + 1]?.find((box) => isBelow(box, from)) ?? from;
    case "left":
      return boxes[at - 1] ?? from;
    case "right":
      return boxes[at + 1] ?? from;
    case "first":
      return layout.rows[0]?.[0] ?? from;
    case "last":
      return layout.rows.at(-1)?.[0] ?? from;
  }
}

function isBelow(box: Box, caller: Box): boolean {
  return box.left >= caller.left - 1e-9 && box.right <= caller.right + 1e-9;
}

export function boxOf(layout: Layout, node: number): Box | undefined {
  for (const boxes of layout.rows) {
    const found = boxes.find((box) => box.node === node);
    if (found) return found;
  }
  return undefined;
}
