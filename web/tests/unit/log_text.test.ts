import assert from "node:assert/strict";
import { test } from "node:test";
import { appended, emptyLog, prepended } from "../../src/logs/log_text.ts";
import { hasSeveralAttempts, preferredStream, streamTitle } from "../../src/logs/streams.ts";

const range = (text: string, offset: number, size = 100) => ({ text, offset, next: offset + text.length, size });

test("a log grows at its end", () => {
  const one = appended(emptyLog(50, 100), range("a\nb\n", 50));
  const two = appended(one, range("c\n", 54));
  assert.deepEqual(two.lines, ["a", "b", "c"]);
  assert.deepEqual([two.start, two.end, two.isOpen], [50, 56, false]);
});

test("a line that was not ended is continued", () => {
  const one = appended(emptyLog(0, 100), range("a\nhal", 0));
  assert.equal(one.isOpen, true);
  assert.equal(appended(one, range("", 5)).isOpen, true);
  assert.deepEqual(appended(one, range("f\n", 5)).lines, ["a", "half"]);
});

test("earlier parts come before", () => {
  const end = appended(emptyLog(50, 100), range("c\n", 50));
  const all = prepended(end, range("a\nb\n", 46));
  assert.deepEqual([all.lines, all.start, all.end], [["a", "b", "c"], 46, 52]);
});

test("an empty line is a line", () => {
  assert.deepEqual(appended(emptyLog(0, 10), range("a\n\nb\n", 0)).lines, ["a", "", "b"]);
});

const stream = (name: string, rank: number | null, attempt: number | null = null, size = 1) => {
  const kind = name.replace(/[_.].*/, "");
  return { stream: name, kind, worker: null, rank, attempt, size, modified: 0 };
};

test("logs are called by what wrote them", () => {
  const all = [stream("controller", null), stream("worker_10", 0, 1), stream("worker_10.2", 0, 1), stream("data_1", null)];
  assert.deepEqual(
    all.map((one) => streamTitle(one)),
    ["controller", "rank 0", "rank 0, 2 before", "data 1"],
  );
  assert.equal(streamTitle(stream("worker_10", 0, 2), true), "rank 0, attempt 2");
  assert.equal(streamTitle(stream("worker_11", null)), "worker 11");
});

test("most readers are after the first rank that has written, in the last attempt", () => {
  const controller = stream("controller", null);
  const all = [controller, stream("worker_1", 0, 1), stream("worker_3", 0, 2, 0), stream("worker_4", 1, 2)];
  assert.equal(preferredStream(all), "worker_4");
  assert.equal(preferredStream([controller]), "controller");
  assert.equal(preferredStream([]), "");
  assert.equal(hasSeveralAttempts(all), true);
  assert.equal(hasSeveralAttempts(all.slice(0, 2)), false);
});
