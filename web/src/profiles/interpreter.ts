// Python's interpreter in the stacks of C++: dozens of its functions for one call in Python, which say nothing about
// the program. Pure.
import type { FlameFrame } from "../api/views.ts";
import { type FlameTree, withTotals } from "./flame_tree.ts";
import { TreeBuilder } from "./tree_builder.ts";

const MODULE = /^(libpython3|python3)/;

export function isOfInterpreter(frame: FlameFrame): boolean {
  return MODULE.test(frame.module);
}

/** Functions of the interpreter that call each other become one box. */
export function withoutInterpreter(tree: FlameTree): FlameTree {
  const builder = new TreeBuilder();
  const isInterpreter = tree.frames.map(isOfInterpreter);
  const folded: FlameFrame = { function: "[Python interpreter]", file: "", line: 0, module: "" };
  const frames = tree.frames.map((frame, number) => builder.frameNumber(isInterpreter[number] ? folded : frame));
  const numbers = new Int32Array(tree.parent.length).fill(-1);
  const own = new Float64Array(tree.parent.length);
  for (let node = 0; node < numbers.length; node++) {
    if (!tree.total[node]) continue;
    const above = tree.parent[node]!;
    const isInner = above >= 0 && isInterpreter[tree.frame[node]!] && isInterpreter[tree.frame[above]!];
    const below = above < 0 ? -1 : numbers[above]!;
    const number = isInner ? below : builder.nodeBelow(below, frames[tree.frame[node]!]!);
    numbers[node] = number;
    own[number]! += tree.own[node]!;
  }
  const { parent, frame } = builder;
  return { ...withTotals(parent, own.slice(0, parent.length)), frames: builder.frames, frame };
}
