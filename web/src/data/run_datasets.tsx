// The datasets of one run.
import { fetchData } from "../api/api.ts";
import type { DatasetSummary, RunView } from "../api/views.ts";
import { useRefreshed } from "../nodes/refresh.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { DatasetView } from "./dataset_view.tsx";

export function hasSeveralProcesses(datasets: DatasetSummary[]): boolean {
  return new Set(datasets.map(({ process }) => process)).size > 1;
}

export function RunDatasets({ id, run }: { id: string; run: RunView }) {
  const { data, problem, reload } = useRefreshed(`data ${id}`, run.live, () => fetchData(id));
  if (problem && !data) return <ProblemNotice problem={problem} onRetry={reload} />;
  if (!data) return <Loading />;
  if (data.length === 0) {
    return (
      <Empty title="This run reads no dataset of paceline.data">
        Batches of a <code>DataLoader</code> are not counted here.
      </Empty>
    );
  }
  return (
    <>
      {problem && <ProblemNotice problem={problem} onRetry={reload} />}
      {data.map((dataset) => (
        <DatasetView
          key={`${dataset.process} ${dataset.name}`}
          dataset={dataset}
          tellsProcess={hasSeveralProcesses(data)}
          level="h2"
        />
      ))}
    </>
  );
}
