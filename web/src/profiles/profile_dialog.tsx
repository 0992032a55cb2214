// Takes a profile of a live run: asks which ranks and for how long, shows how far it is, and opens what was taken.
import { useEffect, useRef, useState } from "preact/hooks";
import { takeProfile } from "../api/api.ts";
import { type Problem, problemOfFailure } from "../api/problem.ts";
import type { RunView } from "../api/views.ts";
import { countText, plural } from "../format/number.ts";
import { Dialog } from "../shell/dialog.tsx";
import { go } from "../shell/navigation.ts";
import { ProblemNotice } from "../shell/notices.tsx";
import { profileHash } from "../shell/route.ts";
import { useNow } from "../shell/time.tsx";
import { type ProfileKind, SECONDS, factsOf } from "./profile_kinds.ts";
import { ALL_RANKS, WorkersChoice } from "../run/rank_options.tsx";

/** Nobody has waited long enough: the server, a proxy before it, or the browser. */
const UNANSWERED = new Set([0, 502, 504]);

export interface ProfileDialogProps {
  id: string;
  run: RunView;
  kind: ProfileKind;
  /** Chosen at first; undefined: all. */
  rank?: number | undefined;
  onClose: () => void;
}

/** The profile takes so many steps, but no longer than the seconds; without steps (0) it takes all the seconds. */
interface Length {
  seconds: number;
  steps: number;
}

/** The sampling takes as long as was asked for; nobody knows how long the rest takes. */
function Progress({ kind, started, length }: { kind: ProfileKind; started: number; length: Length }) {
  const { seconds, steps } = length;
  const passed = Math.min(seconds, useNow() - started);
  const isSampling = passed < seconds;
  const watches = steps > 0 ? plural(steps, "step") : `${seconds} s`;
  return (
    <div class="profile-progress">
      <progress max={seconds} {...(isSampling && steps === 0 ? { value: passed } : {})} aria-label="How far it is" />
      <p role="status">
        {isSampling ? `Watching for ${watches}; training goes on.` : factsOf(kind).afterwards}
      </p>
      <p class="quiet">It goes on when you close this: the profile will be among the run's profiles.</p>
    </div>
  );
}

export function ProfileDialog({ id, run, kind, rank: first = ALL_RANKS, onClose }: ProfileDialogProps) {
  const [rank, setRank] = useState(first);
  const { title, explanation, steps } = factsOf(kind);
  const [unit, setUnit] = useState<"steps" | "seconds">(steps ? "steps" : "seconds");
  const bounds = steps && unit === "steps" ? steps : SECONDS;
  const [count, setCount] = useState(String(bounds.usual));
  const [started, setStarted] = useState<number | undefined>();
  const [problem, setProblem] = useState<Problem | undefined>();
  const [notKept, setNotKept] = useState("");
  const isOpen = useRef(true);
  useEffect(() => () => void (isOpen.current = false), []);
  const number = Number(count);
  const isRight = Number.isInteger(number) && number >= bounds.least && number <= bounds.most;
  const length = unit === "steps" ? { seconds: SECONDS.most, steps: number } : { seconds: number, steps: 0 };

  const take = async (event: Event) => {
    event.preventDefault();
    setProblem(undefined);
    setStarted(Date.now() / 1000);
    try {
      const { name, problems } = await takeProfile(id, { kind, rank, ...length });
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
    <Dialog title={title} onClose={onClose}>
      {started !== undefined ? (
        <Progress kind={kind} started={started} length={length} />
      ) : (
        <form class="dialog-form" onSubmit={(event) => void take(event)}>
          <p class="quiet">{explanation}</p>
          <WorkersChoice run={run} rank={rank} onChange={setRank} />
          <label>
            {steps ? "How many" : "Seconds"}{" "}
            <input
              type="number"
              min={bounds.least}
              max={bounds.most}
              value={count}
              onInput={(event) => setCount(event.currentTarget.value)}
            />
          </label>
          {steps && (
            <label>
              Of{" "}
              <select value={unit} onChange={(event) => setUnit(event.currentTarget.value === "steps" ? "steps" : "seconds")}>
                <option value="steps">steps (within {SECONDS.most} s)</option>
                <option value="seconds">seconds</option>
              </select>
            </label>
          )}
          {!isRight && (
            <p class="notice warn" role="status">
              Wanted a whole number from {countText(bounds.least)} to {countText(bounds.most)}.
            </p>
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
