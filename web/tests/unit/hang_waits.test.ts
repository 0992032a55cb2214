import assert from "node:assert/strict";
import { test } from "node:test";
import type { HangRank } from "../../src/api/views.ts";
import { isWaitedFor, waitsOf } from "../../src/run/hang_waits.ts";

type Counts = HangRank["progress"]["groups"];

function rank(number: number, groups: Counts): HangRank {
  const progress = { step: 1, phase: "collective", idle_s: 41, longest_pause_s: 0, groups };
  return { rank: number, finished: false, standing: "", progress };
}

function counts(group: number, begun: number, done: number, collective = "all_reduce") {
  return { group, begun, done, collective };
}

test("who has not come is missing, and who waits is named once", () => {
  const waits = waitsOf([rank(0, [counts(1, 812, 811)]), rank(1, [counts(1, 811, 811)]), rank(2, [counts(1, 812, 811)])]);
  assert.deepEqual(waits, [{ group: 1, number: 812, collective: "all_reduce", waiting: [0, 2], missing: [1], elsewhere: [] }]);
  assert.deepEqual([0, 1, 2, 3].map((one) => isWaitedFor(waits, one)), [false, true, false, false]);
});

test("a rank that has noted nothing is missing in the group of all ranks alone", () => {
  const waits = waitsOf([rank(0, [counts(1, 1, 0), counts(2, 4, 3)]), rank(1, [])]);
  assert.deepEqual(
    waits.map(({ group, missing }) => [group, missing]),
    [
      [1, [1]],
      [2, []],
    ],
  );
});

test("ranks that wait in different collectives of one number are told apart", () => {
  const waits = waitsOf([rank(0, [counts(1, 5, 4, "all_gather")]), rank(1, [counts(1, 5, 4)])]);
  assert.deepEqual(
    waits.map(({ collective, waiting, elsewhere }) => [collective, waiting, elsewhere]),
    [
      ["all_gather", [0], [1]],
      ["all_reduce", [1], [0]],
    ],
  );
});

test("nobody waits where all that has begun has ended", () => {
  assert.deepEqual(waitsOf([rank(0, [counts(1, 5, 5)]), rank(1, [counts(1, 5, 5)])]), []);
});
