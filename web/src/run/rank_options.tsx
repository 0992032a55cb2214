// The ranks among which a select chooses, all of them first; and the choice of those that are to be asked.
import type { RunView } from "../api/views.ts";

export interface RankOptionsProps {
  ranks: number[];
  /** The value that means all. */
  all: string | number;
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

/** As the server takes it. */
export const ALL_RANKS = -1;

interface WorkersChoiceProps {
  run: RunView;
  rank: number;
  onChange: (rank: number) => void;
}

/** Which of the workers that live are to be looked at. */
export function WorkersChoice({ run, rank, onChange }: WorkersChoiceProps) {
  const ranks = run.workers.flatMap((worker) => (worker.stage === "gone" || worker.rank === null ? [] : [worker.rank]));
  return (
    <label>
      Workers{" "}
      <select value={rank} onChange={(event) => onChange(Number(event.currentTarget.value))}>
        <RankOptions ranks={ranks} all={ALL_RANKS} />
      </select>
    </label>
  );
}
