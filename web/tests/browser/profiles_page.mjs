import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { withPage, withRun } from "./browser.mjs";
import { idOf, profileOf } from "./runs.mjs";

/** Takes a flame graph by the dialog that is open, and waits until it is shown. */
async function take(page, rank) {
  const dialog = page.getByRole("dialog");
  if (rank !== undefined) await dialog.getByLabel("Workers").selectOption(rank);
  await dialog.getByLabel("Seconds").fill("1");
  await dialog.getByRole("button", { name: "Start" }).click();
  await dialog.getByText("Watching for 1 s").waitFor();
  await dialog.waitFor({ state: "detached", timeout: 60_000 });
  await page.locator(".flame-box canvas").waitFor();
}

test("a flame graph of a live run is taken, and compared with another", () =>
  withRun("spirals-live", "", {}, async (page) => {
    await page.getByRole("button", { name: "CPU flame graph" }).click();
    await take(page);
    assert.match(page.url(), /#\/runs\/[0-9a-f]{32}\/profiles\/[^/?]+$/);
    await page.getByText("ranks 0–1", { exact: true }).waitFor();
    await page.getByText("the dashboard, session").waitFor();

    await page.getByRole("button", { name: "Another" }).click();
    await take(page, "1");
    await page.getByText("rank 1", { exact: true }).waitFor();

    await page.getByRole("link", { name: "Profiles" }).click();
    const boxes = page.getByRole("checkbox", { name: /^Select / });
    await boxes.first().check();
    await boxes.nth(1).check();
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByRole("heading", { name: "Largest changes" }).waitFor();
    assert.match(page.url(), /\?than=/);
    await page.locator(".flame-line").getByText(/\d+ samples? before, \d+ samples? after/).waitFor();
    await page.reload(); // a deep link
    await page.getByRole("heading", { name: "Largest changes" }).waitFor();
  }));

test("the operators of some steps are noted", () =>
  withRun("spirals-live", "/workers/0", {}, async (page) => {
    await page.getByRole("button", { name: "Operator timeline" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("How many").fill("3");
    await dialog.getByRole("button", { name: "Start" }).click();
    await dialog.waitFor({ state: "detached", timeout: 60_000 });
    const link = page.getByRole("link", { name: /rank 0/i }).first();
    await link.waitFor();
    const download = page.waitForEvent("download");
    await link.click();
    const timeline = JSON.parse(gunzipSync(await readFile(await (await download).path())).toString());
    const steps = timeline.traceEvents.filter(({ cat }) => cat === "step");
    assert.equal(steps.length, 3);
    assert.ok(timeline.traceEvents.some(({ name }) => name === "aten::addmm"));
  }));

test("a flame graph is searched, zoomed and walked through; the address keeps it", async () => {
  const name = await profileOf("spirals-live");
  await withRun("spirals-live", `/profiles/${encodeURIComponent(name)}`, {}, async (page) => {
    const graph = page.getByRole("application", { name: "Flame graph" });
    const line = page.locator(".flame-line");
    await graph.waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("torch");
    await page.getByText(/^in [1-9].* % of the samples$/).waitFor();
    assert.match(page.url(), /q=torch/);
    await graph.focus();
    const outermost = await line.innerText();
    for (let step = 0; step < 6; step++) await page.keyboard.press("ArrowDown");
    assert.notEqual(await line.innerText(), outermost);
    await page.keyboard.press("Enter");
    await page.waitForURL(/at=\d+/);
    const zoomed = await line.innerText();
    await page.reload();
    await line.getByText(zoomed.split(" · ")[0]).waitFor();
    await graph.focus();
    await page.keyboard.press("Escape");
    assert.doesNotMatch(page.url(), /at=/);
    await page.getByRole("combobox", { name: "Workers" }).selectOption("1");
    assert.match(page.url(), /rank=1/);
    await page.getByRole("combobox", { name: "Compare with" }).selectOption({ label: "another rank of this one" });
    await page.getByText("than in the other rank").waitFor();
  });
});

test("a profile opens in speedscope, which asks nobody else", async () => {
  const name = await profileOf("spirals-live");
  await withRun("spirals-live", `/profiles/${encodeURIComponent(name)}`, {}, async (page, dashboard) => {
    const opens = page.context().waitForEvent("page");
    await page.getByRole("link", { name: "Open in speedscope" }).click();
    const viewer = await opens;
    await viewer.waitForLoadState();
    const problems = [];
    viewer.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    viewer.on("pageerror", (error) => problems.push(error.stack));
    viewer.on("request", (request) => request.url().startsWith(dashboard.address) || problems.push(request.url()));
    await viewer.reload(); // now that it is watched
    await viewer.getByText(/rank 0, .*\(C\+\+\)/).first().waitFor();
    assert.deepEqual(problems, []);
  });
});

test("where no worker lives, no flame graph is taken, and the page says why", () =>
  withRun("spirals-killed", "?tab=profiles", {}, async (page) => {
    await page.getByText("No profile was taken").waitFor();
    for (const button of await page.getByRole("button", { name: "CPU flame graph" }).all()) {
      assert.equal(await button.isDisabled(), true);
      assert.match(await button.getAttribute("title"), /finished/);
    }
    await page.getByRole("link", { name: /^Workers/ }).click();
    const ofRank = page.getByRole("button", { name: "CPU flame graph of rank 1" });
    assert.equal(await ofRank.isDisabled(), true);
    assert.match(await ofRank.getAttribute("title"), /finished/);
  }));

test("a profile that is not there", async () => {
  const id = await idOf("spirals-live");
  await withPage(`#/runs/${id}/profiles/nothing`, { expected: /404/ }, async (page) => {
    await page.getByText('has no profile "nothing"').waitFor();
  });
});
