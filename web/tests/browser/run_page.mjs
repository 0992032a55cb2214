import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, withPage, withRun } from "./browser.mjs";
import { idOf, startLive } from "./runs.mjs";

test("a chart is zoomed by dragging: it is read anew, the address keeps it, back and double click undo it", () =>
  withRun("spirals-baseline", "", {}, async (page) => {
    const plot = page.getByRole("img", { name: /^loss by report/ });
    await plot.locator(".u-over").waitFor();
    const box = await plot.locator(".u-over").boundingBox();
    const answer = page.waitForResponse((response) => /metrics\?.*from=/.test(response.url()));
    await page.mouse.move(box.x + box.width * 0.25, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 5 });
    await page.mouse.up();
    const series = (await (await answer).json()).series["loss"];
    assert.ok(series.report.length > 130 && series.report.length < 170, `${series.report.length} points`);
    assert.equal(series.report[1] - series.report[0], 1);
    assert.match(page.url(), /from=\d+&to=\d+/);
    await page
      .getByRole("img", { name: new RegExp(`reports ${series.report[0]} to ${series.report.at(-1)}$`) })
      .first()
      .waitFor();
    await page.goBack();
    await page.getByRole("img", { name: /^loss .*to 600$/ }).waitFor();
    await page.goForward();
    await plot.locator(".u-over").dblclick();
    await page.getByRole("img", { name: /^loss .*to 600$/ }).waitFor();
  }));

test("a chart is zoomed by typing too", () =>
  withRun("spirals-baseline", "", {}, async (page) => {
    await page.getByLabel("Reports", { exact: true }).fill("100");
    await page.getByLabel("to", { exact: true }).fill("200");
    await page.keyboard.press("Tab");
    await page.getByRole("img", { name: /^loss .*reports 100 to 200$/ }).waitFor();
    await page.getByLabel("Logarithmic").check();
    await page.getByLabel("Smoothing").selectOption("more");
    await page.getByRole("button", { name: "Time", exact: true }).click();
    await page.getByRole("img", { name: /^loss by time/ }).waitFor();
    await page.getByRole("button", { name: "Show all" }).click();
    await page.getByRole("button", { name: "Reports", exact: true }).click();
    await page.getByRole("img", { name: /^loss .*to 600$/ }).waitFor();
  }));

test("the sections have what is known of the run", () =>
  withRun("spirals-killed", "", {}, async (page) => {
    await page.getByText("was killed by SIGKILL in step 130").waitFor();
    const section = (name) => page.getByRole("navigation", { name: "Sections" }).getByRole("link", { name });
    await section(/^Workers/).click();
    assert.equal(await page.locator(".worker-row:not(.head)").count(), 2);
    await section(/^Checkpoints/).click();
    await page.getByText(/^checkpoint_\d{6}$/).first().waitFor();
    await page.getByRole("button", { name: "Verify" }).first().click();
    await page.getByText(/^whole: \d+ files?, /).first().waitFor();
    await section(/^Data/).click();
    await page.getByText("Map(scaled)").first().waitFor();
    await section("Collectives").click();
    await page.getByRole("cell", { name: "all_reduce" }).first().waitFor();
    await section("Events").click();
    await page.getByPlaceholder("Filter events").fill("signal 9");
    assert.equal(await page.locator(".events tbody tr").count(), 1);
    await section("Controller log").click();
    await page.getByText("training from the checkpoint of report").waitFor();
    await section("Configuration").click();
    await page.getByText("max_failures", { exact: true }).waitFor();
    await page.getByRole("row", { name: /^train_loop_config.learning_rate/ }).waitFor();
    await page.reload(); // a deep link
    await page.getByText("max_failures", { exact: true }).waitFor();
  }));

test("a verification ends when one leaves it", () =>
  withRun("spirals-killed", "?tab=checkpoints", {}, async (page) => {
    await page.route("**/verification", () => undefined); // takes for ever
    const asked = page.waitForRequest(/verification$/);
    await page.getByRole("button", { name: "Verify" }).first().click();
    await asked;
    const given = page.waitForEvent("requestfailed");
    await page.getByRole("navigation", { name: "Sections" }).getByRole("link", { name: "Events" }).click();
    assert.match((await given).url(), /verification$/);
    await page.unroute("**/verification");
    await page.getByRole("navigation", { name: "Sections" }).getByRole("link", { name: /^Checkpoints/ }).click();
    await page.getByRole("button", { name: "Verify" }).first().click();
    await page.getByText(/^whole: /).first().waitFor();
  }));

