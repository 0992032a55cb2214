// What the time of the ranks went into: one bar, and its parts with their shares.
import type { RunView } from "../api/views.ts";
import { percentText } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import { goodputParts } from "./goodput_parts.ts";

export function GoodputBar({ run }: { run: RunView }) {
  const parts = goodputParts(run.goodput);
  if (parts.length === 0) return null;
  return (
    <section class="goodput" aria-label="What the ranks' time went into">
      <div class="goodput-bar" aria-hidden="true">
        {parts.map(({ name, share, color }) => (
          <span
            key={name}
            style={{ width: `${100 * share}%`, background: `var(--line-${color})` }}
            title={`${name}: ${percentText(share)}`}
          />
        ))}
      </div>
      <ul>
        {parts.map(({ name, seconds, share, color }) => (
          <li key={name}>
            <span class="swatch" style={{ background: `var(--line-${color})` }} aria-hidden="true" />
            {name} <span class="number">{percentText(share)}</span>{" "}
            <span class="quiet number">{durationText(seconds)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
