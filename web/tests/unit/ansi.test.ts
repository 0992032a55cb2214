import assert from "node:assert/strict";
import { test } from "node:test";
import { ansiSegments, withoutAnsi } from "../../src/text/ansi.ts";
import { printable } from "../../src/text/printable.ts";

test("colours become styles", () => {
  assert.deepEqual(ansiSegments("a \x1b[32m1.0\x1b[0m b"), [
    { text: "a ", style: {} },
    { text: "1.0", style: { color: 2 } },
    { text: " b", style: {} },
  ]);
  assert.deepEqual(ansiSegments("\x1b[1;31;44mx"), [{ text: "x", style: { bold: true, color: 1, background: 4 } }]);
  assert.deepEqual(ansiSegments("\x1b[93mx")[0]?.style, { color: 11 });
  assert.deepEqual(ansiSegments("\x1b[38;5;196mx")[0]?.style, { color: "#ff0000" });
  assert.deepEqual(ansiSegments("\x1b[48;2;1;2;3mx")[0]?.style, { background: "#010203" });
  assert.deepEqual(ansiSegments("\x1b[1mx\x1b[22my")[1]?.style, {});
});

test("what is no colour is left out", () => {
  assert.equal(withoutAnsi("\x1b[2J\x1b[Hcleared"), "cleared");
  assert.equal(withoutAnsi("\x1b]8;;javascript:alert(1)\x07click\x1b]8;;\x07"), "click");
  assert.equal(withoutAnsi("\x1b]0;title\x1b\\text"), "text");
  assert.equal(withoutAnsi("cut \x1b["), "cut ␛["); // an escape that never ended is shown as it is
});

test("a progress bar shows what it wrote last", () => {
  assert.equal(withoutAnsi("10 %\r50 %\r100 %\r"), "100 %");
});

test("characters that hide or reorder text are shown", () => {
  assert.equal(printable("a\u202eb\u0000c\u2066"), "a<U+202E>b␀c<U+2066>");
  assert.equal(printable("tab\tand 田中 🏳️‍🌈"), "tab\tand 田中 🏳️‍🌈");
});

test("a long line of escapes takes no long time", () => {
  const line = "\x1b[31mx\x1b[0m".repeat(20_000) + "\x1b]".repeat(20_000);
  const started = performance.now();
  ansiSegments(line);
  assert.ok(performance.now() - started < 5000);
});
