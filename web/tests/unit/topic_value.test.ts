import assert from "node:assert/strict";
import { test } from "node:test";
import { applied, topicEvent } from "../../src/api/topic_value.ts";

const snapshot = (value: object) => topicEvent("snapshot", JSON.stringify({ topic: "run:1", value }));
const delta = (set: object, removed: string[] = []) =>
  topicEvent("delta", JSON.stringify({ topic: "run:1", set, removed }));

function after(...events: ReturnType<typeof snapshot>[]) {
  return events.reduce<ReturnType<typeof applied>>((value, event) => (event ? applied(value, event) : value), undefined);
}

test("a snapshot is the value; a delta sets and removes members of it", () => {
  const whole = snapshot({ state: "running", report: 1, remark: "x" });
  assert.deepEqual(after(whole), { state: "running", report: 1, remark: "x" });
  assert.deepEqual(after(whole, delta({ report: 2, metrics: { loss: 0.5 } }, ["remark", "nothing"])), {
    state: "running",
    report: 2,
    metrics: { loss: 0.5 },
  });
  assert.deepEqual(after(whole, delta({ report: 2 }), snapshot({ state: "finished" })), { state: "finished" });
});

test("the value before an event stays as it was", () => {
  const before = { report: 1 };
  const event = delta({ report: 2 }, ["report"]);
  assert.ok(event);
  assert.deepEqual(applied(before, event), {});
  assert.deepEqual(before, { report: 1 });
});

test("a delta of what was never seen whole says nothing", () => {
  assert.equal(after(delta({ report: 2 })), undefined);
});

test("names that objects have anyway are members as any other", () => {
  const text = '{"topic":"runs","value":{"__proto__":{"pwned":1},"constructor":2}}';
  const event = topicEvent("snapshot", text);
  assert.ok(event);
  const value = applied(applied(undefined, event), delta({ a: 1 }, ["constructor"])!);
  assert.deepEqual(Object.keys(value ?? {}), ["__proto__", "a"]);
  assert.equal(({} as { pwned?: number }).pwned, undefined);
});

test("what no server of ours sends is passed over", () => {
  for (const data of ["", "null", "[]", "{", '{"topic":1,"value":{}}', '{"topic":"a"}', '{"topic":"a","value":[]}']) {
    assert.equal(topicEvent("snapshot", data), null, data);
  }
  assert.equal(topicEvent("delta", '{"topic":"a","set":[],"removed":[]}'), null);
  assert.deepEqual(topicEvent("delta", '{"topic":"a","removed":[1,"b"]}'), {
    topic: "a",
    kind: "delta",
    set: {},
    removed: ["b"],
  });
});
