// Times and durations as text. Times are seconds since the Unix epoch. Pure, but for the time zone.

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** "0.4 s", "41 s", "3 min 20 s", "2 h 5 min", "3 d 4 h". */
export function durationText(seconds: number): string {
  if (!Number.isFinite(seconds)) return "";
  const whole = Math.max(0, seconds);
  if (whole < 1e-3) return `${Number((whole * 1e6).toPrecision(3))} µs`;
  if (whole < 1) return `${Number((whole * 1e3).toPrecision(3))} ms`;
  if (whole < 10) return `${Number(whole.toFixed(1))} s`;
  const rounded = Math.round(whole);
  if (rounded < MINUTE) return `${rounded} s`;
  if (rounded < HOUR) return two(rounded, MINUTE, "min", 1, "s");
  if (rounded < DAY) return two(rounded, HOUR, "h", MINUTE, "min");
  return two(rounded, DAY, "d", HOUR, "h");
}

function two(seconds: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((seconds % large) / small);
  const first = `${Math.floor(seconds / large)} ${largeName}`;
  return rest > 0 ? `${first} ${rest} ${smallName}` : first;
}

/** "just now", "3 min ago". */
export function agoText(time: number, now: number): string {
  const seconds = now - time;
  if (seconds < 5) return "just now";
  if (seconds < MINUTE) return `${Math.floor(seconds)} s ago`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min ago`;
  if (seconds < 2 * DAY) return `${Math.floor(seconds / HOUR)} h ago`;
  return `${Math.floor(seconds / DAY)} d ago`;
}

function pad(number: number, digits = 2): string {
  return String(number).padStart(digits, "0");
}

/** "2026-11-27 17:46:58", in the reader's time zone. */
export function localTimeText(time: number): string {
  const date = new Date(time * 1000);
  return (
    `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ` +
    `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`
  );
}

/** "17:46:58", with milliseconds where events follow each other closely. */
export function clockText(time: number, milliseconds = false): string {
  const text = localTimeText(time).slice(11);
  return milliseconds ? `${text}.${pad(Math.floor((time * 1000) % 1000), 3)}` : text;
}

/** "2026-11-27 17:46:58.340 UTC" */
export function utcTimeText(time: number): string {
  return isoTimeText(time).replace("T", " ").replace("Z", " UTC");
}

/** "" for what is no time at all: a damaged file may say anything. */
export function isoTimeText(time: number): string {
  const date = new Date(time * 1000);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString();
}
