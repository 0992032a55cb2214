// What stands in the place of a flame graph that would be empty.
import type { FlameGraph } from "../api/views.ts";
import { Empty } from "../shell/notices.tsx";
import { printable } from "../text/printable.ts";
import { factsOf } from "./profile_kinds.ts";

/** `rank`: the one that was chosen; undefined: all. */
export function NoSamples({ graph, rank }: { graph: FlameGraph; rank: number | undefined }) {
  const whose = rank === undefined ? "" : ` of rank ${rank}`;
  const process = graph.processes.find((one) => one.rank === rank && one.ways.length === 0);
  return (
    <Empty title={`There are no samples${whose}`}>
      {process ? printable(process.problems.join("; ")) : factsOf(graph.profile.kind).whyEmpty}
    </Empty>
  );
}
