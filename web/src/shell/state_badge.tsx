import type { ShownState } from "../runs/run_state.ts";
import { Icon } from "./icons.tsx";

/** A state as icon, word and colour. */
export function StateBadge({ state }: { state: ShownState }) {
  return (
    <span class={`state ${state.tone}`}>
      <Icon name={state.icon} />
      <span>{state.word}</span>
    </span>
  );
}
