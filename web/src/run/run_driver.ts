// What has become of a run's driver, by what `show` says of it. Pure.
import type { Driver, RunView } from "../api/views.ts";
import { isOver } from "../runs/run_state.ts";

/** `show` tells no driver: of a run that is not over, its workers are gone when its driver is. */
export function driverOf(run: RunView): Driver {
  if (isOver(run.state)) return null;
  if (run.live) return "alive";
  return run.workers.some((worker) => worker.last_stage !== undefined) ? "gone" : "elsewhere";
}

/** Why nothing can be asked of the run now; "" when it can. */
export function whyNotLive(run: RunView): string {
  if (run.live) return "";
  if (isOver(run.state)) return `The run is ${run.state}: no worker lives.`;
  return run.remark ? `The run does not answer: ${run.remark}.` : "The run's controller does not answer.";
}
