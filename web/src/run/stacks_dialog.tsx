// Takes the stack trace of a live run's workers: asks of which ranks, and shows ranks that stand at the same place once.
import { useState } from "preact/hooks";
import { takeStacks } from "../api/api.ts";
import { useResource } from "../api/resource.ts";
import type { RunView, WorkerStacks } from "../api/views.ts";
import { plural } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import { ALL_RANKS, WorkersChoice } from "./rank_options.tsx";
import { CopyButton } from "../shell/copy_button.tsx";
import { Dialog } from "../shell/dialog.tsx";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { printable } from "../text/printable.ts";
import { stacksText } from "./stack_groups.ts";
import { StackList } from "./stack_list.tsx";

export interface StacksDialogProps {
  id: string;
  run: RunView;
  /** Chosen at first; undefined: all ranks. */
  rank?: number;
  onClose: () => void;
}

function Question({ run, rank: first, onTake }: { run: RunView; rank: number; onTake: (rank: number) => void }) {
  const [rank, setRank] = useState(first);
  const take = (event: Event) => {
    event.preventDefault();
    onTake(rank);
  };
  return (
    <form class="dialog-form" onSubmit={take}>
      <p class="quiet">
        What each thread is doing at this moment. Threads are held one after the other, each for less than a millisecond
        as a rule; training goes on.
      </p>
      <WorkersChoice run={run} rank={rank} onChange={setRank} />
      <div class="dialog-actions">
        <button type="submit" class="primary" autofocus>
          Take it
        </button>
      </div>
    </form>
  );
}

function Answer({ id, run, rank }: { id: string; run: RunView; rank: number }) {
  const { data, problem, isLoading, reload } = useResource<WorkerStacks[]>("stacks", () => takeStacks(id, rank));
  const pause = Math.max(0, ...(data ?? []).map((worker) => worker.stacks.longest_pause_s));
  return (
    <>
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
    </>
  );
}

export function StacksDialog({ id, run, rank: first = ALL_RANKS, onClose }: StacksDialogProps) {
  const [rank, setRank] = useState<number | undefined>();
  const of = rank === undefined ? first : rank;
  return (
    <Dialog
      title={`Stack trace of ${of === ALL_RANKS ? printable(run.name) : `rank ${of}`}`}
      class={rank === undefined ? "" : "large"}
      onClose={onClose}
    >
      {rank === undefined ? (
        <Question run={run} rank={first} onTake={setRank} />
      ) : (
        <Answer id={id} run={run} rank={rank} />
      )}
    </Dialog>
  );
}
