// axe-core on every page, in both colour schemes; motion, zoom and narrow windows.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { hostname } from "node:os";
import { test } from "node:test";
import { withDashboard, withPage, withRun } from "./browser.mjs";
import { emptyState, idOf, profileOf } from "./runs.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** The hash of each page, and what is there once it is. */
async function allPages() {
  const run = async (name, rest = "") => `#/runs/${await idOf(`spirals-${name}`)}${rest}`;
  const profile = await run("live", `/profiles/${encodeURIComponent(await profileOf("spirals-live"))}`);
  return Object.entries({
    "#/runs": ".run-row .name a",
    [await run("live")]: ".chart canvas",
    [await run("bad-label", "?tab=workers")]: ".worker-row .rank",
    [await run("live", "?tab=workers")]: ".heat-box canvas",
    [await run("live", "/workers/1")]: ".chart canvas",
    [await run("killed", "/workers/0?q=step")]: ".log-line mark",
    "#/data": "tbody tr",
    [await run("killed", "?tab=checkpoints")]: "tbody tr",
    [await run("wide", "?tab=data")]: "tbody tr",
    [await run("wide", "?tab=collectives")]: "tbody tr",
    [await run("live", "?tab=profiles")]: "tbody tr",
    [profile]: ".flame-box canvas",
    [`${profile}?than=${encodeURIComponent(await profileOf("spirals-live"))}&rank=0&than_rank=1`]: ".flame-box canvas",
    [await run("killed", "?tab=events")]: "tbody tr",
    [await run("killed", "?tab=controller")]: ".log-line",
    [await run("wide", "?tab=configuration")]: "tbody tr",
    [await run("bad-label", "/logs/worker_3?q=accuracy")]: "mark",
    "#/nodes": "tbody tr",
    [`#/metrics?run=${await idOf("spirals-live")}`]: ".chart canvas",
    [await run("live", `/nodes/${hostname()}`)]: ".chart canvas",
    [`#/compare?runs=${await idOf("spirals-wide")},${await idOf("spirals-baseline")}`]: ".chart canvas",
  });
}

async function findings(page) {
  // By the debugger, not as a script of the page: the page's policy allows none but its own.
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.map(
    ({ id, impact, nodes }) => `${impact} ${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`,
  );
}

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing, ${colorScheme}`, async () => {
    for (const [hash, ready] of await allPages()) {
      await withPage(hash, { colorScheme }, async (page) => {
        await page.locator(ready).first().waitFor();
        assert.deepEqual(await findings(page), [], hash);
      });
    }
  });
  test(`axe finds nothing in dialogs and empty pages, ${colorScheme}`, async () => {
    await withRun("spirals-live", "", { colorScheme }, async (page) => {
      for (const [button, ready, then] of [
        ["Stack trace", "form"],
        ["Stack trace", "summary", "Take it"],
        ["CPU flame graph", "form"],
        ["Stop…", "p"],
        ["Keys", "kbd"],
      ]) {
        await page.getByRole("button", { name: button }).click();
        if (then) await page.getByRole("dialog").getByRole("button", { name: then }).click();
        await page.getByRole("dialog").locator(ready).first().waitFor();
        assert.deepEqual(await findings(page), [], button);
        await page.keyboard.press("Escape");
        await page.getByRole("dialog").waitFor({ state: "detached" });
      }
    });
    await withDashboard(emptyState(), [], (dashboard) =>
      withPage("#/runs", { dashboard, colorScheme }, async (page) => {
        await page.getByText("No runs yet").waitFor();
        assert.deepEqual(await findings(page), []);
      }),
    );
  });
}

test("narrow windows and 200 % zoom: nothing but tables and logs scrolls sideways", async () => {
  for (const width of [360, 640]) {
    for (const [hash, ready] of await allPages()) {
      await withPage(hash, { viewport: { width, height: 720 } }, async (page) => {
        await page.locator(ready).first().waitFor();
        const excess = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(excess <= 0, `${hash} at ${width}: ${excess} pixels too wide`);
      });
    }
  }
});

test("who wants no motion gets none", () =>
  withPage("#/runs", { reducedMotion: "reduce" }, async (page) => {
    await page.locator(".run-row").first().waitFor();
    const durations = await page.evaluate(() =>
      [...document.querySelectorAll("*")].map((one) => getComputedStyle(one).transitionDuration),
    );
    assert.deepEqual([...new Set(durations)], ["0s"]);
  }));
