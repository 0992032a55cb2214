import { Dialog } from "./dialog.tsx";

const KEYS: [string[], string][] = [
  [["/"], "to the filter or the search of the page"],
  [["j", "k"], "next and previous run"],
  [["Enter"], "open the run"],
  [["x"], "select the run, to compare it"],
  [["c"], "compare the selected runs"],
  [["Esc"], "leave the filter; clear the selection"],
  [["?"], "this list"],
];

export function KeysDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {KEYS.map(([keys, meaning]) => (
          <div key={meaning}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
