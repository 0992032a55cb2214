// The workers of the last attempt, a row for each rank.
import { useMemo, useState } from "preact/hooks";
import type { RunView, Worker } from "../api/views.ts";
import { bytesText, countText, maybe, numberText, percentText } from "../format/number.ts";
import { durationText } from "../format/time.ts";
import { shownStage } from "../runs/run_state.ts";
import { Icon } from "../shell/icons.tsx";
import { Empty } from "../shell/notices.tsx";
import { type Parameters, logsHash, workerHash } from "../shell/route.ts";
import { StateBadge } from "../shell/state_badge.tsx";
import { useNow } from "../shell/time.tsx";
import { VirtualRows } from "../table/virtual_rows.tsx";
import { ProfileDialog } from "../profiles/profile_dialog.tsx";
import { type ProfileKind, factsOf } from "../profiles/profile_kinds.ts";
import { useSession } from "../shell/session_page.tsx";
import { printable } from "../text/printable.ts";
import { StacksDialog } from "./stacks_dialog.tsx";
import { StepHeatMap } from "./step_heat_map.tsx";
import { whyNotAskable } from "./why_not.ts";
import { cpuShare } from "./worker_numbers.ts";

const ROW_HEIGHT = 32; // .worker-row in style/run.css
const MOST_IN_SIGHT = 20;

interface Column {
  key: string;
  title: string;
  isNumber?: boolean;
  value: (worker: Worker, now: number) => number | string;
  text: (worker: Worker, now: number) => string;
}

const COLUMNS: Column[] = [
  {
    key: "rank",
    title: "Rank",
    isNumber: true,
    value: (w) => w.rank ?? -1,
    text: (w) => (w.rank === null ? "–" : String(w.rank)),
  },
  { key: "stage", title: "State", value: (w) => w.stage, text: (w) => w.stage },
  { key: "node", title: "Node", value: (w) => w.node, text: (w) => printable(w.node) },
  { key: "pid", title: "Process", isNumber: true, value: (w) => w.pid, text: (w) => String(w.pid) },
  { key: "step", title: "Step", isNumber: true, value: (w) => w.step ?? -1, text: (w) => maybe(w.step, countText) },
  {
    key: "phase",
    title: "Phase",
    value: (w) => w.phase ?? "",
    text: (w) => printable((w.phase ?? "–").replace(/_/g, " ")),
  },
  {
    key: "step_s",
    title: "Step time",
    isNumber: true,
    value: (w) => w.step_s ?? -1,
    text: (w) => maybe(w.step_s || undefined, durationText), // 0: none was timed yet
  },
  {
    key: "cpu",
    title: "CPU",
    isNumber: true,
    value: cpuShare,
    text: (w, now) => (w.cpu_s === undefined ? "–" : percentText(cpuShare(w, now))),
  },
  {
    key: "memory",
    title: "Memory",
    isNumber: true,
    value: (w) => w.resident_bytes ?? -1,
    text: (w) => maybe(w.resident_bytes, bytesText),
  },
];

function StateCell({ worker }: { worker: Worker }) {
  return (
    <>
      <StateBadge state={shownStage(worker.stage)} />
      {worker.last_stage && <span class="quiet"> was {worker.last_stage}</span>}
      {worker.slow !== undefined && (
        <span class="state warn" title="Its steps take longer than the others'">
          <Icon name="warning" /> slow, {numberText(worker.slow)}×
        </span>
      )}
    </>
  );
}

/** Which ranks are slow, whichever are in sight. */
function SlowRanks({ workers }: { workers: Worker[] }) {
  const slow = workers.flatMap(({ rank, slow: times }) =>
    times === undefined ? [] : [`rank ${rank ?? "?"} takes ${numberText(times)} times`],
  );
  if (slow.length === 0) return null;
  return <p class="notice warn">Slow: {slow.join(", ")} as long for a step as the others.</p>;
}

const ROW_KINDS: ProfileKind[] = ["cpu", "memory"];
const LOOKS: { what: ProfileKind | "stacks"; title: string; shortTitle: string }[] = [
  { what: "stacks", title: "Stack trace", shortTitle: "Stack" },
  ...ROW_KINDS.map((what) => ({ what, ...factsOf(what) })),
];

