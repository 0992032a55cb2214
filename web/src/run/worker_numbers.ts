// What is made of a worker's numbers. Pure.
import type { Worker } from "../api/views.ts";

/** The share of a processor that it has used since it started. */
export function cpuShare(worker: Worker, now: number): number {
  const lived = now - (worker.started ?? now);
  return lived > 0 ? (worker.cpu_s ?? 0) / lived : 0;
}
