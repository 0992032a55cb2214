// Takes a profile of a live run: asks which ranks and for how long, shows how far it is, and opens what was taken.
import { useEffect, useRef, useState } from "preact/hooks";
import { takeProfile } from "../api/api.ts";
import { type Problem, problemOfFailure } from "../api/problem.ts";
import type { ProfileKind, RunView } from "../api/views.ts";
import { plural } from "../format/number.ts";
import { Dialog } from "../shell/dialog.tsx";
import { go } from "../shell/navigation.ts";
import { ProblemNotice } from "../shell/notices.tsx";
import { profileHash } from "../shell/route.ts";
import { useNow } from "../shell/time.tsx";
import { TITLES } from "./profile_text.ts";
import { RankOptions } from "./rank_options.tsx";

const ALL = -1;
const LONGEST_S = 60;
const USUAL_S = 5;
const TIMELINE_STEPS = 5;
const MOST_STEPS = 1_000_000;

/** Nobody has waited long enough: the server, a proxy before it, or the browser. */
const UNANSWERED = new Set([0, 502, 504]);

const EXPLANATIONS: { [kind in ProfileKind]: string } = {
  cpu:
    "Shows in which functions the workers spend their processor time. Training goes on meanwhile. Time in which a " +
    "thread waits is not in it: the off-CPU flame graph has that.",
  off_cpu:
    "Shows in which functions threads wait: for data, for other ranks, for locks, for a processor. Training goes on " +
    "meanwhile.",
  memory:
    "Shows who allocates memory meanwhile: of Python workers the functions whose memory there is at the peak, where " +
    "memray is installed; else all that LibTorch's operators allocate. Training goes on, a little slower.",
  timeline:
    "Notes which operators run when, in all threads, of some steps or for some seconds, for ui.perfetto.dev or " +
    "chrome://tracing. Training goes on, a little slower.",
};

export interface ProfileDialogProps {
  id: string;
  run: RunView;
  kind: ProfileKind;
  /** Chosen at first; undefined: all. */
  rank?: number | undefined;
  onClose: () => void;
}

/** How long it takes: `steps` of them, but no longer than the seconds; 0 steps: as long. */
interface Length {
  seconds: number;
  steps: number;
}

/** Sampling takes as long as was asked for; how long the naming takes nobody knows. */
function Progress({ kind, started, length }: { kind: ProfileKind; started: number; length: Length }) {
  const { seconds, steps } = length;
  const passed = Math.min(seconds, useNow() - started);
  const isSampling = passed < seconds;
  const watches = steps > 0 ? plural(steps, "step") : `${seconds} s`;
  return (
    <div class="profile-progress">
      <progress max={seconds} {...(isSampling && steps === 0 ? { value: passed } : {})} aria-label="How far it is" />
      <p role="status">
        {isSampling ? `Watching for ${watches}; training goes on.` : kind === "cpu" || kind === "off_cpu" ? "Looking up the functions' names…" : "Collecting what was noted…"}
      </p>
      <p class="quiet">It goes on when you close this: the profile will be among the run's profiles.</p>
    </div>
  );
}

export function ProfileDialog({ id, run, kind, rank: first = ALL, onClose }: ProfileDialogProps) {
  const [rank, setRank] = useState(first);
  const [unit, setUnit] = useState<"steps" | "seconds">(kind === "timeline" ? "steps" : "seconds");
  const [count, setCount] = useState(String(kind === "timeline" ? TIMELINE_STEPS : USUAL_S));
  const [started, setStarted] = useState<number | undefined>();
  const [problem, setProblem] = useState<Problem | undefined>();
  const [notKept, setNotKept] = useState("");
  const isOpen = useRef(true);
  useEffect(() => () => void (isOpen.current = false), []);
  const ranks = run.workers.flatMap((worker) => (worker.stage === "gone" || worker.rank === null ? [] : [worker.rank]));
  const number = Number(count);
  const most = unit === "steps" ? MOST_STEPS : LONGEST_S;
  const isRight = Number.isInteger(number) && number >= 1 && number <= most;
  const length = unit === "steps" ? { seconds: LONGEST_S, steps: number } : { seconds: number, steps: 0 };

  const take = async (event: Event) => {
    event.preventDefault();
    setProblem(undefined);
    setStarted(Date.now() / 1000);
    try {
      const { name, problems } = await takeProfile(id, kind, rank, length.seconds, length.steps);
      if (!isOpen.current) return; // its list will have it
      if (name === "") return setNotKept(problems.at(-1) ?? "The profile could not be kept.");
      onClose();
      go(profileHash(id, name));
    } catch (error) {
      if (isOpen.current) setProblem(problemOfFailure(error));
    } finally {
      if (isOpen.current) setStarted(undefined);
    }
  };
  return (
    <Dialog title={TITLES[kind]} onClose={onClose}>
      {started !== undefined ? (
        <Progress kind={kind} started={started} length={length} />
      ) : (
        <form class="profile-form" onSubmit={(event) => void take(event)}>
          <p class="quiet">{EXPLANATIONS[kind]}</p>
          <label>
            Workers{" "}
            <select value={rank} onChange={(event) => setRank(Number(event.currentTarget.value))}>
              <RankOptions ranks={ranks} all={ALL} />
            </select>
          </label>
          <label>
            {kind === "timeline" ? "How many" : "Seconds"}{" "}
            <input
              type="number"
              min={1}
              max={most}
              value={count}
              onInput={(event) => setCount(event.currentTarget.value)}
            />
          </label>
          {kind === "timeline" && (
            <label>
              Of{" "}
              <select value={unit} onChange={(event) => setUnit(event.currentTarget.value === "steps" ? "steps" : "seconds")}>
                <option value="steps">steps (within {LONGEST_S} s)</option>
                <option value="seconds">seconds</option>
              </select>
            </label>
          )}
          {problem && <ProblemNotice problem={problem} />}
          {problem && UNANSWERED.has(problem.status) && (
            <p class="quiet">The run goes on with it: the profile may soon be among the run's profiles.</p>
          )}
          {notKept && <p class="notice bad">{notKept}</p>}
          <div class="dialog-actions">
            <button type="submit" class="primary" disabled={!isRight}>
              Start
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
