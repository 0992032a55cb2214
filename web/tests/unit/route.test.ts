import assert from "node:assert/strict";
import { test } from "node:test";
import { type Route, hashOf, logsHash, nodeHash, routeOf, runHash } from "../../src/shell/route.ts";

const NAMES = ["mnist", "a/b?c#d&e=f", "100 %", "a,b", "<script>", "..", "田中", "%2F"];

test("every name comes back from its address", () => {
  for (const id of NAMES) {
    const routes: Route[] = [
      { page: "run", id, parameters: { tab: id } },
      { page: "logs", id, stream: id, parameters: { q: id } },
      { page: "profile", id, name: id, parameters: { rank: id } },
      { page: "compare", ids: [id, "other"], parameters: { metric: id } },
      { page: "runs", parameters: { q: id, sort: "-opened" } },
      { page: "metrics", parameters: { run: id } },
      { page: "worker", id, rank: 1023, parameters: { q: id } },
      { page: "data", parameters: { q: id } },
      { page: "node", id, node: id, parameters: { span: id } },
    ];
    for (const route of routes) assert.deepEqual(routeOf(hashOf(route)), route);
  }
});

test("addresses", () => {
  assert.equal(runHash("a/b"), "#/runs/a%2Fb");
  assert.equal(logsHash("mnist"), "#/runs/mnist/logs");
  assert.equal(nodeHash("mnist", "gpu/3"), "#/runs/mnist/nodes/gpu%2F3");
  assert.deepEqual(routeOf("#/nodes"), { page: "nodes", parameters: {} });
  assert.equal(runHash("mnist", { tab: "" }), "#/runs/mnist"); // what is empty is left out
  assert.deepEqual(routeOf(""), { page: "runs", parameters: {} });
  assert.deepEqual(routeOf("#/runs/mnist/logs"), { page: "logs", id: "mnist", stream: "", parameters: {} });
});

test("what nobody has made is no page, and breaks nothing", () => {
  assert.equal(routeOf("#/nothing").page, "unknown");
  assert.equal(routeOf("#/runs/a/b/c/d").page, "unknown");
  for (const rank of ["", "-1", "1.5", "x", "12345678901"]) assert.equal(routeOf(`#/runs/a/workers/${rank}`).page, "unknown");
  assert.equal(routeOf("#/runs/a/nodes").page, "unknown");
  assert.deepEqual(routeOf("#/runs/%E0%A4%A"), { page: "run", id: "%E0%A4%A", parameters: {} });
  assert.equal(routeOf("#/compare").page, "compare");
});
