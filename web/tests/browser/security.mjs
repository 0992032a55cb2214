// What others have written (names, errors, events, metrics, logs) never becomes more than text.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { withPage } from "./browser.mjs";
import { Dashboard } from "./program.mjs";
import { HOSTILE_PROFILE, hostileRuns } from "./runs.mjs";

const TABS = ["", "workers", "checkpoints", "data", "collectives", "profiles", "events", "controller", "configuration"];

/** Nothing has run, and no element has come that the pages do not make. */
async function assertHarmless(page) {
  const found = await page.evaluate(() => ({
    pwned: "pwned" in window,
    strange: document.querySelectorAll("main :is(script, img, iframe, object, embed, svg[onload], b, style)").length,
    handlers: [...document.querySelectorAll("*")].filter((one) =>
      [...one.attributes].some(({ name }) => /^on/.test(name)),
    ).length,
    links: [...document.querySelectorAll("a")].filter(
      (one) => !/^(#|speedscope\/#profileURL=\.\.|api\/v1\/runs\/)/.test(one.getAttribute("href") ?? ""),
    ).length,
  }));
  assert.deepEqual(found, { pwned: false, strange: 0, handlers: 0, links: 0 });
}

describe("hostile runs", () => {
  let dashboard;
  let ids;

  before(async () => {
    const hostile = await hostileRuns();
    ids = [...hostile.ids.values()];
    dashboard = await Dashboard.start(hostile.state);
  });
  after(() => dashboard?.stop());

  test("hostile names in the list", () =>
    withPage("#/runs", { dashboard }, async (page) => {
      await page.getByText(`${ids.length} runs`, { exact: true }).waitFor();
      assert.equal(await page.locator(".run-row .name a").count(), ids.length);
      await assertHarmless(page);
      assert.match(await page.locator(".run-row .name", { hasText: "gnp.exe" }).innerText(), /<U\+202E>/);
    }));

  test("hostile runs, every section, and their logs", () =>
    withPage("#/runs", { dashboard }, async (page) => {
      const go = (hash) => page.evaluate((to) => (location.hash = to), hash);
      for (const [number, id] of ids.entries()) {
        for (const tab of number === 0 ? TABS : ["", "events"]) {
          await go(`#/runs/${id}${tab ? `?tab=${tab}` : ""}`);
          await page.locator(".run-header").waitFor();
          await page.locator("section[aria-label] :is(.chart, table, .virtual, .empty, .notice)").first().waitFor();
          await assertHarmless(page);
        }
      }
      for (const id of ids) {
        await go(`#/runs/${id}/workers/1`);
        await page.getByRole("heading", { name: "Rank 1" }).waitFor();
        await page.locator(".log-line").first().waitFor();
        await assertHarmless(page);
      }
      await go("#/data");
      await page.locator(".dataset tbody tr").first().waitFor();
      await assertHarmless(page);
      await go(`#/metrics?run=${ids[1]}`);
      await page.locator(".chart canvas").first().waitFor();
      await assertHarmless(page);
      await go(`#/runs/${ids[1]}/logs/worker_2?q=pwned`);
      await page.locator(".log-line mark").first().waitFor();
      await assertHarmless(page);
    }));

  test("hostile profiles", () =>
    withPage("#/runs", { dashboard }, async (page) => {
      for (const id of ids) {
        const hash = `#/runs/${id}/profiles/${encodeURIComponent(HOSTILE_PROFILE)}`;
        await page.evaluate((to) => (location.hash = to), hash);
        await page.locator(".flame-box canvas").waitFor();
        await page.locator(".functions tbody tr").first().waitFor();
        await assertHarmless(page);
      }
    }));

  test("hostile runs compared", () =>
    withPage(`#/compare?runs=${ids.slice(0, 6).join(",")}`, { dashboard }, async (page) => {
      await page.getByRole("heading", { name: "Compare 6 runs" }).waitFor();
      await page.locator(".chart canvas").waitFor();
      await assertHarmless(page);
    }));
});

test("a hostile address", () =>
  withPage("#/runs", { expected: /40[04]/ }, async (page) => {
    for (const text of ["<img src=x onerror=pwned=1>", "../../etc/passwd", "%00", "__proto__", "a,b"]) {
      await page.evaluate((to) => (location.hash = to), `#/runs/${encodeURIComponent(text)}/logs/${encodeURIComponent(text)}`);
      await page.locator(".notice").first().waitFor();
      await assertHarmless(page);
    }
  }));
