// Runs that are not as the others: one that hung, one whose data was too slow, those of version 0.1, one on S3.
import assert from "node:assert/strict";
import { test } from "node:test";
import { withDashboard, withPage, withRun } from "./browser.mjs";
import { ask } from "./program.mjs";
import { idOf, oldRuns, runOnS3 } from "./runs.mjs";

const sections = (page) => page.getByRole("navigation", { name: "Sections" });

test("a run that hung: from its error to who waited for whom, and where the others were", () =>
  withPage("#/runs", {}, async (page) => {
    await page.getByRole("link", { name: "spirals-hung" }).click();
    await page.getByText(/The run hangs: rank 1 makes no progress/).first().waitFor();
    await sections(page).getByRole("link", { name: /^Hangs/ }).click();
    await page.getByRole("heading", { name: "Who waits for whom" }).waitFor();
    await page.getByText(/^rank 0 waits in all_reduce \d+, to which rank 1 has not come$/).waitFor();
    const stood = page.getByRole("group", { name: "How each rank stood" });
    assert.match(await stood.locator("tr.suspect").innerText(), /^1\s[\s\S]*others wait for it/);
    await page.getByText(/wait_for_what_never_comes/).first().waitFor();
    await page.reload(); // a deep link
    await page.getByText(/^rank 0 waits in all_reduce/).waitFor();
  }));

test("a run that waited for its data: which operator was too slow", () =>
  withRun("spirals-slow-data", "?tab=data", {}, async (page) => {
    const slow = page.locator("tr.bottleneck");
    await slow.waitFor();
    assert.match(await slow.innerText(), /Map\(scaled_slowly\)/);
    await page.getByText(/bottleneck: Map\(scaled_slowly\)/).first().waitFor();
  }));

test("runs of version 0.1: all sections of each", async () => {
  const state = await oldRuns();
  const runs = await ask(state, "list");
  assert.ok(runs.length > 5);
  await withDashboard(state, [], (dashboard) =>
    withPage("#/runs", { dashboard }, async (page) => {
      for (const { id, name } of runs) {
        await page.goto(`${dashboard.address}#/runs/${id}`);
        await page.getByRole("heading", { name, level: 1 }).waitFor();
        const links = await sections(page).getByRole("link").all();
        assert.ok(links.length > 5);
        for (const link of links) {
          await link.click();
          await page.locator(".loading").waitFor({ state: "detached" });
          assert.equal(await page.locator("div.notice[role=alert]").count(), 0, `${name}: ${await link.innerText()}`);
        }
      }
    }),
  );
});

test("a run on S3, of which nothing is known but where it is", async () => {
  const { store, state, flags, environment } = await runOnS3();
  try {
    const body = (dashboard) =>
      withPage("#/runs", { dashboard }, async (page) => {
        await page.getByRole("link", { name: "spirals-on-s3" }).click();
        await page.getByText("finished").first().waitFor();
        await page.locator("canvas").first().waitFor();
        for (const name of [/^Workers/, /^Data/, "Events", "Controller log", "Configuration"]) {
          await sections(page).getByRole("link", { name }).click();
          await page.locator(".loading").waitFor({ state: "detached" });
          assert.equal(await page.locator("div.notice[role=alert]").count(), 0);
        }
        await page.getByText("max_failures", { exact: true }).waitFor();
        await page.goto(page.url().replace(/\?.*/, "/workers/1"));
        await page.getByText(/^step .* loss/).first().waitFor();
      });
    await withDashboard(state, flags, body, environment);
  } finally {
    await store.stop();
  }
});
