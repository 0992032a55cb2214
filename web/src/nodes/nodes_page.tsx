// The nodes of all runs that go on.
import { useEffect, useMemo } from "preact/hooks";
import { fetchAllNodes } from "../api/api.ts";
import { plural } from "../format/number.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { machinesOf } from "./machines.ts";
import { MachineTable } from "./node_table.tsx";
import { useRefreshed } from "./refresh.ts";

export function NodesPage() {
  const { data, problem, reload } = useRefreshed("nodes", true, fetchAllNodes);
  useEffect(() => void (document.title = "Nodes — Paceline"), []);
  const machines = useMemo(() => machinesOf(data ?? []), [data]);
  return (
    <div class="page">
      <h1>Nodes</h1>
      {problem && !problem.needsSession && <ProblemNotice problem={problem} onRetry={reload} />}
      {!data && !problem && <Loading />}
      {data && machines.length === 0 && (
        <Empty title="No run goes on">
          Nodes of a run that is over are shown by its <a href="#/metrics">metrics</a>.
        </Empty>
      )}
      {machines.length > 0 && (
        <>
          <p class="quiet">
            {plural(machines.length, "node")} of {plural(data?.length ?? 0, "run")} under way.
          </p>
          <MachineTable machines={machines} />
        </>
      )}
    </div>
  );
}
