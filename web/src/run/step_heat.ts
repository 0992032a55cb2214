// Step times of ranks as a heat map: what each cell has, and which pixel is how hot. Pure.
import type { StepTimes } from "../api/views.ts";

/** How hot a cell is: against the other ranks at that time, or as long as its steps took. */
export type HeatKind = "others" | "time";

export interface StepHeat {
  ranks: number[];
  /** Columns, of which each stands for `seconds` from `begin + column * seconds` on; those without samples too. */
  begin: number;
  seconds: number;
  columns: number;
  /** Seconds of a step by rank and column, row after row; NaN: no steps. */
  values: Float64Array;
  /** By what the median of the other ranks at that time is exceeded: 1 is as they are; NaN where there are no others. */
  ratios: Float64Array;
}

const MOST_COLUMNS = 2000; // a gap of months is no reason for millions of columns

function medianOf(sorted: number[], without: number): number {
  const left = sorted.indexOf(without);
  const rest = sorted.length - 1;
  const at = (place: number) => sorted[place < left ? place : place + 1] ?? NaN;
  if (rest === 0) return NaN;
  return rest % 2 ? at((rest - 1) / 2) : (at(rest / 2 - 1) + at(rest / 2)) / 2;
}

export function heatOf({ time, seconds, ranks, step_s }: StepTimes): StepHeat {
  const begin = time[0] ?? 0;
  const last = time.at(-1) ?? begin;
  const columns = time.length === 0 || ranks.length === 0 ? 0 : Math.min(MOST_COLUMNS, Math.round((last - begin) / seconds) + 1);
  const values = new Float64Array(ranks.length * columns).fill(NaN);
  const ratios = values.slice();
  time.forEach((place, index) => {
    const column = Math.round((place - begin) / seconds);
    if (column >= columns) return;
    const there = ranks.map((_, row) => step_s[row]?.[index] ?? NaN);
    const sorted = there.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
    there.forEach((value, row) => {
      if (Number.isNaN(value)) return;
      values[row * columns + column] = value;
      const others = medianOf(sorted, value);
      ratios[row * columns + column] = others > 0 ? value / others : NaN;
    });
  });
  return { ranks, begin, seconds, columns, values, ratios };
}

/** From 0 (as quick as the others, or the quickest) to 1 (twice their time, or the slowest); NaN: no steps. */
export function levelsOf(heat: StepHeat, kind: HeatKind): Float64Array {
  if (kind === "others") {
    return heat.ratios.map((ratio, cell) => {
      if (Number.isNaN(heat.values[cell]!)) return NaN;
      return Number.isNaN(ratio) ? 0 : Math.min(1, Math.max(0, ratio - 1));
    });
  }
  const sorted = heat.values.filter((value) => !Number.isNaN(value)).sort();
  const least = sorted[0] ?? 0;
  const most = sorted[Math.floor(0.98 * (sorted.length - 1))] ?? least; // one pause shall not hide all else
  const span = most - least;
  return heat.values.map((value) => (span > 0 ? Math.min(1, (value - least) / span) : value * 0));
}

/** Levels by row of pixels and column: of several ranks in a row of pixels the hottest is seen, and none is thinner than
 * `least` rows. */
export function pixelLevels(levels: Float64Array, ranks: number, columns: number, height: number, least: number) {
  const pixels = new Float64Array(height * columns).fill(NaN);
  for (let rank = 0; rank < ranks; rank++) {
    const first = Math.floor((rank * height) / ranks);
    const end = Math.min(height, Math.max(Math.floor(((rank + 1) * height) / ranks), first + least));
    for (let column = 0; column < columns; column++) {
      const level = levels[rank * columns + column]!;
      if (Number.isNaN(level)) continue;
      for (let row = first; row < end; row++) {
        const there = pixels[row * columns + column]!;
        if (Number.isNaN(there) || level > there) pixels[row * columns + column] = level;
      }
    }
  }
  return pixels;
}

/** The rank whose steps were slowest against the others' in the last column that has some. */
export function slowestOf(heat: StepHeat): { row: number; column: number } | undefined {
  for (let column = heat.columns - 1; column >= 0; column--) {
    let slowest: { row: number; column: number } | undefined;
    let most = -Infinity;
    for (let row = 0; row < heat.ranks.length; row++) {
      const value = heat.values[row * heat.columns + column]!;
      if (value > most) {
        most = value;
        slowest = { row, column };
      }
    }
    if (slowest) return slowest;
  }
  return undefined;
}

/** A colour between those of a scale, as red, green and blue. */
export function colorAt(scale: [number, number, number][], level: number): [number, number, number] {
  const place = Math.min(1, Math.max(0, level)) * (scale.length - 1);
  const below = Math.min(scale.length - 2, Math.floor(place));
  const [from, to] = [scale[below]!, scale[below + 1]!];
  const share = place - below;
  const mix = (part: 0 | 1 | 2) => Math.round(from[part] + share * (to[part] - from[part]));
  return [mix(0), mix(1), mix(2)];
}

/** "#1a2b3c" as red, green and blue. */
export function partsOfColor(hex: string): [number, number, number] {
  const number = parseInt(hex.replace("#", ""), 16) || 0;
  return [(number >> 16) & 255, (number >> 8) & 255, number & 255];
}
