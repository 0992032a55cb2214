// The table of runs: a row each, of which only those in sight are made.
import type { ComponentChildren } from "preact";
import type { RunRow } from "../api/views.ts";
import { countText } from "../format/number.ts";
import { Icon } from "../shell/icons.tsx";
import { setParameters } from "../shell/navigation.ts";
import { runHash } from "../shell/route.ts";
import { StateBadge } from "../shell/state_badge.tsx";
import { Ago, useNow } from "../shell/time.tsx";
import { VirtualRows } from "../table/virtual_rows.tsx";
import { durationText } from "../format/time.ts";
import { printable } from "../text/printable.ts";
import { withoutAnsi } from "../text/ansi.ts";
import { lengthOf, metricsText } from "./run_filter.ts";
import { shownState } from "./run_state.ts";

const ROW_HEIGHT = 34; // .run-row in style/runs.css

interface Column {
  key: string;
  title: string;
  class?: string;
  sorts?: boolean;
}

const COLUMNS: Column[] = [
  { key: "state", title: "State", sorts: true },
  { key: "name", title: "Run", sorts: true },
  { key: "report", title: "Report", class: "number", sorts: true },
  { key: "metrics", title: "Last metrics, or why it ended" },
  { key: "workers", title: "Workers", class: "number", sorts: true },
  { key: "attempt", title: "Attempt", class: "number", sorts: true },
  { key: "length", title: "Duration", class: "number", sorts: true },
  { key: "opened", title: "Opened", class: "number", sorts: true },
];

function Head({ column, sort }: { column: Column; sort: string }) {
  const isDown = sort === "-" + column.key;
  const isUp = sort === column.key;
  const order = isUp ? "ascending" : isDown ? "descending" : "none";
  const name = `cell ${column.key} ${column.class ?? ""}`;
  if (!column.sorts) {
    return (
      <div role="columnheader" class={name}>
        {column.title}
      </div>
    );
  }
  return (
    <div role="columnheader" class={name} aria-sort={order}>
      <button
        type="button"
        class="sorter"
        onClick={() => setParameters({ sort: isDown ? column.key : "-" + column.key })}
      >
        {column.title}
        {(isUp || isDown) && <Icon name={isUp ? "sorted_up" : "sorted_down"} />}
      </button>
    </div>
  );
}

function Cell({ name, children, title }: { name: string; children: ComponentChildren; title?: string }) {
  return (
    <div role="cell" class={`cell ${name}`} {...(title ? { title } : {})}>
      {children}
    </div>
  );
}

/** Of a run that failed its error says more than its last metrics. */
function Outcome({ run }: { run: RunRow }) {
  const error = withoutAnsi(run.error.split("\n", 1)[0] ?? "");
  if (run.state === "errored" && error) {
    return (
      <Cell name="metrics bad-text" title={error}>
        {error}
      </Cell>
    );
  }
  const text = printable(metricsText(run));
  return (
    <Cell name="metrics number" title={text}>
      {text}
    </Cell>
  );
}

/** Whether it ever hung: who waited for whom is one click away. */
function HangMark({ run }: { run: RunRow }) {
  if (!run.hangs) return null;
  const text = run.hangs === 1 ? "hung" : `hung ${countText(run.hangs)} times`;
  return (
    <a
      class="hang-mark"
      href={runHash(run.id, { tab: "hangs" })}
      aria-label={`${text}: who waited for whom`}
      title={text}
    >
      <Icon name="warning" />
    </a>
  );
}

interface RowProps {
  run: RunRow;
  index: number;
  isCurrent: boolean;
  isChosen: boolean;
  now: number;
  onToggle: (id: string) => void;
}

function Row({ run, index, isCurrent, isChosen, now, onToggle }: RowProps) {
  const id = run.id;
  const name = printable(run.name);
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      class={`run-row ${isCurrent ? "current" : ""}`}
      aria-current={isCurrent || undefined}
    >
      <div role="cell" class="cell select">
        <input type="checkbox" checked={isChosen} aria-label={`Compare ${name}`} onChange={() => onToggle(id)} />
      </div>
      <Cell name="state">
        <StateBadge state={shownState(run)} />
        <HangMark run={run} />
      </Cell>
      <Cell name="name" title={run.location}>
        <a href={runHash(id)}>
          <bdi>{name}</bdi>
        </a>
      </Cell>
      <Cell name="report number">{countText(run.report)}</Cell>
      <Outcome run={run} />
      <Cell name="workers number">{countText(run.world_size)}</Cell>
      <Cell name="attempt number">{countText(run.attempt)}</Cell>
      <Cell name="length number">{run.driver === "gone" ? "" : durationText(lengthOf(run, now))}</Cell>
      <Cell name="opened number">
        <Ago time={run.opened} now={now} />
      </Cell>
    </div>
  );
}

export interface RunTableProps {
  runs: RunRow[];
  sort: string;
  /** The row that the keys are at; −1: none. */
  current: number;
  chosen: string[];
  onToggle: (id: string) => void;
  onCurrent: (index: number) => void;
}

export function RunTable({ runs, sort, current, chosen, onToggle }: RunTableProps) {
  const now = useNow();
  const row = (index: number) => {
    const run = runs[index];
    if (!run) return null;
    const id = run.id;
    const isCurrent = index === current;
    const isChosen = chosen.includes(id);
    return <Row key={id} {...{ run, index, isCurrent, isChosen, now, onToggle }} />;
  };
  const head = (
    <div role="row" aria-rowindex={1} class="run-row head">
      <div role="columnheader" class="cell select">
        <span class="for-screen-readers">Compare</span>
      </div>
      {COLUMNS.map((column) => (
        <Head key={column.key} column={column} sort={sort} />
      ))}
    </div>
  );
  return (
    <VirtualRows
      class="run-table"
      role="table"
      label="Runs"
      count={runs.length}
      rowHeight={ROW_HEIGHT}
      row={row}
      head={head}
      inSight={current}
    />
  );
}
