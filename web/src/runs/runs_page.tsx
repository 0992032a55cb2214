// The list of runs: find one, or choose several to compare.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RunRow } from "../api/views.ts";
import { countText, plural } from "../format/number.ts";
import { Choices } from "../shell/choices.tsx";
import { Command } from "../shell/copy_button.tsx";
import { Icon } from "../shell/icons.tsx";
import { go, setParameters } from "../shell/navigation.ts";
import { Empty, Loading, ProblemNotice } from "../shell/notices.tsx";
import { type Parameters, hashOf, runHash } from "../shell/route.ts";
import { DEFAULT_SORT, countsByGroup, selected } from "./run_filter.ts";
import { useRunList } from "./run_list.ts";
import { STATE_GROUPS, type StateGroup } from "./run_state.ts";
import { RunTable } from "./run_table.tsx";

const MOST_COMPARED = 8;

function StateFilter({ group, runs }: { group: string; runs: RunRow[] }) {
  const counts = useMemo(() => countsByGroup(runs), [runs]);
  const groups = [{ group: "", title: "All", count: runs.length }].concat(
    STATE_GROUPS.map((one) => ({ ...one, count: counts.get(one.group) ?? 0 })).filter(
      (one) => one.count > 0 || one.group === group,
    ),
  );
  const choices = groups.map(({ group: key, title, count }) => ({
    key,
    title: (
      <>
        {title} <span class="count">{countText(count)}</span>
      </>
    ),
  }));
  return <Choices label="State" all={choices} chosen={group} onChoose={(state) => setParameters({ state })} />;
}

interface KeyActions {
  move: (by: number) => void;
  open: () => void;
  toggle: () => void;
  compare: () => void;
  clear: () => void;
}

/** j, k, Enter, x, c and Escape, unless somebody types or presses what has the focus. */
function useListKeys(actions: KeyActions): void {
  const latest = useRef(actions);
  latest.current = actions;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target instanceof HTMLElement ? event.target : null;
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (target?.matches("input[type=search]")) {
        if (event.key === "Escape") target.blur();
        if (event.key === "Enter") latest.current.open();
        return;
      }
      if (target?.matches("input:not([type=checkbox]), select, textarea")) return;
      const { move, open, toggle, compare, clear } = latest.current;
      if (event.key === "j" || event.key === "ArrowDown") move(1);
      else if (event.key === "k" || event.key === "ArrowUp") move(-1);
      else if (event.key === "Enter" && !target?.matches("a, button")) open();
      else if (event.key === "x") toggle();
      else if (event.key === "c") compare();
      else if (event.key === "Escape") clear();
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}

export function RunsPage({ parameters }: { parameters: Parameters }) {
  const { runs, problem, isLoading, reload } = useRunList();
  const group = (parameters["state"] ?? "") as StateGroup | "";
  const text = parameters["q"] ?? "";
  const sort = parameters["sort"] ?? DEFAULT_SORT;
  const shown = useMemo(() => selected(runs, { group, text, sort }), [runs, group, text, sort]);
  const [current, setCurrent] = useState(-1);
  const [chosen, setChosen] = useState<string[]>([]);

  useEffect(() => {
    document.title = "Runs — Paceline";
  }, []);
  useEffect(() => setCurrent(-1), [group, text, sort]);

  const toggle = (id: string) =>
    setChosen((before) => {
      if (before.includes(id)) return before.filter((one) => one !== id);
      return before.length < MOST_COMPARED ? [...before, id] : before;
    });
  const compare = () => {
    if (chosen.length > 1) go(hashOf({ page: "compare", ids: chosen, parameters: {} }));
  };
  useListKeys({
    move: (by) => setCurrent((before) => Math.max(0, Math.min(shown.length - 1, before + by))),
    open: () => {
      const run = shown[current] ?? (text !== "" && shown.length === 1 ? shown[0] : undefined);
      if (run) go(runHash(run.id));
    },
    toggle: () => {
      const run = shown[current];
      if (run) toggle(run.id);
    },
    compare,
    clear: () => setChosen([]),
  });

  return (
    <div class="page fills">
      <div class="toolbar">
        <h1 class="for-screen-readers">Runs</h1>
        <label class="search">
          <Icon name="search" />
          <span class="for-screen-readers">Filter</span>
          <input
            type="search"
            data-filter
            placeholder="Filter by name, state, host, error"
            value={text}
            spellcheck={false}
            onInput={(event) => setParameters({ q: event.currentTarget.value })}
          />
          <kbd aria-hidden="true">/</kbd>
        </label>
        <StateFilter group={group} runs={runs} />
        <span class="fill" />
        {chosen.length > 0 && (
          <span class="chosen">
            {plural(chosen.length, "run")} selected
            <button type="button" class="primary" disabled={chosen.length < 2} onClick={compare}>
              Compare
            </button>
            <button type="button" onClick={() => setChosen([])}>
              Clear
            </button>
          </span>
        )}
        <span class="quiet number" role="status">
          {shown.length === runs.length
            ? plural(runs.length, "run")
            : `${countText(shown.length)} of ${plural(runs.length, "run")}`}
          {isLoading && runs.length > 0 ? ", more are coming" : ""}
        </span>
      </div>
      {problem && !problem.needsSession && <ProblemNotice problem={problem} onRetry={reload} />}
      {shown.length > 0 && (
        <RunTable runs={shown} sort={sort} current={current} chosen={chosen} onToggle={toggle} onCurrent={setCurrent} />
      )}
      {runs.length === 0 && isLoading && <Loading />}
      {runs.length === 0 && !isLoading && !problem && (
        <Empty title="No runs yet" command="paceline run --nproc-per-node 2 train.py">
          Every run that a driver of yours opens is listed here. Runs in other folders are added by{" "}
          <Command text="paceline index FOLDER" />
        </Empty>
      )}
      {runs.length > 0 && shown.length === 0 && (
        <Empty title="No run is like that">
          <button type="button" onClick={() => setParameters({ q: "", state: "" })}>
            Show all {countText(runs.length)}
          </button>
        </Empty>
      )}
    </div>
  );
}