test("actions of a run that is over are disabled, with the reason", () =>
  withRun("spirals-wide", "", {}, async (page) => {
    const stop = page.getByRole("button", { name: "Stop…" });
    assert.equal(await stop.isDisabled(), true);
    assert.match(await stop.getAttribute("title"), /finished/);
  }));

test("stacks ask of which ranks, and come merged", () =>
  withRun("spirals-live", "", {}, async (page) => {
    await page.getByRole("button", { name: "Stack trace" }).click();
    const dialog = page.getByRole("dialog");
    assert.equal(await dialog.getByLabel("Workers").inputValue(), "-1");
    const request = page.waitForRequest((one) => one.url().endsWith("/actions"));
    await page.keyboard.press("Enter");
    assert.deepEqual((await request).postDataJSON(), { action: "stacks", rank: -1 });
    await dialog.getByText("Main threads").waitFor();
    assert.match(await dialog.locator("summary").first().innerText(), /rank/);
    assert.match(await dialog.innerText(), /ranks 0–1/); // their other threads stand at the same place
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  }));

test("stop asks first, and then the run is stopped", async () => {
  await startLive("spirals-to-stop");
  await withRun("spirals-to-stop", "", {}, async (page) => {
    await page.getByRole("button", { name: "Stop…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Keep it running" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Stop…" }).click();
    const request = page.waitForRequest((one) => one.url().endsWith("/actions"));
    await page.getByRole("dialog").getByRole("button", { name: "Stop the run" }).click();
    assert.equal((await request).headers()["x-paceline"], "1");
    await page.getByText("The run was stopped: the dashboard").waitFor();
    assert.equal(await page.getByRole("button", { name: "Stop…" }).isDisabled(), true);
  });
});

test("a live run goes on before one's eyes", () =>
  withRun("spirals-live", "?tab=workers", {}, async (page) => {
    const step = () => page.locator(".worker-row:not(.head) .step").first().innerText();
    const before = await step();
    await eventually(step, (now) => now !== before, "the step did not change");
  }));

test("a chart's title says the last value, also when a pointer has been there", () =>
  withRun("spirals-live", "", {}, async (page) => {
    const chart = page.locator("figure.chart").filter({ hasText: "loss" }).first();
    await chart.locator(".u-over").hover();
    await chart.getByText(/^report \d/).waitFor();
    await page.mouse.move(2, 2);
    await chart.getByText(/^report \d/).waitFor({ state: "detached" });
    const said = () => chart.locator(".legend .number").innerText();
    for (let changes = 0; changes < 3; ++changes) {
      const before = await said();
      await eventually(said, (now) => now !== before, "the last value did not change");
    }
  }));

test("1,024 ranks: only rows in sight are made, the slow one is named", async () => {
  const id = await idOf("spirals-live");
  /** No machine of the tests has so many: what the server says of the run's workers is said of 1,024. */
  const widen = (run) => {
    const workers = Array.from({ length: 1024 }, (_, rank) => ({ ...run.workers[rank % 2], worker: 2 + rank, rank }));
    workers[311].slow = 2.4;
    return { ...run, workers };
  };
  await withPage("#/runs", {}, async (page) => {
    await page.route(`**/api/v1/runs/${id}`, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: widen(await response.json()) });
    });
    await page.route("**/api/v1/stream?topics=run*", () => {}); // no news: they would be of two workers
    await page.evaluate((hash) => (location.hash = hash), `#/runs/${id}?tab=workers`);
    await page.locator(".worker-row:not(.head)").first().waitFor();
    assert.ok((await page.locator(".worker-row").count()) < 80);
    await page.getByText("rank 311 takes 2.4 times").waitFor();
    await page.getByRole("columnheader", { name: "Rank" }).getByRole("button").click();
    assert.equal(await page.locator(".worker-row:not(.head) .rank").first().innerText(), "1023");
  });
});

test("a run that is not there", () =>
  withPage("#/runs/nothing", { expected: /404/ }, async (page) => {
    await page.getByText(/no run .*nothing/i).waitFor();
  }));
