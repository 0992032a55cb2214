// What a run's state is called and how it is shown: an icon, a word and a tone, so that nobody has to tell colours
// apart.
import type { Driver } from "../api/views.ts";

export type Tone = "good" | "bad" | "warn" | "live" | "quiet";
export type Icon = "check" | "cross" | "stop" | "play" | "clock" | "again" | "question" | "trash" | "warning";

export interface ShownState {
  word: string;
  tone: Tone;
  icon: Icon;
}

/** What the list is filtered by. */
export type StateGroup = "live" | "finished" | "failed" | "stopped" | "deleted";

export const STATE_GROUPS: { group: StateGroup; title: string }[] = [
  { group: "live", title: "Live" },
  { group: "finished", title: "Finished" },
  { group: "failed", title: "Failed" },
  { group: "stopped", title: "Stopped" },
  { group: "deleted", title: "Deleted" },
];

const SHOWN: { [state: string]: ShownState } = {
  initializing: { word: "initializing", tone: "live", icon: "clock" },
  scheduling: { word: "scheduling", tone: "live", icon: "clock" },
  rescheduling: { word: "rescheduling", tone: "warn", icon: "again" },
  running: { word: "running", tone: "live", icon: "play" },
  preempting: { word: "preempting", tone: "warn", icon: "warning" },
  resizing: { word: "resizing", tone: "warn", icon: "again" },
  restarting: { word: "restarting", tone: "warn", icon: "again" },
  shutting_down: { word: "shutting down", tone: "live", icon: "clock" },
  finished: { word: "finished", tone: "good", icon: "check" },
  errored: { word: "errored", tone: "bad", icon: "cross" },
  aborted: { word: "aborted", tone: "quiet", icon: "stop" },
};

const OVER = new Set(["finished", "errored", "aborted"]);

export interface HasState {
  state: string;
  gone: boolean;
  driver: Driver;
}

export function isOver(state: string): boolean {
  return OVER.has(state);
}

export function shownState({ state, gone, driver }: HasState): ShownState {
  if (gone) return { word: "deleted", tone: "quiet", icon: "trash" };
  if (driver === "gone" && !isOver(state)) return { word: "driver died", tone: "bad", icon: "cross" };
  return SHOWN[state] ?? { word: state.replace(/_/g, " "), tone: "quiet", icon: "question" };
}

export function stateGroup({ state, gone, driver }: HasState): StateGroup {
  if (gone) return "deleted";
  if (state === "finished") return "finished";
  if (state === "aborted") return "stopped";
  return state === "errored" || driver === "gone" ? "failed" : "live";
}

const STAGES: { [stage: string]: ShownState } = {
  starting: { word: "starting", tone: "live", icon: "clock" },
  joined: { word: "joined", tone: "live", icon: "clock" },
  training: { word: "training", tone: "live", icon: "play" },
  finished: { word: "finished", tone: "good", icon: "check" },
  failed: { word: "failed", tone: "bad", icon: "cross" },
  exited: { word: "exited", tone: "quiet", icon: "stop" },
  gone: { word: "gone", tone: "bad", icon: "cross" },
};

/** The same of a worker. */
export function shownStage(stage: string): ShownState {
  return STAGES[stage] ?? { word: stage.replace(/_/g, " "), tone: "quiet", icon: "question" };
}
