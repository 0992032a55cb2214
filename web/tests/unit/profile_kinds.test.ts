import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { PROFILE_KINDS, SECONDS, canCompare, factsOf, isProfileKind } from "../../src/profiles/profile_kinds.ts";

/** Every `enum` of a property with that name, wherever a schema has one. */
function enumsOf(name: string, part: unknown): string[][] {
  if (typeof part !== "object" || part === null) return [];
  return Object.entries(part).flatMap(([key, value]) => {
    const names = key === name ? (value as { enum?: string[] } | null)?.enum : undefined;
    return [...(Array.isArray(names) ? [names] : []), ...enumsOf(name, value)];
  });
}

test("the kinds are those that the server names in openapi.json", () => {
  const described = enumsOf("kind", JSON.parse(readFileSync("../docs/openapi.json", "utf8")));
  const ofProfiles = described.filter((names) => names.includes("off_cpu"));
  assert.ok(ofProfiles.length > 0, "docs/openapi.json has no enum of the kinds of profiles");
  for (const names of ofProfiles) assert.deepEqual(names, PROFILE_KINDS);
});

test("each kind says what it shows, and why its flame graph may be empty", () => {
  for (const kind of PROFILE_KINDS) {
    const { shortTitle, title, explanation, whyEmpty, hasStacks, steps } = factsOf(kind);
    assert.ok(shortTitle && title && explanation, kind);
    assert.equal(whyEmpty !== "", hasStacks, kind);
    for (const { least, usual, most } of [SECONDS, ...(steps ? [steps] : [])]) {
      assert.ok(1 <= least && least <= usual && usual <= most, kind);
    }
  }
  assert.match(factsOf("cpu").whyEmpty, /used no processor time/);
  assert.match(factsOf("off_cpu").whyEmpty, /did not wait/);
});

test("a kind of a later version is shown under its name, and cannot be taken", () => {
  assert.equal(factsOf("heat").title, "heat");
  assert.ok(factsOf("heat").hasStacks && !isProfileKind("heat"));
  assert.ok(!isProfileKind("toString"));
});

test("two flame graphs of one kind can be compared", () => {
  assert.ok(canCompare({ kind: "cpu" }, { kind: "cpu" }));
  assert.ok(!canCompare({ kind: "cpu" }, { kind: "memory" }));
  assert.ok(!canCompare({ kind: "timeline" }, { kind: "timeline" }));
});
