// What can be asked of one worker: a profile of each kind, and its stack trace; disabled, with the reason, where it has
// ended.
import { useState } from "preact/hooks";
import type { RunView, Worker } from "../api/views.ts";
import { ProfileDialog } from "../profiles/profile_dialog.tsx";
import { PROFILE_KINDS, type ProfileKind, factsOf } from "../profiles/profile_kinds.ts";
import { useSession } from "../shell/session_page.tsx";
import { StacksDialog } from "./stacks_dialog.tsx";
import { whyNotAskable } from "./why_not.ts";

export function WorkerActions({ id, run, worker, rank }: { id: string; run: RunView; worker: Worker; rank: number }) {
  const [open, setOpen] = useState<ProfileKind | "stacks" | "">("");
  const { info } = useSession();
  const reason = whyNotAskable(run, info?.read_only ?? false, worker);
  const close = () => setOpen("");
  return (
    <>
      <div class="actions">
        <button type="button" disabled={reason !== ""} title={reason} onClick={() => setOpen("stacks")}>
          Stack trace
        </button>
        {PROFILE_KINDS.map((kind) => (
          <button key={kind} type="button" disabled={reason !== ""} title={reason} onClick={() => setOpen(kind)}>
            {factsOf(kind).title}
          </button>
        ))}
      </div>
      {reason && <p class="quiet actions-reason">{reason}</p>}
      {open === "stacks" && <StacksDialog id={id} run={run} rank={rank} onClose={close} />}
      {open !== "" && open !== "stacks" && <ProfileDialog id={id} run={run} kind={open} rank={rank} onClose={close} />}
    </>
  );
}
