// Why nothing can be asked of a run, or of one of its workers: what disabled buttons say. Pure.
import type { RunView, Worker } from "../api/views.ts";
import { whyNotLive } from "./run_driver.ts";

/** Of a whole run; "" when it can be asked. */
export function whyRunNotAskable(run: RunView, isReadOnly: boolean): string {
  return isReadOnly ? "This dashboard is read-only: it changes nothing." : whyNotLive(run);
}

/** Of its workers, or of that one, for stacks and profiles; "" when there is one to be asked. */
export function whyNotAskable(run: RunView, isReadOnly: boolean, worker?: Worker): string {
  const ofRun = whyRunNotAskable(run, isReadOnly);
  if (ofRun) return ofRun;
  const live = (worker ? [worker] : run.workers).filter(({ stage }) => stage !== "gone");
  if (live.length === 0) {
    return worker ? `Rank ${worker.rank ?? "?"} has ended: its process does not live.` : "No worker lives now.";
  }
  if (live.every(({ stage }) => stage === "starting")) {
    return worker ? `Rank ${worker.rank ?? "?"} is starting.` : "The workers are starting.";
  }
  return "";
}
