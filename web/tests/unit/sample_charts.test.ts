import assert from "node:assert/strict";
import { test } from "node:test";
import type { SamplesJson } from "../../src/api/views.ts";
import { MOST_LINES, clusterCharts, nodeCharts, partOf, processLabel, workerCharts } from "../../src/nodes/sample_charts.ts";

function samplesOf(series: { [name: string]: (number | null)[] }, about: SamplesJson["about"] = {}): SamplesJson {
  const length = Math.max(...Object.values(series).map((values) => values.length));
  return {
    first: 1000,
    last: 1000 + length - 1,
    seconds: 1,
    time: Array.from({ length }, (_, at) => 1000 + at),
    series: Object.fromEntries(
      Object.entries(series).map(([name, values]) => [name, { mean: values, min: values, max: values }]),
    ),
    names: Object.keys(series),
    about,
  };
}

test("a node has charts of what it has numbers of", () => {
  const samples = samplesOf(
    {
      cpu_ratio: [0.5, null],
      swap_used_bytes: [null, null],
      "gpu/GPU-b/utilization_ratio": [0.25, 0.5],
      "gpu/GPU-a/utilization_ratio": [0.75, 1],
      "process/0/cpu_cores": [0.1, 0.1],
      "process/7/cpu_cores": [1, 2],
    },
    { gpus: { "GPU-b": { index: 1 }, "GPU-a": { index: 0 } }, processes: { 7: { role: "worker" }, 0: { role: "driver" } } },
  );
  const charts = nodeCharts(samples, { 7: 3 });
  assert.deepEqual(
    charts.map((chart) => chart.title),
    ["CPU", "GPU", "Cores used by processes"],
  );
  const [cpu, gpu, cores] = charts;
  assert.deepEqual(cpu?.lines[0]?.points.last, [0.5, null]);
  assert.deepEqual(cpu?.lines[0]?.points.time, [1000, 1001]);
  assert.deepEqual(gpu?.lines.map((line) => line.label), ["GPU 0", "GPU 1"]);
  assert.deepEqual(cores?.lines.map((line) => line.label), ["driver", "rank 3"]);
});

test("a worker has charts of its own process", () => {
  const samples = samplesOf({ "process/7/step_s": [0.25, 0.5], "process/7/rss_bytes": [1, 2], "process/8/step_s": [9, 9] });
  const charts = workerCharts(samples, 7);
  assert.deepEqual(
    charts.map(({ title, lines }) => [title, lines.length, lines[0]?.points.last]),
    [
      ["Step time", 1, [0.25, 0.5]],
      ["Memory", 1, [1, 2]],
    ],
  );
});

test("of many processes those are shown that reach highest", () => {
  const ids = Array.from({ length: 40 }, (_, at) => at + 1);
  const samples = samplesOf(
    Object.fromEntries(ids.map((id) => [`process/${id}/rss_bytes`, [id]])),
    { processes: Object.fromEntries(ids.map((id) => [id, { role: "worker" }])) },
  );
  const lines = nodeCharts(samples, {})[0]?.lines ?? [];
  assert.equal(lines.length, MOST_LINES);
  assert.equal(lines[0]?.label, "worker 25");
  assert.equal(lines.at(-1)?.label, "worker 40");
});

test("nodes together: a line for each, GPUs combined, states added up", () => {
  const one = samplesOf(
    {
      cpu_ratio: [0.5, 0.5],
      "gpu/a/utilization_ratio": [0, 1],
      "gpu/b/utilization_ratio": [1, 1],
      "gpu/a/memory_used_bytes": [1, 1],
      "gpu/b/memory_used_bytes": [2, 2],
      "processes/worker/live": [2, 2],
      "processes/worker/blocked": [0, 0],
      "processes/driver/live": [1, 1],
    },
    { gpus: { a: {}, b: {} } },
  );
  const two = samplesOf({ cpu_ratio: [0.25], "processes/worker/live": [1], "processes/worker/stopped": [1] });
  const data = samplesOf({ "train/0 Read/rows_per_s": [5], "train/0 Read/tasks_running": [2] });
  const charts = clusterCharts(
    [
      { name: "one", samples: one },
      { name: "two", samples: two },
    ],
    [{ name: "3", samples: data }],
  );
  const lines = (title: string) => charts.find((chart) => chart.title === title)?.lines ?? [];
  assert.deepEqual(lines("CPU").map((line) => line.label), ["one", "two"]);
  assert.deepEqual(lines("GPU")[0]?.points.last, [0.5, 1]);
  assert.deepEqual(lines("GPU memory used")[0]?.points.last, [3, 3]);
  assert.deepEqual(lines("Workers by state").map((line) => [line.label, line.points.last]), [
    ["live", [3, 2]],
    ["stopped", [1]],
  ]);
  assert.deepEqual(lines("Agents by state").map((line) => line.label), ["live"]);
  assert.deepEqual(lines("Rows of operators").map((line) => line.label), ["train: 0 Read"]);
  assert.deepEqual(lines("Sent"), []);
});

test("names of processes", () => {
  assert.equal(processLabel("7", "worker", { 7: 0 }), "rank 0");
  assert.equal(processLabel("7", "worker", {}), "worker 7");
  assert.equal(processLabel("3", "data", {}), "data process 3");
  assert.equal(processLabel("0", "driver", {}), "driver");
});

test("the part of the time: zoomed, the last minutes, or all", () => {
  assert.deepEqual(partOf({}, 1000, 5000.5), { from: 4100, to: 5002 });
  assert.deepEqual(partOf({}, 4900, 5000), { from: 4900, to: 5001 });
  assert.deepEqual(partOf({ span: "all" }, 1000, 5000), { from: 1000, to: 5001 });
  assert.deepEqual(partOf({ from: "1500", to: "1600" }, 1000, 5000), { from: 1500, to: 1600 });
  assert.deepEqual(partOf({ from: "1600", to: "x" }, 1000, 1500), { from: 1000, to: 1501 });
  assert.deepEqual(partOf({ from: "1600", to: "1500", span: "none" }, 1000, 1500), { from: 1000, to: 1501 });
});
