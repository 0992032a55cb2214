// One worker, by its rank; and the heat map that leads there.
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, withPage, withRun } from "./browser.mjs";
import { idOf, profileOf } from "./runs.mjs";

const chart = (page, title) => page.getByRole("figure").filter({ has: page.getByText(title, { exact: true }) });
const KINDS = ["Stack trace", "CPU flame graph", "Off-CPU flame graph", "Memory profile", "Operator timeline"];

test("from the workers to one of them: charts, log, stack", () =>
  withRun("spirals-live", "?tab=workers", {}, async (page) => {
    await page.getByRole("button", { name: "Stack trace of rank 0" }).click();
    const first = page.getByRole("dialog", { name: "Stack trace of rank 0" });
    await first.getByRole("button", { name: "Take it" }).click();
    await first.getByText("Main threads").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "Worker of rank 1" }).click();
    await page.getByRole("heading", { name: "Rank 1" }).waitFor();
    assert.match(page.url(), /\/workers\/1$/);
    for (const title of ["Step time", "Cores used", "Memory", "Threads"]) {
      await chart(page, title).locator("canvas").waitFor();
    }
    await page.getByRole("group", { name: /^Log worker_/ }).getByText(/^step .* loss/).first().waitFor();
    await page.getByRole("searchbox", { name: "Search in the log" }).fill("accuracy");
    await page.locator(".log-line mark").first().waitFor();
    assert.match(page.url(), /q=accuracy/);
    await page.reload(); // a deep link
    await page.locator(".log-line mark").first().waitFor();
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download" }).click();
    assert.match((await download).suggestedFilename(), /^worker_\d+\.log$/);
    await page.getByText(/in none, and none failed|rank 1 (is|was) in/).first().waitFor();

    await page.getByRole("button", { name: "Stack trace" }).click();
    const dialog = page.getByRole("dialog", { name: "Stack trace of rank 1" });
    await dialog.getByRole("button", { name: "Take it" }).click();
    await dialog.getByText("Main threads").waitFor();
    assert.doesNotMatch(await dialog.innerText(), /rank 0|ranks 0/);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "CPU flame graph", exact: true }).click();
    assert.equal(await page.getByRole("dialog").getByLabel("Workers").inputValue(), "1");
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "‹ rank 0" }).click();
    await page.getByRole("heading", { name: "Rank 0" }).waitFor();
  }));

test("a worker has the profiles that it is in", async () => {
  await profileOf("spirals-live");
  await withRun("spirals-live", "/workers/1", {}, async (page) => {
    await page.getByRole("group", { name: "Profiles" }).getByRole("link").first().click();
    await page.locator(".flame-box canvas").waitFor();
    assert.match(page.url(), /rank=1/);
  });
});

test("a dead worker: actions are disabled with the reason, its log and what it did are there", () =>
  withRun("spirals-killed", "/workers/0", {}, async (page) => {
    for (const name of KINDS) {
      const button = page.getByRole("button", { name, exact: true });
      assert.equal(await button.isDisabled(), true, name);
      assert.match(await button.getAttribute("title"), /finished: no worker lives/);
    }
    await page.getByText("The run is finished: no worker lives.").waitFor();
    await chart(page, "Memory").locator("canvas").waitFor();
    const log = page.getByRole("combobox", { name: "Log of" }); // of each attempt's worker
    await log.waitFor();
    assert.equal(await log.locator("option").count(), 2);
    await page.getByText("continues after step").waitFor();
    await log.selectOption({ index: 0 });
    await page.getByText("this worker kills itself").waitFor();
  }));

test("a rank that is not there", () =>
  withRun("spirals-live", "/workers/7", {}, async (page) => {
    await page.getByText("The last attempt has no rank 7").waitFor();
  }));

test("the heat map of step times: by keys to a rank's page", () =>
  withRun("spirals-live", "?tab=workers", {}, async (page) => {
    const map = page.getByRole("application", { name: /^Step times of 2 ranks/ });
    await map.waitFor();
    await map.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Home");
    await page.locator("#heat-shown").getByText(/^rank 0 at .*(a step|no steps)/).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.locator("#heat-shown").getByText(/^rank 1 at /).waitFor();
    await page.getByRole("group", { name: "Colours by" }).getByRole("button", { name: "Step time" }).click();
    assert.match(page.url(), /heat=time/);
    await map.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Rank 1" }).waitFor();
  }));

test("1,024 ranks as a heat map: the slow rank is seen", async () => {
  const id = await idOf("spirals-live");
  /** No machine of the tests has so many. */
  const ranks = Array.from({ length: 1024 }, (_, rank) => rank);
  const time = Array.from({ length: 90 }, (_, column) => 1_790_000_000 + 10 * column);
  const step_s = ranks.map((rank) => time.map((_, at) => (rank === 311 ? 0.5 : 0.2) + 0.001 * ((rank + at) % 7)));
  await withPage("#/runs", {}, async (page) => {
    await page.route(`**/api/v1/runs/${id}/step_times*`, (route) =>
      route.fulfill({ json: { first: time[0], last: time.at(-1), seconds: 10, time, ranks, step_s } }),
    );
    await page.evaluate((hash) => (location.hash = hash), `#/runs/${id}?tab=workers`);
    const map = page.getByRole("application", { name: /^Step times of 1,024 ranks/ });
    await map.waitFor();
    await page.getByText(/Slowest at the end: rank 311 .*× the median of the others/).waitFor();
    // A row that is as hot as can be, on what is as cool.
    await eventually(
      () =>
        page.evaluate(() => {
          const canvas = document.querySelector(".heat-box canvas");
          const { data } = canvas.getContext("2d").getImageData(Math.floor(canvas.width / 2), 0, 1, canvas.height);
          const colours = new Set();
          for (let at = 0; at < data.length; at += 4) colours.add(data.slice(at, at + 3).join());
          return colours.size;
        }),
      (count) => count > 1,
      "all ranks look the same",
    );
    const box = await map.boundingBox();
    for (let step = 0; step < 100; step++) await page.mouse.move(box.x + 5 + 3 * step, box.y + 2 + 2 * step);
    await page.locator("#heat-shown").getByText(/^rank \d+ at /).waitFor();
  });
});
