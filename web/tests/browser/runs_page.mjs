import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, withDashboard, withPage } from "./browser.mjs";
import { emptyState, manyRuns } from "./runs.mjs";

const shownNames = (page) => page.locator(".run-row .name a").allInnerTexts();

test("the failed run is found, and why it failed", () =>
  withPage("#/runs", {}, async (page) => {
    await page.getByRole("button", { name: /^Failed/ }).click();
    assert.deepEqual(await shownNames(page), ["spirals-bad-label", "spirals-hung"]);
    assert.match(await page.locator(".run-row .metrics.bad-text").first().innerText(), /ValueError: label 8/);
    await page.getByRole("link", { name: "spirals-bad-label" }).click();
    await page.getByRole("alert").waitFor();
    assert.match(await page.locator(".error-where").innerText(), /train_loop .*train\.py/);
    await page.getByRole("link", { name: "Whole log of this rank" }).click();
    await page.getByText("step   100").waitFor();
    assert.match(page.url(), /logs\/worker_3$/);
    assert.match(await page.title(), /worker_3 of spirals-bad-label/);
  }));

test("the filter: '/' goes there, words find, the address keeps it, Escape leaves it", () =>
  withPage("#/runs", {}, async (page) => {
    await page.getByRole("link", { name: "spirals-wide" }).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("spirals ValueError");
    assert.deepEqual(await shownNames(page), ["spirals-bad-label"]);
    assert.match(page.url(), /q=spirals%20ValueError/);
    await page.reload();
    await page.getByRole("link", { name: "spirals-bad-label" }).waitFor();
    assert.deepEqual(await shownNames(page), ["spirals-bad-label"]);
    await page.keyboard.press("/");
    await page.keyboard.type("nothing");
    await page.getByText("No run is like that").waitFor();
    await page.keyboard.press("Escape");
    assert.equal(await page.evaluate(() => document.activeElement === document.body), true);
  }));

test("by keys alone: down, select two, compare; down and open", () =>
  withPage("#/runs?state=finished", {}, async (page) => {
    await page.getByRole("link", { name: "spirals-wide" }).waitFor();
    for (const key of ["j", "x", "j", "x", "c"]) await page.keyboard.press(key);
    await page.getByRole("heading", { name: "Compare 2 runs" }).waitFor();
    await page.goBack();
    await page.getByRole("link", { name: "spirals-wide" }).waitFor();
    for (const key of ["j", "j", "k", "Enter"]) await page.keyboard.press(key);
    await page.getByRole("heading", { name: "spirals-killed" }).waitFor();
  }));

test("the head of a column sorts, both ways", () =>
  withPage("#/runs", {}, async (page) => {
    await page.getByRole("link", { name: "spirals-wide" }).waitFor();
    await page.getByRole("columnheader", { name: "Run", exact: true }).getByRole("button").click();
    assert.equal((await shownNames(page))[0], "spirals-wide");
    await page.getByRole("columnheader", { name: "Run", exact: true }).getByRole("button").click();
    assert.equal((await shownNames(page))[0], "spirals-bad-label");
  }));

test("two runs are compared in a metric that is chosen", () =>
  withPage("#/runs", {}, async (page) => {
    await page.getByLabel("Compare spirals-wide").check();
    await page.getByLabel("Compare spirals-baseline").check();
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByLabel("Metric").selectOption("eval/accuracy");
    const plot = page.getByRole("img", { name: /^eval\/accuracy by report\. spirals-wide.*spirals-baseline/ });
    await plot.waitFor();
    assert.equal(await plot.locator("canvas").count(), 1);
    assert.match(page.url(), /metric=eval%2Faccuracy/);
    assert.equal(await page.getByRole("table").getByRole("row").count(), 3);
  }));

test("the list hears of news", () =>
  withPage("#/runs", {}, async (page) => {
    const report = () => page.locator(".run-row", { hasText: "spirals-live" }).locator(".report").innerText();
    const before = await report();
    await eventually(report, (now) => now !== before, "the live run's report did not change");
  }));

test("no runs: the page says what to do", () =>
  withDashboard(emptyState(), [], (dashboard) =>
    withPage("#/runs", { dashboard }, async (page) => {
      await page.getByText("paceline run --nproc-per-node 2 train.py").waitFor();
    }),
  ));

test("10,000 runs: the end is reached, and only rows in sight are made", async () =>
  withDashboard(await manyRuns(), [], (dashboard) =>
    withPage("#/runs?sort=name", { dashboard }, async (page) => {
    await page.getByText("10,000 runs", { exact: true }).waitFor();
    const table = page.getByRole("table", { name: "Runs" });
    await table.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    await page.getByText("sweep-09999").waitFor();
    assert.ok((await page.locator(".run-row").count()) < 80);
    await page.keyboard.press("/");
    await page.keyboard.type("09999");
    await eventually(
      () => shownNames(page),
      (names) => names.length === 1,
      "the filter did not find one run",
    );
  }),
  ));
