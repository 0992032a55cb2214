import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesText, coresText, numberText, percentText, plural, rangesText, ranksText, tickText } from "../../src/format/number.ts";
import { agoText, durationText, isoTimeText, utcTimeText } from "../../src/format/time.ts";

test("marks of an axis can be told apart", () => {
  assert.deepEqual([0, 0.00992, 0.00994].map((value) => tickText(value, 0.00002)), ["0", "0.00992", "0.00994"]);
  assert.deepEqual([-0.5, 0.5].map((value) => tickText(value, 0.5)), ["−0.5", "0.5"]);
  assert.equal(tickText(1500, 500), "1,500");
});

test("numbers have as many digits as say something", () => {
  const texts = [0, 1, 1500, 0.0213456, 0.00001234, 12345.678, 1795801618, -0.5].map(numberText);
  assert.deepEqual(texts, ["0", "1", "1,500", "0.02135", "1.23e−5", "12,345.7", "1,795,801,618", "−0.5"]);
  assert.deepEqual([NaN, Infinity, -Infinity].map(numberText), ["NaN", "∞", "−∞"]);
});

test("of cores no whole one is rounded away", () => {
  assert.deepEqual([0, 0.03149, 1.72, 31.6, 100.4, 112, 128].map(coresText), ["0", "0.031", "1.7", "32", "100", "112", "128"]);
});

test("ranks are named by ranges", () => {
  assert.deepEqual([[3], [0, 1, 2, 5], [-1], [-1, 4], []].map(ranksText), [
    "rank 3",
    "ranks 0–2, 5",
    "a worker without a rank",
    "rank 4",
    "a worker without a rank",
  ]);
});

test("bytes, shares and counts", () => {
  assert.deepEqual([0, 1023, 1024, 1536, 325324800, 2 ** 50].map(bytesText), [
    "0 bytes",
    "1023 bytes",
    "1 KiB",
    "1.5 KiB",
    "310 MiB",
    "1 PiB",
  ]);
  assert.deepEqual([0.034, 0.5, 1.2].map(percentText), ["3.4 %", "50 %", "120 %"]);
  assert.deepEqual([plural(1, "run"), plural(2, "run"), plural(0, "run")], ["1 run", "2 runs", "0 runs"]);
});

test("ranks in a row are ranges", () => {
  assert.equal(rangesText([5, 1, 0, 2, 5, 7]), "0–2, 5, 7");
  assert.equal(rangesText([]), "");
});

test("durations", () => {
  const texts = [25.2e-6, 0.0238, 3.4, 41, 200, 3600, 7500, 273600, NaN, -5].map(durationText);
  const wanted = ["25.2 µs", "23.8 ms", "3.4 s", "41 s", "3 min 20 s", "1 h", "2 h 5 min", "3 d 4 h", "", "0 µs"];
  assert.deepEqual(texts, wanted);
});

test("times", () => {
  assert.deepEqual(
    [1, 10, 70, 7200, 40 * 3600, 9 * 86400].map((seconds) => agoText(0, seconds)),
    ["just now", "10 s ago", "1 min ago", "2 h ago", "40 h ago", "9 d ago"],
  );
  assert.equal(utcTimeText(1795801618.34), "2026-11-27 17:46:58.340 UTC");
  assert.equal(isoTimeText(1e300), ""); // what a damaged file may say
});
