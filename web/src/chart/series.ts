// Series as the server gives them, made into what charts draw. Pure.
import type { JsonNumber, SeriesJson } from "../api/views.ts";

export interface Points {
  report: number[];
  time: number[];
  min: (number | null)[];
  max: (number | null)[];
  last: (number | null)[];
  /** Values that are NaN or infinite: a gap in the curve, which is to be said. */
  notFinite: number;
}

export type XKind = "report" | "time";

function finite(value: JsonNumber | undefined): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** Damaged or hostile answers too give arrays of one length. */
export function pointsOf(json: SeriesJson | undefined): Points {
  const report = json?.report ?? [];
  const column = (values: JsonNumber[] | undefined) => report.map((_, at) => finite(values?.[at]));
  const last = column(json?.last);
  return {
    report,
    time: report.map((_, at) => finite(json?.time?.[at]) ?? 0), // of a curve without its history nobody knows
    min: column(json?.min ?? json?.last),
    max: column(json?.max ?? json?.last),
    last,
    notFinite: last.filter((value) => value === null).length,
  };
}

export interface Extent {
  least: number;
  greatest: number;
}

export function extentOf(points: Points): Extent | null {
  let least = Infinity;
  let greatest = -Infinity;
  for (const value of points.min) if (value !== null && value < least) least = value;
  for (const value of points.max) if (value !== null && value > greatest) greatest = value;
  return least <= greatest ? { least, greatest } : null;
}

/** What an axis shows: with some space around what is a single value. */
export function rangeAround(least: number, greatest: number, space = Math.abs(least) / 2 || 0.5): [number, number] {
  return least === greatest ? [least - space, greatest + space] : [least, greatest];
}

export function lastOf(points: Points): number | null {
  return points.last.findLast((value) => value !== null) ?? null;
}

/** The reports whose points lie between two places of the x axis; null where there are none. */
export function reportsBetween(points: Points, x: XKind, from: number, to: number): [number, number] | null {
  const inside = points.report.filter((_, at) => {
    const place = points[x][at] ?? 0;
    return place >= from && place <= to;
  });
  const first = inside[0];
  const last = inside.at(-1);
  return first === undefined || last === undefined ? null : [first, last];
}

/** The curve with its noise averaged away: each value with those before it, whose weight goes down by `weight` a point.
 * The first values are not drawn to zero, as a plain moving average would. What lies in a point stays as it is. */
export function smoothed(points: Points, weight: number): Points {
  if (weight <= 0) return points;
  let sum = 0;
  let weights = 0;
  const last = points.last.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    weights = weight * weights + (1 - weight);
    return sum / weights;
  });
  return { ...points, last };
}

export type Column = (number | null)[];

/** What uPlot takes: one x of all, then min, max and last of each. Several runs have different x. */
export function alignedColumns(all: Points[], x: XKind, logarithmic = false): [number[], ...Column[]] {
  const places = [...new Set(all.flatMap((points) => points[x]))].sort((a, b) => a - b);
  const at = new Map(places.map((place, index) => [place, index]));
  const drawable = (value: number | null) => (value !== null && (!logarithmic || value > 0) ? value : null);
  const spread = (points: Points, values: Column): Column => {
    // A run alone has a value at each x; of several, what lies between a run's own points is no gap in its curve.
    const column = new Array<number | null>(places.length).fill(null);
    points[x].forEach((place, index) => {
      column[at.get(place) ?? 0] = drawable(values[index] ?? null);
    });
    return column;
  };
  const columns = all.flatMap((points) => [
    spread(points, points.min),
    spread(points, points.max),
    spread(points, points.last),
  ]);
  return [places, ...columns];
}

/** Metrics with their nested names joined by '/', as the server names them. */
export function flatMetrics(metrics: unknown, before = ""): [string, unknown][] {
  if (typeof metrics !== "object" || metrics === null) return [];
  return Object.entries(metrics).flatMap(([name, value]): [string, unknown][] => {
    const isNested = typeof value === "object" && value !== null && !Array.isArray(value) && !("$number" in value);
    return isNested ? flatMetrics(value, `${before}${name}/`) : [[before + name, value]];
  });
}

/** A metric's value as a number; undefined for what is none. */
export function metricNumber(value: unknown): number | undefined {
  if (typeof value === "number") return value;
  const special = typeof value === "object" && value !== null ? (value as { $number?: unknown }).$number : undefined;
  if (special === "nan") return NaN;
  if (special === "inf") return Infinity;
  return special === "-inf" ? -Infinity : undefined;
}

const FIRST_NAMES = ["loss", "accuracy"];

/** Those that most readers are after come first, others by name. */
export function compareMetricNames(a: string, b: string): number {
  const place = (name: string) => {
    const found = FIRST_NAMES.findIndex((word) => name.toLowerCase().includes(word));
    return found < 0 ? FIRST_NAMES.length : found;
  };
  return place(a) - place(b) || a.localeCompare(b, "en", { numeric: true });
}
