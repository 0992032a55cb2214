import assert from "node:assert/strict";
import { test } from "node:test";
import { scrollTopFor, virtualWindow } from "../../src/table/virtual_window.ts";

test("rows in sight are made, and some around them", () => {
  const window = virtualWindow({ scrollTop: 34_000, height: 680 }, 34, 10_000);
  assert.ok(window.first <= 1000 && window.end >= 1020);
  assert.ok(window.end - window.first < 60);
});

test("the ends of the list are ends", () => {
  assert.equal(virtualWindow({ scrollTop: 0, height: 680 }, 34, 10_000).first, 0);
  assert.equal(virtualWindow({ scrollTop: 340_000, height: 680 }, 34, 10_000).end, 10_000);
  assert.deepEqual(virtualWindow({ scrollTop: 9e9, height: 680 }, 34, 3), { first: 3, end: 3 });
  assert.deepEqual(virtualWindow({ scrollTop: -50, height: 100 }, 20, 0), { first: 0, end: 0 });
});

test("a row is brought into sight by as little as needed", () => {
  const sight = { scrollTop: 100, height: 100 };
  assert.equal(scrollTopFor(sight, 20, 7), 100);
  assert.equal(scrollTopFor(sight, 20, 2), 40);
  assert.equal(scrollTopFor(sight, 20, 12), 160);
});
