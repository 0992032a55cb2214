// What the pages Data and Nodes make of the server's answers.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { DatasetSummary, NodeSummary } from "../../src/api/views.ts";
import { busyShares, isMeant, waitedShare } from "../../src/data/dataset_numbers.ts";
import { machinesOf } from "../../src/nodes/machines.ts";

const operator = (name: string, busy_threads: number | null, block_generation_time = 0) => ({
  name,
  busy_threads,
  figures: { block_generation_time },
});
const dataset = (...operators: ReturnType<typeof operator>[]) =>
  ({ name: "train", operators }) as unknown as DatasetSummary;

test("operators share what they work", () => {
  assert.deepEqual(busyShares(dataset(operator("Read", 0.5), operator("Map", 1.5))), [0.25, 0.75]);
  assert.deepEqual(busyShares(dataset(operator("Read", null, 3), operator("Map", null, 1))), [0.75, 0.25]);
  assert.deepEqual(busyShares(dataset(operator("Read", 0))), [0]);
  assert.equal(waitedShare({ rank: 0, batches: 0, rows: 0, bytes: 0, waited_s: 1, open_s: 0 }), 0);
});

test("a filter means runs, datasets and operators", () => {
  const one = dataset(operator("ReadParquet", 1));
  for (const text of ["", "MNIST", "rain", " parquet "]) assert.ok(isMeant("mnist-7", one, text), text);
  assert.ok(!isMeant("mnist-7", one, "cifar"));
});

test("a machine is listed once, with the runs beneath it", () => {
  const node = (name: string, time: number) => ({ name, sample: { time } }) as unknown as NodeSummary;
  const machines = machinesOf([
    { id: "1", name: "a", nodes: [node("gpu-10", 5), node("gpu-2", 5)] },
    { id: "2", name: "b", nodes: [node("gpu-2", 9)] },
  ]);
  assert.deepEqual(
    machines.map(({ name, newest, runs }) => [name, newest.run.name, runs.map(({ run }) => run.name)]),
    [["gpu-2", "b", ["a", "b"]], ["gpu-10", "a", ["a"]]],
  );
});
