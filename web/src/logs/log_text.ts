// The part of a log that has been read: its lines, and which bytes they are. Pure.
import type { LogRange } from "../api/views.ts";

export interface LogText {
  /** The bytes that `lines` stand for: from `start`, up to `end`. */
  start: number;
  end: number;
  /** Of the whole log, when it was read last. */
  size: number;
  lines: string[];
  /** The last line has no end yet: what comes next continues it. */
  isOpen: boolean;
}

export function emptyLog(offset: number, size: number): LogText {
  return { start: offset, end: offset, size, lines: [], isOpen: false };
}

function linesOf(text: string): { lines: string[]; isOpen: boolean } {
  if (text === "") return { lines: [], isOpen: false };
  const lines = text.split("\n");
  const isOpen = lines.at(-1) !== "";
  if (!isOpen) lines.pop();
  return { lines, isOpen };
}

/** With a range that begins where the log ends so far. */
export function appended(log: LogText, range: LogRange): LogText {
  const { lines, isOpen } = linesOf(range.text);
  const all = log.lines.slice();
  if (log.isOpen && lines.length > 0) all.push((all.pop() ?? "") + (lines.shift() ?? ""));
  for (const line of lines) all.push(line);
  const stillOpen = range.text === "" ? log.isOpen : isOpen;
  return { start: log.start, end: Math.max(log.end, range.next), size: range.size, lines: all, isOpen: stillOpen };
}

/** With a range that ends where the log begins so far. */
export function prepended(log: LogText, range: LogRange): LogText {
  const { lines, isOpen } = linesOf(range.text);
  const rest = log.lines.slice();
  if (isOpen && rest.length > 0) rest.unshift((lines.pop() ?? "") + (rest.shift() ?? ""));
  return { ...log, start: range.offset, size: Math.max(log.size, range.size), lines: [...lines, ...rest] };
}
