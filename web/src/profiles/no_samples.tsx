// What stands in the place of a flame graph that would be empty.
import type { FlameGraph } from "../api/views.ts";
import { Empty } from "../shell/notices.tsx";
import { printable } from "../text/printable.ts";

const WHY = {
  cpu: "What was chosen used no processor time: it waited, for data or for other ranks. Its stacks tell where.",
  memory: "What was chosen allocated nothing that was seen.",
};

/** `rank`: of which there are none; undefined: of nothing that was chosen. */
export function NoSamples({ graph, rank }: { graph: FlameGraph; rank: number | undefined }) {
  const whose = rank === undefined ? "" : ` of rank ${rank}`;
  const process = graph.processes.find((one) => one.rank === rank && one.ways.length === 0);
  return (
    <Empty title={`There are no samples${whose}`}>
      {process ? printable(process.problems.join("; ")) : WHY[graph.profile.kind === "memory" ? "memory" : "cpu"]}
    </Empty>
  );
}
