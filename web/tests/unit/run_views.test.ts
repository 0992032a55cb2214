import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { RunEvent, RunView, Worker, WorkerStacks } from "../../src/api/views.ts";
import { splitError } from "../../src/run/error_parts.ts";
import { detailsText } from "../../src/run/event_details.ts";
import { driverOf, whyNotLive } from "../../src/run/run_driver.ts";
import { frameText, pythonGroups, stackGroups, stacksText } from "../../src/run/stack_groups.ts";
import { timelineOf } from "../../src/run/timeline.ts";
import { whyNotAskable } from "../../src/run/why_not.ts";
import { codeIn } from "../../src/shell/session_page.tsx";

/** What `paceline` said of real runs. */
function recorded<T>(name: string): T {
  return JSON.parse(readFileSync(`tests/unit/recorded/${name}`, "utf8")) as T;
}

test("an error's parts: cause, place, last lines, file", () => {
  const { cause, where, written, file } = splitError(recorded<RunView>("failed_run.json").error);
  assert.match(cause, /^Rank 1 of 2 .* ValueError: label 8/);
  assert.match(where.join("\n"), /at train_loop .*train\.py:\d+/);
  assert.equal(written.length, 20);
  assert.match(file, /worker_3\.log$/);
  assert.deepEqual(splitError(""), { cause: "", where: [], written: [], file: "" });
});

test("attempts lie on a line of time", () => {
  const { attempts, since } = recorded<RunView>("killed_run.json");
  const [first, second] = timelineOf(attempts, since);
  assert.equal(first?.left, 0);
  assert.ok(second && first && second.left >= first.width && second.left + second.width <= 100.5);
});

test("a driver that died is told by its workers", () => {
  const live = recorded<RunView>("live_run.json");
  assert.equal(driverOf(live), "alive");
  assert.equal(whyNotLive(live), "");
  const workers = live.workers.map((worker) => ({ ...worker, stage: "gone", last_stage: "training" }));
  const died = { ...live, live: false, workers, remark: "but its driver is gone" };
  assert.equal(driverOf(died), "gone");
  assert.match(whyNotLive(died), /driver is gone/);
  assert.equal(driverOf(recorded<RunView>("stopped_run.json")), null);
});

test("why nothing can be asked of workers", () => {
  const worker = { worker: 2, rank: 1, node: "a", pid: 7, stage: "training" } as Worker;
  const run = { state: "running", live: true, remark: "", workers: [worker] } as unknown as RunView;
  assert.equal(whyNotAskable(run, false), "");
  assert.equal(whyNotAskable(run, false, worker), "");
  assert.match(whyNotAskable(run, true), /read-only/);
  assert.match(whyNotAskable({ ...run, live: false, state: "finished" }, false), /finished/);
  assert.match(whyNotAskable(run, false, { ...worker, stage: "gone" }), /Rank 1 has ended/);
  assert.match(whyNotAskable({ ...run, workers: [{ ...worker, stage: "starting" }] }, false), /are starting/);
  assert.match(whyNotAskable({ ...run, workers: [] }, false), /No worker/);
});

test("ranks that stand at the same place are one group, the odd one first", () => {
  const [one] = recorded<WorkerStacks[]>("live_stacks.json");
  assert.ok(one);
  const many = Array.from({ length: 8 }, (_, rank) => ({ ...one, rank }));
  const frames = one.stacks.threads[0]?.frames.slice(1) ?? [];
  const threads = one.stacks.threads.map((thread, index) => (index === 0 ? { ...thread, frames } : thread));
  const odd = { ...one, rank: 8, stacks: { ...one.stacks, threads } };
  const mains = stackGroups([...many, odd]).filter((group) => group.isMain);
  assert.deepEqual(
    mains.map((group) => group.ranks),
    [[8], [0, 1, 2, 3, 4, 5, 6, 7]],
  );
});

test("so are ranks that stand at the same place in Python, whatever their processes", () => {
  const [one] = recorded<WorkerStacks[]>("live_stacks.json");
  assert.ok(one);
  const at = (rank: number, line: number) => {
    const text = `  Process ${100 + rank}: paceline worker ${rank}\n  Python v3.11.7 (/usr/bin/python3.11)\n\n`;
    const state = rank === 0 ? "idle" : "active+gil";
    const python = `${text}  Thread ${100 + rank} (${state}): "MainThread"\n      train_loop (train.py:${line})\n`;
    return { ...one, rank, stacks: { ...one.stacks, python } };
  };
  assert.deepEqual(pythonGroups([at(0, 34), at(1, 34), at(2, 35), { ...one, rank: 3 }]), [
    { ranks: [2], text: 'Thread "MainThread"\n    train_loop (train.py:35)' },
    { ranks: [0, 1], text: 'Thread "MainThread"\n    train_loop (train.py:34)' },
  ]);
});

test("a rank with several processes is named once, and a thread without a name is none of its own", () => {
  const [one] = recorded<WorkerStacks[]>("live_stacks.json");
  assert.ok(one);
  const at = (rank: number, thread: number) => {
    const head = `  Process ${thread}: loader\n  Python v3.11.7\n\n`;
    const python = `${head}  Thread ${thread} (idle)\n      get (queues.py:103)\n`;
    return { ...one, rank, stacks: { ...one.stacks, python } };
  };
  const text = "Thread\n    get (queues.py:103)";
  assert.deepEqual(pythonGroups([at(0, 7), at(0, 8), at(1, 9)]), [{ ranks: [0, 1], text }]);
  assert.match(stacksText([at(0, 7), at(0, 8), at(1, 9)]), /^ranks 0–1 in Python\n/);
  assert.match(stacksText([at(-1, 7)]), /^a worker without a rank in Python\n/);
});

test("frames without a name or a file", () => {
  const frame = { function: "", file: "", line: 0, module: "libmkl.so", inlined: false };
  assert.equal(frameText(frame), "in libmkl.so");
  assert.equal(frameText({ ...frame, function: "f", file: "a.cpp", line: 3 }), "f (a.cpp:3)");
});

test("details of events leave out what says nothing", () => {
  assert.equal(
    detailsText({ worker: 3, pid: 0, address: "", list: [], status: { exit_code: 1 } }),
    "worker 3, status (exit code 1)",
  );
  for (const event of recorded<RunEvent[]>("killed_events.json")) detailsText(event.details);
});

test("the code of a session is found in what was pasted", () => {
  assert.equal(codeIn(" abc "), "abc");
  assert.equal(codeIn("http://127.0.0.1:8411/x/#code=abc"), "abc");
  assert.equal(codeIn("http://127.0.0.1:8411/#code=abc/runs/1f"), "abc");
});
