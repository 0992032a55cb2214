// What the time of a run's ranks went into, as parts of a whole. Pure.
import type { Goodput } from "../api/views.ts";

export interface GoodputPart {
  name: string;
  seconds: number;
  /** Of all. */
  share: number;
  /** Which of the colours of lines. */
  color: number;
}

const PARTS: [keyof Goodput, string][] = [
  ["compute_s", "in the train loop"],
  ["data_s", "getting batches"],
  ["collectives_s", "waiting in collectives"],
  ["checkpoint_s", "checkpoints"],
  ["starting_s", "starting"],
  ["restart_s", "restarting"],
  ["other_s", "other"],
];

/** Those that there are, in the same order and colours always. */
export function goodputParts(goodput: Goodput): GoodputPart[] {
  const all = PARTS.reduce((sum, [key]) => sum + goodput[key], 0);
  return PARTS.map(([key, name], color) => ({ name, seconds: goodput[key], share: all > 0 ? goodput[key] / all : 0, color }))
    .filter(({ seconds }) => seconds > 0);
}
