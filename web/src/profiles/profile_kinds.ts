// The kinds of profiles, a row each: what buttons, dialogs, lists and pages say of them follows from here, and how long
// one may take. Pure.
//
// The server has its own table (paceline/rpc/profile_kind.h): a test compares the names with docs/openapi.json.

/** How many a person may ask for, and what the dialog proposes. */
export interface Bounds {
  least: number;
  most: number;
  usual: number;
}

export const SECONDS: Bounds = { least: 1, most: 60, usual: 5 };
const STEPS: Bounds = { least: 1, most: 1_000_000, usual: 5 };

export interface ProfileKindFacts {
  /** In lists. */
  shortTitle: string;
  /** On the button that takes one, and on its page. */
  title: string;
  /** Tells in the dialog what it will show. */
  explanation: string;
  /** What the run does with it once the time is over. */
  afterwards: string;
  /** What it means when its flame graph is empty; "" where it has none. */
  whyEmpty: string;
  /** It is a flame graph; otherwise a file for each rank. */
  hasStacks: boolean;
  /** It counts bytes; otherwise samples. */
  isOfBytes: boolean;
  /** How many steps it may take, where it can take steps instead of seconds. */
  steps?: Bounds;
}

const NAMING = "Looking up the functions' names…";
const COLLECTING = "Collecting what was noted…";

const KINDS = {
  cpu: {
    shortTitle: "CPU",
    title: "CPU flame graph",
    explanation:
      "Shows in which functions the workers spend their processor time. Training goes on meanwhile. The time in " +
      "which a thread waits is not in it: the off-CPU flame graph has that.",
    afterwards: NAMING,
    whyEmpty:
      "What was chosen used no processor time: it waited, for data or for other ranks. An off-CPU flame graph, " +
      "or its stack trace, tells where.",
    hasStacks: true,
    isOfBytes: false,
  },
  off_cpu: {
    shortTitle: "Off-CPU",
    title: "Off-CPU flame graph",
    explanation:
      "Shows in which functions threads wait: for data, for other ranks, for locks, for a processor. Training " +
      "goes on meanwhile.",
    afterwards: NAMING,
    whyEmpty:
      "What was chosen did not wait: it ran all the time. A CPU flame graph tells where. Threads that did " +
      "nothing but wait are left out; choose one under Threads to see it.",
    hasStacks: true,
    isOfBytes: false,
  },
  memory: {
    shortTitle: "Memory",
    title: "Memory profile",
    explanation:
      "Shows who allocates memory in these seconds. Python workers with memray show the functions whose memory " +
      "is in use at the peak; all others show everything that LibTorch's operators allocate. Training goes on, a " +
      "little slower. A run with DebugConfig(heap_profile=True) shows its whole heap as it is now, and the " +
      "number of seconds changes nothing.",
    afterwards: COLLECTING,
    whyEmpty: "No allocation of what was chosen was seen.",
    hasStacks: true,
    isOfBytes: true,
  },
  timeline: {
    shortTitle: "Timeline",
    title: "Operator timeline",
    explanation:
      "Notes which operators run when, in all threads, of some steps or for some seconds, for ui.perfetto.dev or " +
      "chrome://tracing. Training goes on, a little slower.",
    afterwards: COLLECTING,
    whyEmpty: "",
    hasStacks: false,
    isOfBytes: false,
    steps: STEPS,
  },
} satisfies { [kind: string]: ProfileKindFacts };

export type ProfileKind = keyof typeof KINDS;

/** In the order of the buttons. */
export const PROFILE_KINDS = Object.keys(KINDS) as ProfileKind[];

export function isProfileKind(kind: string): kind is ProfileKind {
  return Object.hasOwn(KINDS, kind);
}

/** Whether their flame graphs show the same things. */
export function canCompare(one: { kind: string }, other: { kind: string }): boolean {
  return one.kind === other.kind && factsOf(one.kind).hasStacks;
}

/** A kind of a later version is a flame graph without a title of its own. */
export function factsOf(kind: string): ProfileKindFacts {
  if (isProfileKind(kind)) return KINDS[kind];
  return {
    ...{ shortTitle: kind, title: kind, explanation: "", afterwards: COLLECTING, whyEmpty: "" },
    ...{ hasStacks: true, isOfBytes: false },
  };
}
