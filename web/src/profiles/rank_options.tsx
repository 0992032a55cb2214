// The ranks among which a select chooses, all of them first.

import type { RunView } from "../api/views.ts";

export interface RankOptionsProps {
  ranks: number[];
  /** The value that means all. */
  all: string | number;
}

/** Of the workers that live. */
export function liveRanks(run: RunView): number[] {
  return run.workers.flatMap((worker) => (worker.stage === "gone" || worker.rank === null ? [] : [worker.rank]));
}

export function RankOptions({ ranks, all }: RankOptionsProps) {
  return (
    <>
      <option value={all}>all ranks</option>
      {ranks.map((rank) => (
        <option key={rank} value={rank}>
          rank {rank}
        </option>
      ))}
    </>
  );
}
