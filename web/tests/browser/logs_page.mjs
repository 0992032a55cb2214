import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { eventually, withRun } from "./browser.mjs";
import { runFolder } from "./runs.mjs";

test("a rank's log: its end, colours, no escapes", () =>
  withRun("spirals-bad-label", "/logs/worker_2", {}, async (page) => {
    await page.getByText("step   100").waitFor();
    const line = page.locator(".log-line", { hasText: "step   100" });
    assert.match(await line.innerText(), /^step   100  loss [\d.]+  accuracy [\d.]+$/);
    assert.match(await line.locator(".ansi-color-2, .ansi-color-3").innerText(), /^[\d.]+$/);
  }));

test("a search finds lines in the whole log, and marks them", () =>
  withRun("spirals-bad-label", "/logs/worker_3", {}, async (page) => {
    await page.getByText("step   100").waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("step    8");
    await page.getByText("1 matching line", { exact: true }).waitFor();
    assert.deepEqual(await page.locator("mark").allInnerTexts(), ["step    8"]);
    await page.getByRole("link", { name: /^rank 0/ }).click();
    await page.getByText("step   100").waitFor();
    await page.goto(page.url() + "?q=nothing%20like%20it");
    await page.getByText("No line has these words").waitFor();
  }));

test("a live log is followed while its end is in sight, and not when it is not", () =>
  withRun("spirals-live", "/logs/worker_2", { viewport: { width: 1280, height: 420 } }, async (page) => {
    const lines = page.getByRole("group", { name: "Log worker_2" });
    const distance = () => lines.evaluate((one) => one.scrollHeight - one.scrollTop - one.clientHeight);
    const size = () => lines.evaluate((one) => one.scrollHeight);
    const grows = async () => {
      const before = await size();
      await eventually(size, (now) => now > before, "the log did not grow");
    };
    await eventually(size, (now) => now > 400, "the log is short");
    await grows();
    await eventually(distance, (pixels) => pixels < 5, "the end is not in sight");
    await grows();
    await eventually(distance, (pixels) => pixels < 5, "the end is not in sight");
    await lines.evaluate((one) => one.scrollTo(0, 0));
    await grows();
    assert.equal(await lines.evaluate((one) => one.scrollTop), 0);
  }));

test("a download has the whole log", () =>
  withRun("spirals-wide", "/logs/worker_2", {}, async (page) => {
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download" }).click();
    const file = await download;
    assert.equal(file.suggestedFilename(), "worker_2.log");
    const wanted = readFileSync(join(runFolder("spirals-wide"), "logs/worker_2.log"), "utf8");
    assert.equal(readFileSync(await file.path(), "utf8"), wanted);
  }));
