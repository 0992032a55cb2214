import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunRow } from "../../src/api/views.ts";
import { countsByGroup, merged, metricsText, selected } from "../../src/runs/run_filter.ts";
import { shownState, stateGroup } from "../../src/runs/run_state.ts";

function row(name: string, change: Partial<RunRow> = {}): RunRow {
  const base = { path: "/r/" + name, location: "/r/" + name, state: "finished", driver: null, gone: false, error: "" };
  const numbers = { since: 20, created: 10, opened: 10, pid: 1, attempt: 1, world_size: 2, report: 5 };
  return { id: name, name, host: "node-1", metrics: {}, ...base, ...numbers, ...change };
}

const runs = [
  row("alpha", { opened: 30 }),
  row("beta", { state: "errored", error: "ValueError: label 8", opened: 20 }),
  row("gamma", { state: "running", driver: "alive", opened: 40, report: 100 }),
  row("delta", { state: "running", driver: "gone", opened: 5 }),
];
const names = (some: RunRow[]) => some.map((run) => run.name);

test("states are shown by what has become of the driver and the folder too", () => {
  assert.deepEqual(
    runs.map((run) => shownState(run).word),
    ["finished", "errored", "running", "driver died"],
  );
  assert.deepEqual(runs.map(stateGroup), ["finished", "failed", "live", "failed"]);
  assert.equal(shownState(row("x", { gone: true })).word, "deleted");
  assert.equal(shownState(row("x", { state: "some_new_state" })).word, "some new state");
  assert.equal(countsByGroup(runs).get("failed"), 2);
});

test("all words have to stand somewhere", () => {
  const find = (text: string) => names(selected(runs, { group: "", text, sort: "-opened" }));
  assert.deepEqual(find("VALUE label"), ["beta"]);
  assert.deepEqual(find("node-1 died"), ["delta"]);
  assert.deepEqual(find("nothing"), []);
});

test("order and state", () => {
  const sort = (order: string) => names(selected(runs, { group: "", text: "", sort: order }));
  assert.deepEqual(sort("-opened"), ["gamma", "alpha", "beta", "delta"]);
  assert.deepEqual(sort("name"), ["alpha", "beta", "delta", "gamma"]);
  assert.deepEqual(sort("-report"), ["gamma", "alpha", "beta", "delta"]); // equal ones: the latest first
  assert.deepEqual(sort("what nobody knows"), ["delta", "beta", "alpha", "gamma"]);
  assert.deepEqual(names(selected(runs, { group: "failed", text: "", sort: "name" })), ["beta", "delta"]);
});

test("news replace rows and add rows", () => {
  const changed = merged(runs, [row("beta", { report: 9 }), row("new")]);
  assert.deepEqual(names(changed), ["new", "alpha", "beta", "gamma", "delta"]);
  assert.equal(changed[2]?.report, 9);
});

test("metrics as text: loss first, no text, no lists", () => {
  const metrics = { epoch: 3, eval: { accuracy: 0.5 }, loss: 0.25, note: "text" };
  assert.equal(metricsText(row("x", { metrics })), "loss 0.25 · eval/accuracy 0.5 · epoch 3");
});
