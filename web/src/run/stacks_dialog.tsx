// What the threads of a live run's workers are doing: taken now, ranks that stand at the same place shown once.
import { takeStacks } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { RunView, WorkerStacks } from "../api/views.ts";
import { plural } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import { CopyButton } from "../shell/copy_button.tsx";
import { Dialog } from "../shell/dialog.tsx";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { printable } from "../text/printable.ts";
import { stacksText } from "./stack_groups.ts";
import { StackList } from "./stack_list.tsx";

export interface StacksDialogProps {
  id: string;
  run: RunView;
  /** undefined: all ranks. */
  rank?: number;
  onClose: () => void;
}

export function StacksDialog({ id, run, rank, onClose }: StacksDialogProps) {
  const { data, problem, isLoading, reload } = useResource<WorkerStacks[]>("stacks", () => takeStacks(id, rank));
  const pause = Math.max(0, ...(data ?? []).map((worker) => worker.stacks.longest_pause_s));
  return (
    <Dialog title={`Stack trace of ${rank === undefined ? printable(run.name) : `rank ${rank}`}`} class="large" onClose={onClose}>
      <div class="toolbar">
        <span class="quiet">
          {data
            ? `${plural(data.length, "worker")}; no thread was held longer than ${durationText(pause)}`
            : "Training goes on meanwhile."}
        </span>
        <span class="fill" />
        {data && <CopyButton text={stacksText(data)} what="the stacks" />}
        <button type="button" disabled={isLoading} onClick={reload}>
          Take them again
        </button>
      </div>
      {problem && <ProblemNotice problem={problem} />}
      {!data && isLoading && <Loading />}
      {data?.length === 0 && <Empty title="No worker lives now" command={`paceline show ${run.name}`} />}
      {data && <StackList workers={data} />}
    </Dialog>
  );
}
