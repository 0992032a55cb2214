// Asks whether a run shall save a checkpoint now, and says what came of it.
import { useState } from "preact/hooks";
import { askForCheckpoint } from "../api/api.ts";
import { type Problem, problemOfFailure } from "../api/problem.ts";
import type { RunView } from "../api/views.ts";
import { Dialog } from "../shell/dialog.tsx";
import { ProblemNotice } from "../shell/notices.tsx";
import { printable } from "../text/printable.ts";

export function CheckpointDialog({ id, run, onClose }: { id: string; run: RunView; onClose: () => void }) {
  const [state, setState] = useState<"asks" | "busy" | "done">("asks");
  const [problem, setProblem] = useState<Problem | undefined>();
  const ask = async () => {
    setState("busy");
    setProblem(undefined);
    try {
      await askForCheckpoint(id);
      setState("done");
    } catch (error) {
      setProblem(problemOfFailure(error));
      setState("asks");
    }
  };
  return (
    <Dialog title="Save a checkpoint now?" onClose={onClose}>
      <p>
        The train loop of{" "}
        <strong>
          <bdi>{printable(run.name)}</bdi>
        </strong>{" "}
        is told to save one at one of its next steps, if it calls <code>checkpoint_requested()</code>. Training goes on.
      </p>
      {state === "done" && (
        <p class="notice" role="status">
          All ranks know. It stands under Checkpoints once it is published.
        </p>
      )}
      {problem && <ProblemNotice problem={problem} />}
      <div class="dialog-actions">
        <button type="button" onClick={onClose}>
          {state === "done" ? "Close" : "Cancel"}
        </button>
        {state !== "done" && (
          <button type="button" disabled={state === "busy"} onClick={() => void ask()}>
            Ask for it
          </button>
        )}
      </div>
    </Dialog>
  );
}
