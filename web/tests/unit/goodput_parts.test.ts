import assert from "node:assert/strict";
import { test } from "node:test";
import type { Goodput } from "../../src/api/views.ts";
import { goodputParts } from "../../src/run/goodput_parts.ts";

const NOTHING: Goodput = {
  compute_s: 0,
  data_s: 0,
  collectives_s: 0,
  checkpoint_s: 0,
  starting_s: 0,
  restart_s: 0,
  other_s: 0,
  share: 0,
};

test("parts add up to the whole, and keep their colours", () => {
  const parts = goodputParts({ ...NOTHING, compute_s: 30, checkpoint_s: 10 });
  assert.deepEqual(
    parts.map(({ name, share, color }) => [name, share, color]),
    [
      ["in the train loop", 0.75, 0],
      ["checkpoints", 0.25, 3],
    ],
  );
});

test("of a run of which nothing is known there are none", () => {
  assert.deepEqual(goodputParts(NOTHING), []);
});
