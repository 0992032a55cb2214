// Which runs of the list are shown, and in which order. Pure.
import type { RunRow } from "../api/views.ts";
import { compareMetricNames, flatMetrics, metricNumber } from "../chart/series.ts";
import { numberText } from "../format/number.ts";
import { type StateGroup, isOver, shownState, stateGroup } from "./run_state.ts";

export interface Selection {
  group: StateGroup | "";
  /** Words that all have to stand somewhere in what the list says of a run. */
  text: string;
  /** A column, "-" before it for the other way round. */
  sort: string;
}

export const DEFAULT_SORT = "-opened";

function wordsOf(run: RunRow): string {
  return [run.name, shownState(run).word, run.host, run.location, run.error].join("\n").toLowerCase();
}

export function matches(run: RunRow, text: string): boolean {
  const all = wordsOf(run);
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
}

/** Until now, or to its end. */
export function lengthOf(run: RunRow, now: number): number {
  return (isOver(run.state) ? run.since : now) - run.opened;
}

type Key = (run: RunRow) => number | string;

const KEYS: { [column: string]: Key } = {
  name: (run) => run.name.toLowerCase(),
  state: (run) => shownState(run).word,
  report: (run) => run.report,
  workers: (run) => run.world_size,
  attempt: (run) => run.attempt,
  opened: (run) => run.opened,
  length: (run) => lengthOf(run, 4e9), // live runs are the longest
};

function compare(a: number | string, b: number | string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export function sorted(runs: RunRow[], sort: string): RunRow[] {
  const isDown = sort.startsWith("-");
  const key = KEYS[isDown ? sort.slice(1) : sort] ?? KEYS["opened"];
  if (!key) return runs;
  const keyed = runs.map((run) => ({ run, key: key(run) }));
  keyed.sort((a, b) => (isDown ? compare(b.key, a.key) : compare(a.key, b.key)) || compare(b.run.opened, a.run.opened));
  return keyed.map(({ run }) => run);
}

export function selected(runs: RunRow[], { group, text, sort }: Selection): RunRow[] {
  const some = runs.filter((run) => (group === "" || stateGroup(run) === group) && (text === "" || matches(run, text)));
  return sorted(some, sort);
}

export function countsByGroup(runs: RunRow[]): Map<StateGroup, number> {
  const counts = new Map<StateGroup, number>();
  for (const run of runs) counts.set(stateGroup(run), (counts.get(stateGroup(run)) ?? 0) + 1);
  return counts;
}

/** What the list says of the last report's metrics. */
export function metricsText(run: RunRow): string {
  return flatMetrics(run.metrics)
    .sort(([a], [b]) => compareMetricNames(a, b))
    .flatMap(([name, value]) => {
      const number = metricNumber(value);
      return number === undefined ? [] : [`${name} ${numberText(number)}`];
    })
    .join(" · ");
}

/** The list with rows that have changed or come. */
export function merged(runs: RunRow[], changed: RunRow[]): RunRow[] {
  const news = new Map(changed.map((run) => [run.id, run]));
  const kept = runs.map((run) => {
    const change = news.get(run.id);
    news.delete(run.id);
    return change ?? run;
  });
  return [...news.values(), ...kept];
}
