// What is said of profiles: whose they are, what is in them, why none can be taken. Pure.
import type { KeptProfile, RunView, Worker } from "../api/views.ts";
import { bytesText, countText, percentText, plural, rangesText } from "../format/number.ts";
import { durationText, localTimeText } from "../format/time.ts";
import { whyNotLive } from "../run/run_driver.ts";
import { factsOf } from "./profile_kinds.ts";

export const READ_ONLY = "This dashboard is read-only: it changes nothing.";

export function ranksText(ranks: number[]): string {
  if (ranks.length === 0) return "a worker without a rank";
  return `${ranks.length === 1 ? "rank" : "ranks"} ${rangesText(ranks)}`;
}

export function timeText(profile: KeptProfile): string {
  return profile.time > 0 ? localTimeText(profile.time) : profile.name;
}

export function samplesText({ samples, kind }: Pick<KeptProfile, "samples" | "kind">): string {
  const { hasStacks, isOfBytes } = factsOf(kind);
  const amountText = isOfBytes ? bytesText : countText;
  const parts = Object.entries(samples).map(([language, count]) => `${amountText(count)} of ${language}`);
  return parts.join(", ") || (hasStacks ? "none" : "");
}

/** Why no profile can be taken of the run, or of that worker, now; "" when it can. */
export function whyNoProfile(run: RunView, isReadOnly: boolean, worker?: Worker): string {
  if (isReadOnly) return READ_ONLY;
  const notLive = whyNotLive(run);
  if (notLive) return notLive;
  const live = (worker ? [worker] : run.workers).filter(({ stage }) => stage !== "gone");
  if (live.length === 0) {
    return worker ? `Rank ${worker.rank ?? "?"} has ended: its process does not live.` : "No worker lives now.";
  }
  if (live.every(({ stage }) => stage === "starting")) {
    return worker ? `Rank ${worker.rank ?? "?"} is starting.` : "The workers are starting.";
  }
  return "";
}

/** "35 % of the samples: 340 of 966, 3.4 s; itself 2.1 %"; `secondsPerSample` is null of bytes. */
export function nodeText(total: number, own: number, all: number, secondsPerSample: number | null): string {
  if (all === 0) return "no samples";
  if (secondsPerSample === null) {
    return `${percentText(total / all)}: ${bytesText(total)} of ${bytesText(all)}; itself ${percentText(own / all)}`;
  }
  const time = secondsPerSample > 0 ? `, ${durationText(total * secondsPerSample)}` : "";
  const samples = `${countText(total)} of ${plural(all, "sample")}${time}`;
  return `${percentText(total / all)}: ${samples}; itself ${percentText(own / all)}`;
}

/** "12 % before, 20 % after: +8.1 points". */
export function changeText(before: number, after: number): string {
  return `${percentText(before)} before, ${percentText(after)} after: ${pointsText(after - before)}`;
}

export function pointsText(change: number): string {
  const points = 100 * change;
  const digits = Math.abs(points) < 0.05 ? "0" : Math.abs(points).toFixed(1);
  return `${digits === "0" ? "±" : points > 0 ? "+" : "−"}${digits} points`;
}
