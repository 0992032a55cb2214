// One profile as a flame graph, with the functions that have most of it.
import type { ComponentChildren } from "preact";
import { useCallback, useMemo } from "preact/hooks";
import type { FlameGraph } from "../api/views.ts";
import { bytesText, plural } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import { FlameChart } from "./flame_chart.tsx";
import type { FlameColors } from "./flame_colors.ts";
import { isSelected, secondsPerSample } from "./flame_tree.ts";
import { FunctionTable } from "./function_tables.tsx";
import { NoSamples } from "./no_samples.tsx";
import { Search } from "./profile_filters.tsx";
import { showFunction, useChart } from "./profile_search.ts";
import { nodeText } from "./profile_text.ts";
import { type ProfileView, treeOf } from "./profile_view.ts";

/** What the outermost box is. */
function allText(count: number, second: number | null): string {
  if (second === null) return bytesText(count);
  return `${plural(count, "sample")}${second > 0 ? `, ${durationText(count * second)}` : ""}`;
}

export function OneProfile({ graph, view, tools }: { graph: FlameGraph; view: ProfileView; tools: ComponentChildren }) {
  const tree = useMemo(
    () => treeOf(graph, view, view.rank),
    [graph, view.rank, view.thread, view.language, view.interpreter],
  );
  const idle = useMemo(() => {
    const shown = { rank: view.rank, language: view.language || undefined };
    return graph.threads.filter((thread) => thread.is_idle && isSelected(graph, thread, shown)).length;
  }, [graph, view.rank, view.language]);
  const { chart, matched } = useChart(tree, view);
  const second = secondsPerSample(graph);
  const describe = useCallback(
    (node: number) =>
      node < 0
        ? allText(tree.count, second)
        : nodeText(tree.total[node]!, tree.own[node]!, tree.count, second),
    [tree, second],
  );
  const colorOf = useCallback(
    (node: number, colors: FlameColors) => colors.ofFrame(tree.frames[tree.frame[node]!]!),
    [tree],
  );
  return (
    <>
      <div class="toolbar">
        <Search view={view} matched={matched} />
        {tools}
        {idle > 0 && view.thread === "" && (
          <span class="quiet">without {plural(idle, "thread")} that waited all the time</span>
        )}
      </div>
      {tree.count === 0 ? (
        <NoSamples graph={graph} rank={view.rank} />
      ) : (
        <>
          <FlameChart label="Flame graph" {...chart} describe={describe} colorOf={colorOf} />
          <FunctionTable tree={tree} isOfBytes={second === null} onSearch={showFunction} />
        </>
      )}
    </>
  );
}
