// Runs the browser tests against the program that was built, over runs that it trains first. Exit code 77: something
// that they need is not there.
import { after, before } from "node:test";
import { chromiumPath, closeBrowser, openBrowser } from "./browser/browser.mjs";
import { whatIsMissing } from "./browser/program.mjs";
import { endRuns, trainRuns } from "./browser/runs.mjs";

const missing = whatIsMissing() || (chromiumPath() ? "" : "there is no Chromium: apt-get install chromium");
if (missing) {
  console.error(`the browser tests are left out: ${missing}`);
  process.exit(77);
}
before(async () => {
  await trainRuns();
  await openBrowser();
});
after(async () => {
  await closeBrowser();
  await endRuns();
});

await import("./browser/runs_page.mjs");
await import("./browser/run_page.mjs");
await import("./browser/kinds_of_runs.mjs");
await import("./browser/logs_page.mjs");
await import("./browser/worker_page.mjs");
await import("./browser/data_page.mjs");
await import("./browser/nodes_pages.mjs");
await import("./browser/profiles_page.mjs");
await import("./browser/proxy_and_session.mjs");
await import("./browser/security.mjs");
await import("./browser/accessibility.mjs");
