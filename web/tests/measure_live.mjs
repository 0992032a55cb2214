// Measures what a live run of 1,024 ranks costs: `node tests/measure_live.mjs [--iterations SECONDS]`; the row
// `dashboard_live` of `make bench`.
//
// benchmarks/simulated_run is the run, `paceline dashboard` serves it to a page in Chromium without a window, which shows
// its workers as they go on. Samples are the processor time of the server in each second, in % of a core. Beside: frames
// per second of that page, and of the charts of a run of a million reports while the pointer moves over them. Without a
// window and a GPU, Chromium draws with the processor that the run has too. The last line is for benchmarks/run.py.
import { spawn } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { chromiumPath, logIn } from "./browser/browser.mjs";
import { BUILD, Dashboard, ask } from "./browser/program.mjs";
import { endRuns, folder, longRun, trainOne } from "./browser/runs.mjs";

const RANKS = 1024;
const at = process.argv.indexOf("--iterations");
const SECONDS = Number(at < 0 ? 10 : process.argv[at + 1]);
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Of the threads that live: finer than the kernel's ticks, of which a look takes two. */
function processorSeconds(pid) {
  const threads = readdirSync(`/proc/${pid}/task`);
  const nanoseconds = threads.map((one) => Number(readFileSync(`/proc/${pid}/task/${one}/schedstat`, "utf8").split(" ")[0]));
  return nanoseconds.reduce((sum, one) => sum + one, 0) / 1e9;
}

/** Frames per second, and the longest between two in ms, while `meanwhile` goes on. */
async function frames(page, seconds, meanwhile) {
  const counted = page.evaluate(
    (length) =>
      new Promise((resolve) => {
        const begin = performance.now();
        let [count, last, longest] = [0, begin, 0];
        const look = (now) => {
          count++;
          longest = Math.max(longest, now - last);
          last = now;
          if (now - begin < length) requestAnimationFrame(look);
          else resolve({ rate: (1000 * count) / (now - begin), longest });
        };
        requestAnimationFrame(look);
      }),
    1000 * seconds,
  );
  let isOver = false;
  const moved = meanwhile?.(() => isOver);
  const found = await counted;
  isOver = true;
  await moved;
  return found;
}

async function opened(browser, state, hash) {
  const dashboard = await Dashboard.start(state);
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await logIn(page, dashboard.url);
  await page.goto(dashboard.address + hash);
  return { dashboard, page };
}

const record = { samples: [], also: {} };
const browser = await chromium.launch({ executablePath: chromiumPath(), args: ["--no-sandbox"] });

const live = join(folder, "state-live");
const env = { ...process.env, PACELINE_STATE_DIR: live };
const run = spawn(`${BUILD}/benchmarks/simulated_run`, [join(folder, "simulated"), "--ranks", String(RANKS)], {
  env,
  stdio: "inherit",
});
let id;
while (id === undefined) {
  [{ id } = {}] = (await ask(live, "list")).filter((one) => one.report > 2);
  if (id === undefined) await pause(200);
}
{
  const { dashboard, page } = await opened(browser, live, `#/runs/${id}?tab=workers`);
  await page.getByRole("link", { name: "Worker of rank 0", exact: true }).waitFor();
  await pause(2000);
  for (let second = 0; second < SECONDS; second++) {
    const [before, begin] = [processorSeconds(dashboard.child.pid), performance.now()];
    await pause(1000);
    record.samples.push((1e5 * (processorSeconds(dashboard.child.pid) - before)) / (performance.now() - begin));
  }
  const { rate, longest } = await frames(page, 5);
  record.also["frames/s of the page with 1,024 live ranks"] = rate;
  record.also["its longest frame (ms)"] = longest;
  await page.close();
  await dashboard.stop();
}
run.kill("SIGTERM");

await trainOne();
{
  const { state, id: long } = await longRun(1_000_000);
  const { dashboard, page } = await opened(browser, state, `#/runs/${long}`);
  await page.locator(".chart canvas").nth(3).waitFor();
  await pause(1000);
  const box = await page.locator(".chart canvas").first().boundingBox();
  const { rate, longest } = await frames(page, 5, async (isOver) => {
    for (let step = 0; !isOver(); step++) {
      await page.mouse.move(box.x + 70 + ((step * 7) % (box.width - 100)), box.y + box.height / 2);
    }
  });
  record.also["frames/s of the charts of a million reports"] = rate;
  record.also["the longest frame there (ms)"] = longest;
  await page.close();
  await dashboard.stop();
}
await browser.close();
await endRuns();
console.log(JSON.stringify(record));
