// The buttons that take profiles; disabled, with the reason, where none can be taken.
import { useState } from "preact/hooks";
import type { RunView } from "../api/views.ts";
import { whyNotAskable } from "../run/why_not.ts";
import { useSession } from "../shell/session_page.tsx";
import { ProfileDialog } from "./profile_dialog.tsx";
import { type ProfileKind, factsOf } from "./profile_kinds.ts";

export interface ProfileButtonProps {
  id: string;
  run: RunView;
  /** Chosen at first; undefined: all ranks. */
  rank?: number | undefined;
  kind?: ProfileKind;
  label?: string;
}

export function ProfileButton({ id, run, rank, kind = "cpu", label = factsOf(kind).title }: ProfileButtonProps) {
  const [isOpen, setOpen] = useState(false);
  const { info } = useSession();
  const reason = whyNotAskable(run, info?.read_only ?? false);
  return (
    <>
      <button type="button" disabled={reason !== ""} title={reason} onClick={() => setOpen(true)}>
        {label}
      </button>
      {isOpen && <ProfileDialog id={id} run={run} kind={kind} rank={rank} onClose={() => setOpen(false)} />}
    </>
  );
}
