// Numbers as text. Pure.

/** With as many digits as say something: "0.0213", "1,500", "2.52e-7". */
export function numberText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e12) {
    const [digits, exponent] = value.toExponential(2).split("e");
    return `${Number(digits)}e${Number(exponent)}`.replace(/-/g, "−");
  }
  const text = Number.isInteger(value) ? groups(value) : groups(Number(value.toPrecision(size >= 1e4 ? 6 : 4)));
  return text.replace("-", "−");
}

/** A place on an axis whose marks are `step` apart: with as many digits as tell it from the next. */
export function tickText(value: number, step: number): string {
  const digits = Math.ceil(-Math.log10(step));
  const isUsual = value !== 0 && Math.abs(value) < 1e6 && digits > 0 && digits <= 6;
  return isUsual ? value.toFixed(digits).replace("-", "−") : numberText(value);
}

function groups(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 12 });
}

/** Of what may not be known: "–" then. */
export function maybe(value: number | null | undefined, text: (value: number) => string): string {
  return value === null || value === undefined ? "–" : text(value);
}

/** Cores or threads that are busy, in parts: "0.031", "1.7", "112". */
export function coresText(cores: number): string {
  return numberText(cores < 100 ? Number(cores.toPrecision(2)) : Math.round(cores));
}

export function countText(value: number): string {
  return groups(Math.round(value));
}

/** "2 workers", "1 worker". */
export function plural(count: number, one: string, many = one + "s"): string {
  return `${countText(count)} ${count === 1 ? one : many}`;
}

export function percentText(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytesText(bytes: number): string {
  let unit = 0;
  while (bytes >= 1024 && unit < UNITS.length - 1) {
    bytes /= 1024;
    unit++;
  }
  const digits = unit === 0 || bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2;
  return `${Number(bytes.toFixed(digits))} ${UNITS[unit]}`;
}

/** Short enough for an axis. */
export function byteRateText(bytesPerSecond: number): string {
  return bytesPerSecond < 1024 ? `${Math.round(bytesPerSecond)} B/s` : `${bytesText(bytesPerSecond)}/s`;
}

/** Numbers in a row as ranges: "0–3, 5". */
export function rangesText(numbers: number[]): string {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  const ranges: [number, number][] = [];
  for (const number of sorted) {
    const last = ranges.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else ranges.push([number, number]);
  }
  return ranges.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
}

/** "rank 3", "ranks 0–3, 5"; −1 is a worker that has none. */
export function ranksText(ranks: number[]): string {
  const given = ranks.filter((rank) => rank >= 0);
  if (given.length === 0) return "a worker without a rank";
  return `${given.length === 1 ? "rank" : "ranks"} ${rangesText(given)}`;
}
