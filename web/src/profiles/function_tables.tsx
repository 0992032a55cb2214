// The functions of a flame graph as lists: those with most time, and those whose share has changed most.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { FlameFrame } from "../api/views.ts";
import { bytesText, percentText } from "../format/number.ts";
import { Choices } from "../shell/choices.tsx";
import { printable } from "../text/printable.ts";
import { changeOf, changes } from "./flame_diff.ts";
import { type FlameTree, functionShares } from "./flame_tree.ts";
import { functionText, placeText, shortName } from "./function_name.ts";
import { pointsText } from "./profile_text.ts";

const MOST = 40;

type By = "own" | "total";

const WHAT_COUNTS: { key: By; title: string }[] = [
  { key: "own", title: "Itself" },
  { key: "total", title: "With what it calls" },
];

function Choice({ by, onChange }: { by: By; onChange: (by: By) => void }) {
  return <Choices label="What of a function counts" all={WHAT_COUNTS} chosen={by} onChoose={onChange} />;
}

function Name({ frame, onSearch }: { frame: FlameFrame; onSearch: (text: string) => void }) {
  const text = functionText(frame);
  return (
    <td class="details function">
      <button type="button" class="link" title={`Show in the graph: ${printable(text)}`} onClick={() => onSearch(text)}>
        {printable(shortName(text))}
      </button>{" "}
      <span class="quiet">{printable(placeText(frame))}</span>
    </td>
  );
}

interface TableProps {
  title: string;
  by: By;
  onBy: (by: By) => void;
  heads: string[];
  rows: ComponentChildren;
}

function Table({ title, by, onBy, heads, rows }: TableProps) {
  return (
    <>
      <div class="toolbar functions-head">
        <h2>{title}</h2>
        <Choice by={by} onChange={onBy} />
      </div>
      <div class="scrolls" tabIndex={0} role="group" aria-label={title}>
        <table class="functions">
          <thead>
            <tr>
              <th>Function</th>
              {heads.map((head) => (
                <th key={head} class="number">
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>{rows}</tbody>
        </table>
      </div>
    </>
  );
}

/** Of memory also how many bytes. */
function Amount({ count, all, isOfBytes }: { count: number; all: number; isOfBytes: boolean }) {
  return (
    <>
      {isOfBytes && <td class="number">{bytesText(count)}</td>}
      <td class="number">{percentText(count / all)}</td>
    </>
  );
}

interface FunctionTableProps {
  tree: FlameTree;
  isOfBytes: boolean;
  onSearch: (text: string) => void;
}

export function FunctionTable({ tree, isOfBytes, onSearch }: FunctionTableProps) {
  const [by, setBy] = useState<By>("own");
  const shares = useMemo(() => {
    const all = functionShares(tree).filter((share) => share[by] > 0);
    return all.sort((a, b) => b[by] - a[by] || a.frame - b.frame).slice(0, MOST);
  }, [tree, by]);
  const rows = shares.map((share) => (
    <tr key={share.frame}>
      <Name frame={tree.frames[share.frame]!} onSearch={onSearch} />
      <Amount count={share.own} all={tree.count} isOfBytes={isOfBytes} />
      <Amount count={share.total} all={tree.count} isOfBytes={isOfBytes} />
    </tr>
  ));
  const heads = isOfBytes ? ["Itself", "Share", "In all", "Share of all"] : ["Itself", "In all"];
  return <Table title="Functions with the largest shares" by={by} onBy={setBy} heads={heads} rows={rows} />;
}

interface ChangeTableProps {
  before: FlameTree;
  after: FlameTree;
  isOfBytes: boolean;
  onSearch: (text: string) => void;
}

export function ChangeTable({ before, after, isOfBytes, onSearch }: ChangeTableProps) {
  const [by, setBy] = useState<By>("own");
  const most = useMemo(() => changes(before, after, by).slice(0, MOST), [before, after, by]);
  const rows = most.map((change, number) => {
    const [was, is] = by === "own" ? [change.ownBefore, change.ownAfter] : [change.totalBefore, change.totalAfter];
    const difference = changeOf(change, by);
    return (
      <tr key={number}>
        <Name frame={change.frame} onSearch={onSearch} />
        <td class={`number ${difference > 0 ? "more" : "less"}`}>{pointsText(difference)}</td>
        {isOfBytes && <td class="number">{bytesText(was * before.count)}</td>}
        <td class="number">{percentText(was)}</td>
        {isOfBytes && <td class="number">{bytesText(is * after.count)}</td>}
        <td class="number">{percentText(is)}</td>
      </tr>
    );
  });
  const heads = isOfBytes
    ? ["Change", "Before", "Share before", "After", "Share after"]
    : ["Change", "Before", "After"];
  return <Table title="Largest changes" by={by} onBy={setBy} heads={heads} rows={rows} />;
}
