// What the browser tests share: one browser, the dashboard over the tests' runs, and pages that fail a test when
// something goes wrong in them.
import assert from "node:assert/strict";
import { existsSync, rmSync } from "node:fs";
import { chromium } from "playwright-core";
import { Dashboard } from "./program.mjs";
import { idOf, state } from "./runs.mjs";

const PROGRAMS = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export function chromiumPath() {
  return PROGRAMS.find((path) => path && existsSync(path));
}

/** What each page looked like when its test was over, for who wants to look at it. */
const SCREENSHOTS = new URL("../../../build/browser/", import.meta.url).pathname;

let browser;
let shared;
let pages = 0;

async function keepScreenshot(page, hash) {
  const name = hash.replace(/[0-9a-f]{32}/g, "RUN").replace(/[^A-Za-z0-9]+/g, "_").slice(0, 60);
  const path = `${SCREENSHOTS}${String(++pages).padStart(2, "0")}${name}.png`;
  await page.screenshot({ path }).catch(() => undefined); // a page that has gone away
}

export async function openBrowser() {
  // The tests run as root in containers, where Chromium has no sandbox.
  rmSync(SCREENSHOTS, { recursive: true, force: true });
  browser = await chromium.launch({ executablePath: chromiumPath(), args: ["--no-sandbox"] });
  shared = await Dashboard.start(state);
}

export async function closeBrowser() {
  await browser?.close();
  await shared?.stop();
}

/** Errors that a page has on purpose are told by `expected`. */
function watch(page, address, expected) {
  const problems = [];
  page.on("pageerror", (error) => problems.push(`error: ${error.stack}`));
  page.on("console", (message) => {
    if (message.type() !== "error") return;
    if (!expected?.test(message.text())) problems.push(`console: ${message.text()} ${message.location().url}`);
  });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(address) && !/^blob:/.test(url)) problems.push(`asks elsewhere: ${url}`);
  });
  return problems;
}

/** Opens the address with a code, as a user does, and waits until the page has a session. */
export async function logIn(page, url) {
  await page.goto(url);
  await page.locator(".server").waitFor({ state: "attached" }); // narrow windows have no room for it
}

/**
 * Opens a page for `body(page, dashboard)`, with a session unless `session` is false. Fails when a script of the page
 * throws, the console has an error (also: the content security policy has refused something), or anything but the
 * dashboard is asked. Others than the shared dashboard are given as `dashboard`.
 */
export async function withPage(hash, options, body) {
  const { dashboard = shared, expected, session = true, ...settings } = options;
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...settings });
  const page = await context.newPage();
  const problems = watch(page, dashboard.address, expected);
  try {
    if (session) {
      if (dashboard.cookies) await context.addCookies(dashboard.cookies);
      else await logIn(page, dashboard.url);
      dashboard.cookies ??= await context.cookies();
    }
    await page.goto(dashboard.address + hash);
    await body(page, dashboard);
    assert.deepEqual(problems, []);
  } finally {
    await keepScreenshot(page, hash);
    await context.close();
  }
}

/** The same of a run's page, `rest` being what stands behind its id. */
export async function withRun(name, rest, options, body) {
  await withPage(`#/runs/${await idOf(name)}${rest}`, options, body);
}

/** With a dashboard of the test's own. */
export async function withDashboard(stateFolder, flags, body, more = {}) {
  const dashboard = await Dashboard.start(stateFolder, { flags, more });
  try {
    await body(dashboard);
  } finally {
    await dashboard.stop();
  }
}

/** Waits until `read()` gives something that `isRight`, and returns it. */
export async function eventually(read, isRight, what) {
  const end = Date.now() + 15_000;
  for (;;) {
    const value = await read();
    if (isRight(value)) return value;
    if (Date.now() > end) assert.fail(`${what}: ${JSON.stringify(value)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
