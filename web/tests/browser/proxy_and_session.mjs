// Sessions, a reverse proxy with a prefix, and a connection that is lost.
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, logIn, withDashboard, withPage } from "./browser.mjs";
import { Dashboard } from "./program.mjs";
import { PREFIX, Proxy } from "./proxy.mjs";
import { idOf, state } from "./runs.mjs";

test("a one-time code becomes a session and leaves the history", () =>
  withPage("", { session: false, expected: /401/ }, async (page, dashboard) => {
    await page.getByRole("heading", { name: "This browser has no session" }).waitFor();
    await logIn(page, dashboard.url);
    await page.getByRole("link", { name: "spirals-live" }).waitFor();
    assert.match(page.url(), /\/#\/runs$/);
    assert.equal(await page.evaluate(() => document.cookie), ""); // HttpOnly
    await page.reload();
    await page.getByRole("link", { name: "spirals-live" }).waitFor();
  }));

test("a used code opens nothing", () =>
  withPage("", { session: false, expected: /401/ }, async (page, dashboard) => {
    const used = dashboard.url;
    await page.goto("about:blank");
    await logIn(page, used);
    await page.context().clearCookies();
    await page.goto("about:blank");
    await page.goto(used);
    await page.getByText("the code is wrong, or was used").waitFor();
    assert.equal(page.url().includes("code="), false);
  }));

test("without a session the page asks for a code, and then shows what was asked for", () =>
  withPage("#/runs", { session: false, expected: /401/ }, async (page, dashboard) => {
    await page.getByRole("heading", { name: "This browser has no session" }).waitFor();
    await page.getByLabel("Address, code or token").fill("wrong");
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByText("the code is wrong, or was used").waitFor();
    await page.getByLabel("Address, code or token").fill(dashboard.url);
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByRole("link", { name: "spirals-live" }).waitFor();
  }));

test("a read-only dashboard says so, and changes nothing", async () => {
  const hash = `#/runs/${await idOf("spirals-live")}`;
  await withDashboard(state, ["--read-only"], (dashboard) =>
    withPage(hash, { dashboard }, async (page) => {
      await page.getByText(/, read-only$/).waitFor();
      const stop = page.getByRole("button", { name: "Stop…" });
      assert.equal(await stop.isDisabled(), true);
      assert.match(await stop.getAttribute("title"), /read-only/);
    }),
  );
});

test("a dashboard that was started anew wants a new code", async () => {
  const first = await Dashboard.start(state);
  let second;
  try {
    await withPage("#/runs", { dashboard: first, expected: /ERR_|401|Failed to load/ }, async (page) => {
      await page.getByText("live", { exact: true }).waitFor();
      await first.stop();
      await page.getByText("The dashboard does not answer, reconnecting").waitFor();
      second = await Dashboard.start(state, { port: first.port });
      await page.getByRole("heading", { name: "This browser has no session" }).waitFor({ timeout: 15_000 });
    });
  } finally {
    await first.stop();
    await second?.stop();
  }
});

/** A dashboard that knows that it is behind a proxy. */
async function withProxy(body) {
  let dashboard;
  const proxy = await Proxy.start(() => dashboard.inner);
  try {
    dashboard = await Dashboard.start(state, { flags: ["--external-url", proxy.address] });
    dashboard.inner = Number(/listens at \S+:(\d+)/.exec(dashboard.said)[1]);
    await body(dashboard, proxy);
  } finally {
    await dashboard?.stop();
    await proxy.stop();
  }
}

test("behind a proxy with a prefix everything works, and nothing outside of it is asked", () =>
  withProxy((dashboard, proxy) =>
    withPage("#/runs", { dashboard }, async (page) => {
      assert.equal(dashboard.address, proxy.address);
      await page.getByRole("link", { name: "spirals-wide" }).click();
      await page.locator(".chart canvas").first().waitFor();
      await page.getByText("live", { exact: true }).waitFor();
      await page.getByRole("link", { name: /^Workers/ }).click();
      await page.reload(); // a deep link
      await page.locator(".worker-row .rank").first().waitFor();
      const [cookie] = await page.context().cookies();
      assert.equal(cookie.path, PREFIX);
    }),
  ));

test("a page that nobody sees has no connection, and catches up when somebody does", () =>
  withPage("#/runs", {}, async (page) => {
    const report = () => page.locator(".run-row", { hasText: "spirals-live" }).locator(".report").innerText();
    const turn = (hidden) =>
      page.evaluate((value) => {
        Object.defineProperty(document, "hidden", { value, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, hidden);
    await page.getByText("live", { exact: true }).waitFor();
    await turn(true);
    await page.getByText("live", { exact: true }).waitFor({ state: "detached" });
    const before = await report();
    await turn(false);
    await page.getByText("live", { exact: true }).waitFor();
    await eventually(report, (now) => now !== before, "the list did not catch up");
  }));

test("the connection is lost: a banner, what was known stays, and it resumes alone", () =>
  withProxy((dashboard, proxy) =>
    withPage("#/runs", { dashboard, expected: /ERR_|Failed to load/ }, async (page) => {
      const report = () => page.locator(".run-row", { hasText: "spirals-live" }).locator(".report").innerText();
      await page.getByText("live", { exact: true }).waitFor();
      await proxy.stop();
      await page.getByText("The dashboard does not answer, reconnecting").waitFor();
      const before = await report();
      await proxy.listen();
      await page.getByText("The dashboard does not answer").waitFor({ state: "detached", timeout: 15_000 });
      await eventually(report, (now) => now !== before, "no news have come");
    }),
  ));
