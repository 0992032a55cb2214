import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

interface Schema {
  properties?: { [name: string]: Schema };
  items?: Schema;
}

/** The members of each interface of views.ts, with their types, as it writes them: one in a line. */
function interfaces(): Map<string, Map<string, string>> {
  const found = new Map<string, Map<string, string>>();
  const text = readFileSync("src/api/views.ts", "utf8");
  for (const [, name = "", body = ""] of text.matchAll(/^export interface (\w+) \{\n(.*?)^\}/gms)) {
    const members = [...body.matchAll(/^ {2}(\w+)\??: ([^;{]*)/gm)];
    found.set(name, new Map(members.map(([, member = "", type = ""]) => [member, type])));
  }
  return found;
}

const VIEWS = interfaces();
const { paths } = JSON.parse(readFileSync("../docs/openapi.json", "utf8"));

function answerOf(path: string): Schema {
  return paths[path].get.responses["200"].content["application/json"].schema;
}

/** What the pages read in an answer that the server does not give. */
function unknownMembers(view: string, schema: Schema, place: string): string[] {
  const members = VIEWS.get(view);
  if (!members) return [`${place} is no interface of views.ts: ${view}`];
  return [...members].flatMap(([member, type]) => {
    const given = schema.properties?.[member];
    if (!given) return [`${place}.${member}`];
    const [, inner = "", isList] = /^(\w+)(\[\])?/.exec(type) ?? [];
    const part = isList ? given.items : given;
    return VIEWS.has(inner) && part?.properties ? unknownMembers(inner, part, `${place}.${member}`) : [];
  });
}

const ANSWERS: { [path: string]: string } = {
  "/api/v1/session": "SessionInfo",
  "/api/v1/runs": "RunList",
  "/api/v1/runs/{id}": "RunView",
  "/api/v1/runs/{id}/configuration": "RunConfiguration",
  "/api/v1/runs/{id}/metrics": "MetricsJson",
  "/api/v1/runs/{id}/logs/{stream}": "LogRange",
  "/api/v1/runs/{id}/collectives": "Collectives",
  "/api/v1/runs/{id}/checkpoints/{name}/verification": "VerifiedCheckpoint",
  "/api/v1/runs/{id}/hangs/{hang}": "HangEvidence",
  "/api/v1/runs/{id}/profiles/{name}": "FlameGraph",
  "/api/v1/runs/{id}/samples": "SamplesJson",
  "/api/v1/runs/{id}/step_times": "StepTimes",
};

const LISTS: [path: string, member: string, view: string][] = [
  ["/api/v1/nodes", "runs", "NodesOfRun"],
  ["/api/v1/data", "runs", "DataOfRun"],
  ["/api/v1/runs/{id}/nodes", "nodes", "NodeSummary"],
  ["/api/v1/runs/{id}/data", "datasets", "DatasetSummary"],
  ["/api/v1/runs/{id}/logs", "streams", "LogStream"],
  ["/api/v1/runs/{id}/events", "events", "RunEvent"],
  ["/api/v1/runs/{id}/hangs", "hangs", "Hang"],
  ["/api/v1/runs/{id}/profiles", "profiles", "KeptProfile"],
];

test("what the pages read is what the server gives", () => {
  for (const [path, view] of Object.entries(ANSWERS)) assert.deepEqual(unknownMembers(view, answerOf(path), path), []);
  for (const [path, member, view] of LISTS) {
    assert.deepEqual(unknownMembers(view, answerOf(path).properties?.[member]?.items ?? {}, path), []);
  }
});

test("a member that was renamed is found, however deep it lies", () => {
  const renamed = JSON.parse(JSON.stringify(answerOf("/api/v1/runs/{id}")).replace('"waited_s"', '"waiting_s"'));
  assert.deepEqual(unknownMembers("RunView", renamed, "run"), ["run.datasets.ranks.waited_s"]);
});
