// Two profiles, or two ranks of one, as one flame graph: what has a larger share than before, and what a smaller.
import type { ComponentChildren } from "preact";
import { useCallback, useMemo } from "preact/hooks";
import type { FlameGraph } from "../api/views.ts";
import { bytesText, plural } from "../format/number.ts";
import { printable } from "../text/printable.ts";
import { FlameChart } from "./flame_chart.tsx";
import type { FlameColors } from "./flame_colors.ts";
import { type DiffTree, diffTree } from "./flame_diff.ts";
import { secondsPerSample } from "./flame_tree.ts";
import { ChangeTable } from "./function_tables.tsx";
import { NoSamples } from "./no_samples.tsx";
import { RankSelect, Search } from "./profile_filters.tsx";
import { showFunction, useChart } from "./profile_search.ts";
import { changeText, timeText } from "./profile_text.ts";
import { type ProfileView, treeOf } from "./profile_view.ts";

function largestChange(tree: DiffTree): number {
  let most = 0.01; // what is less than a point is noise
  for (let node = 0; node < tree.before.length; node++) {
    most = Math.max(most, Math.abs(tree.after[node]! - tree.before[node]!));
  }
  return most;
}

interface TwoProfilesProps {
  graph: FlameGraph;
  than: FlameGraph;
  view: ProfileView;
  tools: ComponentChildren;
}

export function TwoProfiles({ graph, than, view, tools }: TwoProfilesProps) {
  const { before, after, tree } = useMemo(() => {
    const first = treeOf(than, view, view.thanRank);
    const second = treeOf(graph, view, view.rank);
    return { before: first, after: second, tree: diffTree(first, second) };
  }, [graph, than, view.rank, view.thanRank, view.thread, view.language, view.interpreter]);
  const { chart, matched } = useChart(tree, view);
  const most = useMemo(() => largestChange(tree), [tree]);
  const isOfBytes = secondsPerSample(graph) === null;
  const amountText = (count: number) => (isOfBytes ? bytesText(count) : plural(count, "sample"));
  const describe = useCallback(
    (node: number) =>
      node < 0
        ? `${amountText(before.count)} before, ${amountText(after.count)} after`
        : changeText(tree.before[node]!, tree.after[node]!),
    [tree],
  );
  const change = (node: number) => tree.after[node]! - tree.before[node]!;
  const colorOf = useCallback(
    (node: number, colors: FlameColors) => colors.ofChange(change(node) / most),
    [tree, most],
  );
  const markOf = useCallback(
    (node: number) => (Math.abs(change(node)) < 0.005 ? "" : change(node) > 0 ? "▲ " : "▼ "),
    [tree],
  );
  return (
    <>
      <div class="toolbar">
        <Search view={view} matched={matched} />
        {tools}
        <RankSelect label="Before" graph={than} rank={view.thanRank} name="than_rank" />
      </div>
      <p class="flame-legend">
        <span class="swatch more" /> ▲ a larger share than in{" "}
        <strong>{than === graph ? "the other rank" : printable(timeText(than.profile))}</strong>{" "}
        <span class="swatch less" /> ▼ a smaller one. Boxes are as wide as the mean of both.
      </p>
      {before.count === 0 && <NoSamples graph={than} rank={view.thanRank} />}
      {after.count === 0 && <NoSamples graph={graph} rank={view.rank} />}
      {before.count > 0 && after.count > 0 && (
        <>
          <FlameChart
            label="Flame graph of the changes"
            {...chart}
            describe={describe}
            colorOf={colorOf}
            markOf={markOf}
          />
          <ChangeTable before={before} after={after} isOfBytes={isOfBytes} onSearch={showFunction} />
        </>
      )}
    </>
  );
}
