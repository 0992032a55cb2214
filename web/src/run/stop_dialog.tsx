// Asks whether a run shall be stopped.
import { useState } from "preact/hooks";
import { stopRun } from "../api/api.ts";
import { type Problem, problemOfFailure } from "../api/problem.ts";
import type { RunView } from "../api/views.ts";
import { Dialog } from "../shell/dialog.tsx";
import { ProblemNotice } from "../shell/notices.tsx";
import { printable } from "../text/printable.ts";

export interface StopDialogProps {
  id: string;
  run: RunView;
  onClose: () => void;
  onStopped: () => void;
}

export function StopDialog({ id, run, onClose, onStopped }: StopDialogProps) {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | undefined>();
  const stop = async () => {
    setBusy(true);
    try {
      await stopRun(id);
      onStopped();
      onClose();
    } catch (error) {
      setProblem(problemOfFailure(error));
      setBusy(false);
    }
  };
  const kept = run.checkpoints.at(-1);
  return (
    <Dialog title="Stop this run?" onClose={onClose}>
      <p>
        <strong>
          <bdi>{printable(run.name)}</bdi>
        </strong>{" "}
        is asked to stop, as Ctrl-C does.{" "}
        {kept
          ? `Its checkpoints stay: started again with the same name it continues from that of report ${kept.report}.`
          : "It has no checkpoint yet: started again with the same name it begins anew."}
      </p>
      <p class="quiet">The third time that it is asked, its workers are killed.</p>
      {problem && <ProblemNotice problem={problem} />}
      <div class="dialog-actions">
        <button type="button" onClick={onClose}>
          Keep it running
        </button>
        <button type="button" class="danger" disabled={isBusy} onClick={() => void stop()}>
          Stop the run
        </button>
      </div>
    </Dialog>
  );
}
