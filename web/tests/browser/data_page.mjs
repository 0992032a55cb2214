// The datasets of all runs: those that are read, and those of runs that are over.
import assert from "node:assert/strict";
import { test } from "node:test";
import { withDashboard, withPage, withRun } from "./browser.mjs";
import { emptyState } from "./runs.mjs";

test("the datasets of all runs, what bounds them, and the way to the run", () =>
  withPage("#/runs", {}, async (page) => {
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Data" }).click();
    const of = (name) => page.getByRole("region", { name: `Datasets of ${name}` });
    await of("spirals-live").waitFor();
    const sections = await page.locator(".run-data h2").allInnerTexts();
    assert.equal(sections[0], "spirals-live"); // what goes on comes first
    assert.ok(sections.includes("spirals-wide"));
    const live = of("spirals-live");
    await live.getByText(/^↳ Map\(scaled\)/).waitFor();
    await live.getByText(/ranks waited [\d.]+ % of the last 10 s for it, [\d.]+ % of the time so far$/).waitFor();
    assert.match(await of("spirals-wide").innerText(), /ended[\s\S]*ranks waited [\d.]+ % of the time for it/);

    await page.keyboard.press("/");
    await page.keyboard.type("wide");
    await page.getByText("1 dataset of 1 run").waitFor();
    assert.match(page.url(), /#\/data\?q=wide/);
    await page.reload(); // a deep link
    await page.getByText("1 dataset of 1 run").waitFor();
    await page.getByRole("link", { name: "spirals-wide" }).click();
    await page.getByRole("heading", { name: "spirals-wide" }).waitFor();
    await page.getByText("Read ahead, waiting for ranks").waitFor();
  }));

test("the bottleneck is marked", async () => {
  await withRun("spirals-live", "", {}, async (page) => {
    await page.route("**/api/v1/runs/*/data", async (route) => {
      const response = await route.fetch();
      const { datasets } = await response.json();
      const [dataset] = datasets;
      dataset.bottleneck = dataset.operators.at(-1).name;
      dataset.verdict = `bottleneck: ${dataset.bottleneck}, which takes 75 % of its operators' time`;
      await route.fulfill({ response, json: { datasets } });
    });
    await page.getByRole("link", { name: /^Data\s*\d/ }).click();
    await page.getByRole("row").filter({ hasText: "bottleneck" }).waitFor();
    assert.equal(await page.locator("tr.bottleneck").count(), 1);
  });
});

test("where no run has read a dataset, the page says what would be there", () =>
  withDashboard(emptyState(), [], (dashboard) =>
    withPage("#/data", { dashboard }, async (page) => {
      await page.getByText("No run has read a dataset").waitFor();
    }),
  ));
