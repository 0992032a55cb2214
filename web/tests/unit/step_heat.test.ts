// Step times as a heat map: against whom a rank is slow, and which pixels show it.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { StepTimes } from "../../src/api/views.ts";
import { colorAt, heatOf, levelsOf, partsOfColor, pixelLevels, slowestOf } from "../../src/run/step_heat.ts";

const times = (step_s: (number | null)[][], time = [100, 110, 120]): StepTimes => ({
  first: 100,
  last: 130,
  seconds: 10,
  time,
  ranks: step_s.map((_, rank) => rank),
  step_s,
});

test("a rank is compared with the median of the others at that time", () => {
  const heat = heatOf(times([[1, 1, null], [1, 2, null], [1, 1, null], [2, 1, 3]]));
  assert.equal(heat.columns, 3);
  assert.deepEqual([...heat.ratios.slice(0, 3)], [1, 1, NaN]);
  assert.equal(heat.ratios[4], 2); // rank 1 at the second time
  assert.equal(heat.ratios[9], 2); // rank 3 at the first
  assert.ok(Number.isNaN(heat.ratios[11]!)); // alone at the third
  const levels = levelsOf(heat, "others");
  assert.equal(levels[4], 1);
  assert.equal(levels[0], 0);
  assert.equal(levels[11], 0); // of a rank alone nobody says that it is slow
  assert.ok(Number.isNaN(levels[2]!));
  assert.deepEqual(slowestOf(heat), { row: 3, column: 2 });
});

test("two ranks are compared with each other", () => {
  const heat = heatOf(times([[1], [3]], [100]));
  assert.deepEqual([...heat.ratios], [1 / 3, 3]);
});

test("times without samples are columns of their own, and a gap of months is none of millions", () => {
  const heat = heatOf(times([[1, 1]], [100, 150]));
  assert.equal(heat.columns, 6);
  assert.deepEqual([...heat.values], [1, NaN, NaN, NaN, NaN, 1]);
  assert.ok(heatOf(times([[1, 1]], [0, 1e9])).columns <= 2000);
  assert.equal(heatOf(times([], [])).columns, 0);
  assert.equal(heatOf(times([])).columns, 0); // nodes were sampled, but no steps
  assert.equal(slowestOf(heatOf(times([], []))), undefined);
});

test("a slow rank among a thousand is seen", () => {
  const ranks = 1024;
  const levels = new Float64Array(ranks).fill(0);
  levels[513] = 1;
  const pixels = pixelLevels(levels, ranks, 1, 480, 2);
  assert.equal([...pixels].filter((level) => level === 1).length, 2);
  assert.ok([...pixels].every((level) => !Number.isNaN(level)));
  assert.deepEqual([...pixelLevels(new Float64Array([0, 1]), 2, 1, 4, 2)], [0, 0, 1, 1]);
});

test("levels by time go from the quickest to the slowest", () => {
  assert.deepEqual([...levelsOf(heatOf(times([[1], [2], [3]], [100])), "time")], [0, 1, 1]);
  assert.deepEqual([...levelsOf(heatOf(times([[2], [2]], [100])), "time")], [0, 0]);
});

test("colours lie between those of the scale", () => {
  const scale = ["#000000", "#ff0000", "#ffff00"].map(partsOfColor);
  assert.deepEqual(colorAt(scale, 0), [0, 0, 0]);
  assert.deepEqual(colorAt(scale, 0.75), [255, 128, 0]);
  assert.deepEqual(colorAt(scale, 7), [255, 255, 0]);
});
