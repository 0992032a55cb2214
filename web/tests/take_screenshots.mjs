// Takes the pictures of README.md and docs/dashboard.md: `npm run screenshots`.
//
// The pages say where they were made: run it as a user of that name on a machine of that name, for instance in
// namespaces (unshare --mount --uts), with HOME where the runs shall be.
import { mkdtempSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { chromiumPath, logIn } from "./browser/browser.mjs";
import { Dashboard, ask, train } from "./browser/program.mjs";

const IMAGES = new URL("../../docs/images/", import.meta.url).pathname;
const state = mkdtempSync(join(tmpdir(), "paceline-screenshots-"));

function start(name, ...flags) {
  return train(state, ["--name", name, "--storage-path", join(homedir(), "experiments"), ...flags]);
}

await Promise.all([
  start("spirals-killed", "--steps", "1030", "--kill-at", "530", "--max-failures", "2", "--checkpoint-every", "200").ended,
  start("spirals-bad-label", "--steps", "600", "--raise-at", "412").ended,
]);
const live = start("spirals-live", "--steps", "1000000", "--width", "256");
while (((await ask(state, "list")).find((run) => run.name === "spirals-live")?.report ?? 0) < 200) {
  await new Promise((resolve) => setTimeout(resolve, 200));
}
const { folder } = await ask(state, "profile", "--seconds", "5", "spirals-live");
const ids = Object.fromEntries((await ask(state, "list")).map(({ name, id }) => [name, id]));

const dashboard = await Dashboard.start(state);
const browser = await chromium.launch({ executablePath: chromiumPath(), args: ["--no-sandbox"] });
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 760 } });
  await logIn(page, dashboard.url);
  const take = async (picture, hash, ready) => {
    await page.goto(dashboard.address + hash);
    await page.locator(ready).first().waitFor();
    await page.waitForTimeout(500); // what is drawn afterwards
    await page.screenshot({ path: `${IMAGES}dashboard_${picture}.png` });
  };
  await take("failed", `#/runs/${ids["spirals-bad-label"]}`, ".chart canvas");
  await take("run", `#/runs/${ids["spirals-killed"]}`, ".chart canvas");
  const profile = encodeURIComponent(folder.split("/").at(-1));
  await take("flame_graph", `#/runs/${ids["spirals-live"]}/profiles/${profile}?language=Python`, ".flame-box canvas");
} finally {
  await browser.close();
  await dashboard.stop();
  live.child.kill("SIGTERM");
  await live.ended;
  rmSync(state, { recursive: true, force: true });
}
