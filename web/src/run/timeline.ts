// Where the bars of attempts lie on a line from the first attempt's start to the end, in percent. Pure.
import type { Attempt } from "../api/views.ts";

export interface TimelineBar {
  attempt: Attempt;
  left: number;
  width: number;
}

const LEAST_WIDTH = 0.4; // that a bar is still seen

export function timelineOf(attempts: Attempt[], end: number): TimelineBar[] {
  const start = attempts[0]?.start ?? end;
  const last = Math.max(end, ...attempts.map((attempt) => attempt.end ?? end));
  const whole = Math.max(last - start, 1e-3);
  return attempts.map((attempt, index) => {
    // An attempt whose end nobody knows lasts at most until the next.
    const until = attempt.end ?? attempts[index + 1]?.start ?? last;
    const left = (100 * (attempt.start - start)) / whole;
    return { attempt, left, width: Math.max(LEAST_WIDTH, (100 * (until - attempt.start)) / whole) };
  });
}
