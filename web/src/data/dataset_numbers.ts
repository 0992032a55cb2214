// What is made of a dataset's numbers. Pure.
import type { DatasetRank, DatasetSummary } from "../api/views.ts";

/** Of the time that the rank had an epoch open. */
export function waitedShare(rank: DatasetRank): number {
  return rank.open_s > 0 ? rank.waited_s / rank.open_s : 0;
}

/** Of each operator: its part of what all of them worked; of the last seconds where that is known. */
export function busyShares({ operators }: DatasetSummary): number[] {
  const work = operators.map(({ busy_threads: busy, figures }) => busy ?? figures.block_generation_time);
  const all = work.reduce((sum, one) => sum + one, 0);
  return work.map((one) => (all > 0 ? one / all : 0));
}

/** Whether a filter's text is in the run's name or in that of a dataset or operator. */
export function isMeant(runName: string, dataset: DatasetSummary, text: string): boolean {
  const wanted = text.trim().toLowerCase();
  const words = [runName, dataset.name, ...dataset.operators.map(({ name }) => name)];
  return wanted === "" || words.some((word) => word.toLowerCase().includes(wanted));
}
