// The attempts of a run on a line of time, and why each ended.
import type { Attempt, RunView } from "../api/views.ts";
import { plural } from "../format/number.ts";
import { type ShownState, isOver } from "../runs/run_state.ts";
import { StateBadge } from "../shell/state_badge.tsx";
import { Duration, Time, useNow } from "../shell/time.tsx";
import { printable } from "../text/printable.ts";
import { driverOf } from "./run_driver.ts";
import { timelineOf } from "./timeline.ts";

/** How this attempt ended, or that it goes on. */
function attemptState(run: RunView, attempt: Attempt): ShownState {
  if (attempt.failure) return { word: "failed", tone: "bad", icon: "cross" };
  if (attempt.end === null && run.live) return { word: "goes on", tone: "live", icon: "play" };
  if (attempt.end === null) return { word: "end unknown", tone: "quiet", icon: "question" };
  if (attempt !== run.attempts.at(-1)) return { word: "ended", tone: "quiet", icon: "stop" };
  if (run.state === "finished") return { word: "finished", tone: "good", icon: "check" };
  return run.state === "errored"
    ? { word: "failed", tone: "bad", icon: "cross" }
    : { word: "stopped", tone: "quiet", icon: "stop" };
}

/** The head of the page has the error of the run: that of its last attempt is not told again. */
function isToldAbove(run: RunView, attempt: Attempt): boolean {
  return run.error.toLowerCase().startsWith(attempt.failure.toLowerCase());
}

export function Attempts({ run }: { run: RunView }) {
  const now = useNow(run.live);
  if (run.attempts.length === 0) return null;
  const end = isOver(run.state) || driverOf(run) !== "alive" ? run.since : now;
  return (
    <section class="attempts" aria-label="Attempts">
      {run.attempts.length > 1 && (
        <div class="timeline" aria-hidden="true">
          {timelineOf(run.attempts, end).map(({ attempt, left, width }) => (
            <span
              key={attempt.attempt}
              class={`bar ${attemptState(run, attempt).tone}`}
              style={{ left: `${left}%`, width: `${width}%` }}
              title={`Attempt ${attempt.attempt}`}
            >
              {width > 6 ? attempt.attempt : ""}
            </span>
          ))}
        </div>
      )}
      <ol class="attempt-list">
        {run.attempts.map((attempt) => (
          <li key={attempt.attempt}>
            <span class="attempt-number">Attempt {attempt.attempt}</span>
            <StateBadge state={attemptState(run, attempt)} />
            <span class="number">
              <Time time={attempt.start} />
            </span>
            <Duration start={attempt.start} end={attempt.end ?? (run.live ? null : NaN)} now={now} />
            <span class="quiet">{plural(attempt.world_size, "worker")}</span>
            {attempt.failure && !isToldAbove(run, attempt) && (
              <span class="attempt-failure">{printable(attempt.failure)}</span>
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}
