// Nodes and what they did: the pages Metrics and Nodes, and one node.
import assert from "node:assert/strict";
import { hostname } from "node:os";
import { test } from "node:test";
import { eventually, withPage } from "./browser.mjs";
import { idOf } from "./runs.mjs";

const chart = (page, title) => page.getByRole("figure").filter({ has: page.getByText(title, { exact: true }) });

test("the nodes of runs that go on, and the way to one of them", () =>
  withPage("#/nodes", {}, async (page) => {
    const row = page.getByRole("row").filter({ hasText: "spirals-live" });
    await row.waitFor();
    assert.match(await row.innerText(), /live/);
    assert.match(await row.innerText(), /0–1/); // the ranks there
    assert.equal(await page.locator("tr.machine").count(), 1); // however many runs it has
    await row.getByRole("link", { name: `its processes: spirals-live on ${hostname()}` }).click();
    await page.getByRole("heading", { name: hostname() }).waitFor();
    const processes = page.getByRole("group", { name: "Processes" });
    await processes.getByRole("link", { name: "rank 1", exact: true }).waitFor();
    await processes.getByText(/^data process/).waitFor();
    await processes.getByText("driver").waitFor();
    await chart(page, "Cores used by processes").waitFor();
    await page.getByText("No GPUs are shown").or(page.getByRole("group", { name: "GPUs" })).waitFor();
  }));

test("the metrics of a run: all charts, zoomed by dragging, and back", async () => {
  const id = await idOf("spirals-live");
  await withPage(`#/metrics?run=${id}`, {}, async (page) => {
    await chart(page, "CPU").locator("canvas").waitFor();
    for (const title of ["Memory used", /^Workers by state/, /^Data processes by state/, "Rows of operators"]) {
      await chart(page, title).waitFor();
    }
    const box = await chart(page, "CPU").locator(".u-over").boundingBox();
    // There is a point each second: wide enough for two of them, however young the run is.
    await page.mouse.move(box.x + box.width * 0.1, box.y + 30);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.9, box.y + 30, { steps: 4 });
    await page.mouse.up();
    await eventually(() => page.url(), (url) => /from=\d+&to=\d+/.test(url), "dragging did not zoom");
    await page.getByRole("button", { name: "Zoom out" }).click();
    await eventually(() => page.url(), (url) => !url.includes("from="), "the whole is not shown again");
    await page.getByRole("button", { name: "All" }).click();
    await eventually(() => page.url(), (url) => url.includes("span=all"), "the address does not tell");
  });
});

test("a run that is over keeps what its nodes did", async () => {
  const id = await idOf("spirals-wide");
  await withPage(`#/metrics?run=${id}`, {}, async (page) => {
    await page.getByRole("row").filter({ hasText: "ended" }).waitFor();
    await chart(page, "CPU").locator("canvas").waitFor();
  });
});
