// Buttons of which one is pressed.
import type { ComponentChildren } from "preact";

interface ChoicesProps<Key extends string> {
  /** What they are for, to those who hear the page. */
  label: string;
  all: { key: Key; title: ComponentChildren }[];
  /** Whose button is pressed; another word: none is. */
  chosen: string;
  onChoose: (key: Key) => void;
}

export function Choices<Key extends string>({ label, all, chosen, onChoose }: ChoicesProps<Key>) {
  return (
    <div class="choices" role="group" aria-label={label}>
      {all.map(({ key, title }) => (
        <button key={key} type="button" aria-pressed={chosen === key} onClick={() => onChoose(key)}>
          {title}
        </button>
      ))}
    </div>
  );
}
