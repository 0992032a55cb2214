// What is said of profiles: when they were taken, and what is in them. Pure.
import type { KeptProfile } from "../api/views.ts";
import { bytesText, countText, percentText, plural } from "../format/number.ts";
import { durationText, localTimeText } from "../format/time.ts";
import { factsOf } from "./profile_kinds.ts";

export function timeText(profile: KeptProfile): string {
  return profile.time > 0 ? localTimeText(profile.time) : profile.name;
}

export function samplesText({ samples, kind }: Pick<KeptProfile, "samples" | "kind">): string {
  const { hasStacks, isOfBytes } = factsOf(kind);
  const amountText = isOfBytes ? bytesText : countText;
  const parts = Object.entries(samples).map(([language, count]) => `${amountText(count)} of ${language}`);
  return parts.join(", ") || (hasStacks ? "none" : "");
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
