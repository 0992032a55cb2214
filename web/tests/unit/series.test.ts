import assert from "node:assert/strict";
import { test } from "node:test";
import { alignedColumns, compareMetricNames, extentOf, flatMetrics } from "../../src/chart/series.ts";
import { lastOf, metricNumber, pointsOf, rangeAround, reportsBetween, smoothed } from "../../src/chart/series.ts";

const json = { report: [2, 4, 6], time: [10, 20, 30], min: [1, "NaN", 0], max: [3, "NaN", 2], last: [2, "NaN", -1] };
const points = pointsOf(json as Parameters<typeof pointsOf>[0]);

test("numbers that are not finite are gaps, and counted", () => {
  assert.deepEqual(points.last, [2, null, -1]);
  assert.equal(points.notFinite, 1);
  assert.deepEqual(extentOf(points), { least: 0, greatest: 3 });
  assert.equal(lastOf(points), -1);
  assert.equal(extentOf(pointsOf(undefined)), null);
});

test("a single value has space around it", () => {
  assert.deepEqual(rangeAround(2, 2), [1, 3]);
  assert.deepEqual(rangeAround(0, 0), [-0.5, 0.5]);
  assert.deepEqual(rangeAround(7, 7, 1), [6, 8]);
  assert.deepEqual(rangeAround(1, 2), [1, 2]);
});

test("columns that are too short are filled", () => {
  const damaged = pointsOf({ report: [1, 2], time: [5], min: [], max: [1], last: [1] });
  assert.deepEqual(
    [damaged.time, damaged.last],
    [
      [5, 0],
      [1, null],
    ],
  );
});

test("runs with different reports share one axis", () => {
  const other = pointsOf({ report: [3, 4], time: [1, 2], min: [5, 6], max: [5, 6], last: [5, 6] });
  const [x, , , first, , , second] = alignedColumns([points, other], "report");
  assert.deepEqual(x, [2, 3, 4, 6]);
  assert.deepEqual(first, [2, null, null, -1]);
  assert.deepEqual(second, [null, 5, 6, null]);
});

test("a logarithmic axis has no place for zero and below", () => {
  assert.deepEqual(alignedColumns([points], "report", true)[3], [2, null, null]);
});

test("a zoom is in reports, also over time", () => {
  assert.deepEqual(reportsBetween(points, "time", 15, 30), [4, 6]);
  assert.deepEqual(reportsBetween(points, "report", 2.5, 3.5), null);
});

test("smoothing begins at the first value and keeps gaps", () => {
  const flat = pointsOf({ report: [1, 2, 3], time: [1, 2, 3], min: [4, 4, 4], max: [4, 4, 4], last: [4, null, 4] });
  assert.deepEqual(smoothed(flat, 0.9).last, [4, null, 4]);
  assert.equal(smoothed(points, 0), points);
});

test("nested metrics are joined, numbers that JSON lacks are read", () => {
  const metrics = { loss: { $number: "nan" }, eval: { accuracy: 0.5, deep: { x: 1 } }, note: "text", list: [1] };
  const flat = flatMetrics(metrics);
  const names = ["loss", "eval/accuracy", "eval/deep/x", "note", "list"];
  assert.deepEqual(
    flat.map(([name]) => name),
    names,
  );
  assert.ok(Number.isNaN(metricNumber(flat[0]?.[1])));
  assert.equal(metricNumber("1"), undefined);
  assert.deepEqual(["zeta", "eval/accuracy", "a2", "a10", "loss"].sort(compareMetricNames), [
    "loss",
    "eval/accuracy",
    "a2",
    "a10",
    "zeta",
  ]);
});