/** The rank leads to the worker's page. */
function CellContent({ id, column, worker, now }: { id: string; column: Column; worker: Worker; now: number }) {
  if (column.key === "stage") return <StateCell worker={worker} />;
  if (column.key !== "rank" || worker.rank === null) return <>{column.text(worker, now)}</>;
  return (
    <a href={workerHash(id, worker.rank)} aria-label={`Worker of rank ${worker.rank}`}>
      {worker.rank}
    </a>
  );
}

export function Workers({ id, run, parameters }: { id: string; run: RunView; parameters: Parameters }) {
  const [sort, setSort] = useState({ key: "rank", isDown: false });
  const [asked, setAsked] = useState<{ worker: Worker; what: ProfileKind | "stacks" } | undefined>();
  const { info } = useSession();
  const reasonFor = (worker: Worker) => whyNotAskable(run, info?.read_only ?? false, worker);
  const now = useNow(run.live);
  const rows = useMemo(() => {
    const column = COLUMNS.find((one) => one.key === sort.key);
    const valued = run.workers.map((worker) => ({ worker, value: column?.value(worker, now) ?? 0 }));
    valued.sort((a, b) => (a.value < b.value ? -1 : a.value > b.value ? 1 : 0) * (sort.isDown ? -1 : 1));
    return valued.map(({ worker }) => worker);
  }, [run.workers, sort, sort.key === "cpu" ? now : 0]);

  if (rows.length === 0) {
    return (
      <Empty title="No worker has started yet" command={`paceline show ${run.name}`}>
        A run with <code>num_workers=0</code> trains in its driver, and never has one.
      </Empty>
    );
  }
  const head = (
    <div role="row" aria-rowindex={1} class="worker-row head">
      {COLUMNS.map(({ key, title, isNumber }) => {
        const isSorted = sort.key === key;
        const order = !isSorted ? "none" : sort.isDown ? "descending" : "ascending";
        return (
          <div key={key} role="columnheader" class={`cell ${key} ${isNumber ? "number" : ""}`} aria-sort={order}>
            <button type="button" class="sorter" onClick={() => setSort({ key, isDown: isSorted && !sort.isDown })}>
              {title}
              {isSorted && <Icon name={sort.isDown ? "sorted_down" : "sorted_up"} />}
            </button>
          </div>
        );
      })}
      <div role="columnheader" class="cell looks">
        Stack, profile
      </div>
      <div role="columnheader" class="cell log">
        Log
      </div>
    </div>
  );
  const row = (index: number) => {
    const worker = rows[index];
    return (
      worker && (
        <div key={worker.worker} role="row" aria-rowindex={index + 2} class="worker-row">
          {COLUMNS.map((column) => (
            <div key={column.key} role="cell" class={`cell ${column.key} ${column.isNumber ? "number" : ""}`}>
              <CellContent id={id} column={column} worker={worker} now={now} />
            </div>
          ))}
          <div role="cell" class="cell looks">
            {LOOKS.map(({ what, title, shortTitle }) => (
              <button
                key={what}
                type="button"
                class="link"
                aria-label={`${title} of rank ${worker.rank ?? "?"}`}
                disabled={reasonFor(worker) !== ""}
                title={reasonFor(worker)}
                onClick={() => setAsked({ worker, what })}
              >
                {shortTitle}
              </button>
            ))}
          </div>
          <div role="cell" class="cell log">
            <a href={logsHash(id, `worker_${worker.worker}`)} aria-label={`Log of rank ${worker.rank ?? "?"}`}>
              Log
            </a>
          </div>
        </div>
      )
    );
  };
  return (
    <>
      <SlowRanks workers={run.workers} />
      <StepHeatMap id={id} run={run} parameters={parameters} />
      <div class="worker-box" style={{ height: `${(Math.min(rows.length, MOST_IN_SIGHT) + 1) * ROW_HEIGHT + 14}px` }}>
        <VirtualRows
          class="worker-table"
          role="table"
          label="Workers"
          count={rows.length}
          rowHeight={ROW_HEIGHT}
          row={row}
          head={head}
        />
      </div>
      {asked?.what === "stacks" && (
        <StacksDialog
          id={id}
          run={run}
          {...(asked.worker.rank === null ? {} : { rank: asked.worker.rank })}
          onClose={() => setAsked(undefined)}
        />
      )}
      {asked && asked.what !== "stacks" && (
        <ProfileDialog
          id={id}
          run={run}
          kind={asked.what}
          rank={asked.worker.rank ?? undefined}
          onClose={() => setAsked(undefined)}
        />
      )}
    </>
  );
}
