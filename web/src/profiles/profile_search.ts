// What a profile's page does with its search and its zoom, which stand in the address.
import { useMemo } from "preact/hooks";
import { setParameters } from "../shell/navigation.ts";
import { type FlameTree, matchedCount } from "./flame_tree.ts";
import { matches } from "./function_name.ts";
import type { ProfileView } from "./profile_view.ts";

export function showFunction(text: string): void {
  setParameters({ q: text });
}

function onZoom(node: number): void {
  setParameters({ at: node < 0 ? "" : String(node) }, { replace: false });
}

/** What a flame chart of the tree shows of the view; and in what share of the samples the search found something. */
export function useChart<Tree extends FlameTree>(tree: Tree, { search, zoom }: ProfileView) {
  const { isMatch, matched } = useMemo(() => {
    if (search === "") return { isMatch: undefined, matched: undefined };
    const matching = tree.frames.map((frame) => matches(frame, search));
    const isMatch = (frame: number) => matching[frame]!;
    return { isMatch, matched: tree.count > 0 ? matchedCount(tree, isMatch) / tree.count : 0 };
  }, [tree, search]);
  // A zoom that the tree does not have, or no more, is none.
  const there = (tree.total[zoom] ?? 0) > 0 ? zoom : -1;
  return { chart: { tree, zoom: there, onZoom, isMatch }, matched };
}
