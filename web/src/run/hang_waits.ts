// Who waits for whom in a run that hung, by what each rank noted last. Pure.
import type { HangRank } from "../api/views.ts";

/** Ranks that wait in one collective, and those that have not come to it. */
export interface Wait {
  group: number;
  /** Of the group's collectives, counted from 1. */
  number: number;
  collective: string;
  waiting: number[];
  missing: number[];
  /** Those that have called another one in its place. */
  elsewhere: number[];
}

/** Whether others wait for it. */
export function isWaitedFor(waits: Wait[], rank: number): boolean {
  return waits.some(({ missing, elsewhere }) => missing.includes(rank) || elsewhere.includes(rank));
}

/** In the order of groups and numbers: the first of a group is what holds up the others. */
export function waitsOf(ranks: HangRank[]): Wait[] {
  const waits = new Map<string, Wait>();
  for (const { rank, progress } of ranks) {
    for (const { group, begun, done, collective } of progress.groups) {
      if (begun <= done) continue;
      const number = done + 1;
      const key = `${group} ${number} ${collective}`;
      const wait = waits.get(key) ?? { group, number, collective, waiting: [], missing: [], elsewhere: [] };
      waits.set(key, wait);
      wait.waiting.push(rank);
    }
  }
  for (const wait of waits.values()) {
    for (const other of waits.values()) {
      if (other !== wait && other.group === wait.group && other.number === wait.number) {
        wait.elsewhere.push(...other.waiting);
      }
    }
    for (const { rank, progress } of ranks) {
      const counts = progress.groups.find(({ group }) => group === wait.group);
      // All ranks are in the first group; of another one who has noted nothing may not be a member.
      if (counts ? counts.begun < wait.number : wait.group === 1) wait.missing.push(rank);
    }
  }
  return [...waits.values()].sort((a, b) => a.group - b.group || a.number - b.number);
}
