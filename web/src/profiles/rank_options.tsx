// The ranks among which a select chooses, all of them first.

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
