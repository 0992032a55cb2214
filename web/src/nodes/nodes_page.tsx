// The nodes of all runs that go on.
import { useEffect } from "preact/hooks";
import { fetchAllNodes } from "../api/api.ts";
import { plural } from "../format/number.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { NodeTable } from "./node_table.tsx";
import { useRefreshed } from "./refresh.ts";

export function NodesPage() {
  const { data, problem, reload } = useRefreshed("nodes", true, fetchAllNodes);
  useEffect(() => void (document.title = "Nodes — Paceline"), []);
  const nodes = (data ?? []).flatMap((run) => run.nodes.map((node) => ({ run: run.id, runName: run.name, node })));
  return (
    <div class="page">
      <h1>Nodes</h1>
      {problem && !problem.needsSession && <ProblemNotice problem={problem} onRetry={reload} />}
      {!data && !problem && <Loading />}
      {data && nodes.length === 0 && (
        <Empty title="No run goes on">
          Nodes of a run that is over are shown by its <a href="#/metrics">metrics</a>.
        </Empty>
      )}
      {nodes.length > 0 && (
        <>
          <p class="quiet">
            {plural(nodes.length, "node")} of {plural(data?.length ?? 0, "run")} under way.
          </p>
          <NodeTable nodes={nodes} withRun={true} />
        </>
      )}
    </div>
  );
}
