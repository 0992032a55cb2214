// The button that takes a CPU flame graph; disabled, with the reason, where none can be taken.
import { useState } from "preact/hooks";
import type { RunView } from "../api/views.ts";
import { useSession } from "../shell/session_page.tsx";
import { ProfileDialog } from "./profile_dialog.tsx";
import { whyNoProfile } from "./profile_text.ts";

export interface ProfileButtonProps {
  id: string;
  run: RunView;
  /** Chosen at first; undefined: all ranks. */
  rank?: number | undefined;
  label?: string;
}

export function ProfileButton({ id, run, rank, label = "CPU flame graph" }: ProfileButtonProps) {
  const [isOpen, setOpen] = useState(false);
  const { info } = useSession();
  const reason = whyNoProfile(run, info?.read_only ?? false);
  return (
    <>
      <button type="button" disabled={reason !== ""} title={reason} onClick={() => setOpen(true)}>
        {label}
      </button>
      {isOpen && <ProfileDialog id={id} run={run} rank={rank} onClose={() => setOpen(false)} />}
    </>
  );
}
