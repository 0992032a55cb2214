// The head of a run's page: what it is called, how it stands and why, and what can be done to it.
import { useState } from "preact/hooks";
import type { RunView } from "../api/views.ts";
import { countText, plural } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import { isOver, shownState } from "../runs/run_state.ts";
import { CopyButton } from "../shell/copy_button.tsx";
import { useSession } from "../shell/session_page.tsx";
import { StateBadge } from "../shell/state_badge.tsx";
import { Ago, Time, useNow } from "../shell/time.tsx";
import { ProfileButton } from "../profiles/profile_button.tsx";
import { printable } from "../text/printable.ts";
import { CheckpointDialog } from "./checkpoint_dialog.tsx";
import { ErrorText } from "./error_text.tsx";
import { driverOf } from "./run_driver.ts";
import { StacksDialog } from "./stacks_dialog.tsx";
import { StopDialog } from "./stop_dialog.tsx";
import { whyRunNotAskable } from "./why_not.ts";

function Facts({ run, now }: { run: RunView; now: number }) {
  const over = isOver(run.state);
  const size = run.attempts.at(-1)?.world_size ?? run.workers.length;
  const known = over || run.live;
  const step = Math.max(0, ...run.workers.map((worker) => worker.step ?? 0)); // only a live run's are known
  return (
    <dl class="facts">
      <div>
        <dt>{over ? "Took" : "Running for"}</dt>
        <dd class="number">{known ? durationText((over ? run.since : now) - run.created) : "unknown"}</dd>
      </div>
      <div>
        <dt>Created</dt>
        <dd>
          <Time time={run.created} />
        </dd>
      </div>
      <div>
        <dt>Last report</dt>
        <dd class="number">{countText(run.report)}</dd>
      </div>
      {step > 0 && (
        <div>
          <dt>Step</dt>
          <dd class="number">{countText(step)}</dd>
        </div>
      )}
      <div>
        <dt>Attempts</dt>
        <dd class="number">{countText(run.attempts.length)}</dd>
      </div>
      <div>
        <dt>Size</dt>
        <dd class="number">{plural(size, "worker")}</dd>
      </div>
      <div>
        <dt>Driver</dt>
        <dd>
          process <span class="number">{run.pid}</span> on {printable(run.host)}
        </dd>
      </div>
      <div class="wide">
        <dt>Folder</dt>
        <dd>
          <code>{printable(run.location)}</code>
          <CopyButton text={run.location} what="the folder" />
        </dd>
      </div>
    </dl>
  );
}

function Actions({ id, run, onChanged }: { id: string; run: RunView; onChanged: () => void }) {
  const [open, setOpen] = useState<"" | "stop" | "stacks" | "checkpoint">("");
  const { info } = useSession();
  const reason = whyRunNotAskable(run, info?.read_only ?? false);
  const close = () => setOpen("");
  return (
    <div class="actions">
      <button type="button" disabled={reason !== ""} title={reason} onClick={() => setOpen("stacks")}>
        Stack trace
      </button>
      <ProfileButton id={id} run={run} />
      <ProfileButton id={id} run={run} kind="memory" />
      <button type="button" disabled={reason !== ""} title={reason} onClick={() => setOpen("checkpoint")}>
        Checkpoint now…
      </button>
      <button type="button" class="danger" disabled={reason !== ""} title={reason} onClick={() => setOpen("stop")}>
        Stop…
      </button>
      {open === "stacks" && <StacksDialog id={id} run={run} onClose={close} />}
      {open === "checkpoint" && <CheckpointDialog id={id} run={run} onClose={close} />}
      {open === "stop" && <StopDialog id={id} run={run} onClose={close} onStopped={onChanged} />}
    </div>
  );
}

export function RunHeader({ id, run, onChanged }: { id: string; run: RunView; onChanged: () => void }) {
  const now = useNow(!isOver(run.state));
  const state = shownState({ ...run, driver: driverOf(run) });
  return (
    <header class="run-header">
      <div class="run-title">
        <h1>
          <bdi>{printable(run.name)}</bdi>
        </h1>
        <StateBadge state={state} />
        <span class="quiet">
          {isOver(run.state) ? (
            <Ago time={run.since} now={now} />
          ) : (
            <Time time={run.since} text={`for ${durationText(now - run.since)}`} />
          )}
        </span>
        <CopyButton text={run.name} what="the run's name" />
        <span class="fill" />
        <Actions id={id} run={run} onChanged={onChanged} />
      </div>
      {run.remark && <p class="notice warn">{printable(run.remark)}</p>}
      {run.waits_for.map((sentence) => (
        <p key={sentence} class="notice warn">
          Waits: {printable(sentence)}
        </p>
      ))}
      {run.error && <ErrorText id={id} run={run} />}
      <Facts run={run} now={now} />
    </header>
  );
}
