// Measures how soon a page is there: `node tests/measure_paint.mjs [--iterations N]`; the row `dashboard_paint` of
// `make bench`.
//
// In Chromium without a window, against `paceline dashboard` on this machine, each time with a new profile (nothing is
// in the cache but the session's cookie). From the start of the navigation (performance.timeOrigin) to: the first paint
// of content, as the browser tells it; the frame after what was waited for is there (two animation frames later it is on
// the screen). "processor" is what the page's main thread has used until then: it tells the same on a machine that
// others use too. The last line is for benchmarks/run.py.
import { chromium } from "playwright-core";
import { chromiumPath, logIn } from "./browser/browser.mjs";
import { Dashboard } from "./browser/program.mjs";
import { endRuns, longRun, manyRuns, trainOne } from "./browser/runs.mjs";

/** What stands behind a flag; those of others are passed over. */
function flag(name, usual) {
  const at = process.argv.indexOf(name);
  return at < 0 ? usual : process.argv[at + 1];
}

const REPETITIONS = Number(flag("--iterations", 7));
const CASES = [
  {
    title: "10,000 runs",
    sample: "first rows",
    make: async () => ({ state: await manyRuns(10_000), hash: "#/runs" }),
    marks: {
      "first rows": () => document.querySelectorAll(".run-row").length > 10,
      "all runs": () => /10,000 runs$/.test(document.querySelector(".toolbar")?.textContent ?? ""),
    },
  },
  {
    title: "a run of 1,000,000 reports",
    make: async () => {
      const { state, id } = await longRun(1_000_000);
      return { state, hash: `#/runs/${id}` };
    },
    marks: {
      head: () => document.querySelector(".run-header") !== null,
      "all charts": () => document.querySelectorAll(".chart canvas").length === 4,
    },
  },
];

/** Runs in the page, before its scripts: notes when each mark is painted. */
function observe(marks) {
  const tests = Object.entries(marks);
  globalThis.paints = {};
  const look = () => {
    for (const [name, isThere] of tests) {
      if (globalThis.paints[name] === undefined && document.body && isThere()) {
        globalThis.paints[name] = -1;
        requestAnimationFrame(() => requestAnimationFrame(() => (globalThis.paints[name] = performance.now())));
      }
    }
    requestAnimationFrame(look);
  };
  look();
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

async function measure(browser, { make, marks }) {
  const { state, hash } = await make();
  const dashboard = await Dashboard.start(state);
  const first = await browser.newPage();
  await logIn(first, dashboard.url);
  const cookies = await first.context().cookies();
  await first.close();
  const times = {};
  for (let number = 0; number < REPETITIONS; number++) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    await context.addCookies(cookies);
    const page = await context.newPage();
    const texts = Object.entries(marks).map(([name, isThere]) => `${JSON.stringify(name)}: ${isThere}`);
    await page.addInitScript(`(${observe})({ ${texts.join(", ")} })`);
    const debug = await context.newCDPSession(page);
    await debug.send("Performance.enable", { timeDomain: "threadTicks" });
    await page.goto(dashboard.address + hash);
    await page.waitForFunction(
      (count) => Object.values(globalThis.paints).filter((time) => time > 0).length === count,
      Object.keys(marks).length,
      { timeout: 300_000 },
    );
    const found = await page.evaluate(() => ({
      "first content": performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
      ...globalThis.paints,
    }));
    const { metrics } = await debug.send("Performance.getMetrics");
    found["processor"] = 1000 * metrics.find((one) => one.name === "TaskDuration").value;
    for (const [name, time] of Object.entries(found)) (times[name] ??= []).push(time);
    await context.close();
  }
  await dashboard.stop();
  return times;
}

await trainOne();
const record = { samples: [], also: {} };
const browser = await chromium.launch({ executablePath: chromiumPath(), args: ["--no-sandbox"] });
for (const one of CASES) {
  const times = await measure(browser, one);
  for (const [name, values] of Object.entries(times)) {
    const [least, middle, most] = [Math.min(...values), median(values), Math.max(...values)].map((time) =>
      Math.round(time),
    );
    console.log(`${one.title}: ${name.padEnd(14)} median ${middle} ms (${least} … ${most}, ${values.length} times)`);
    if (name === one.sample) record.samples = values;
    else record.also[`${one.title}, ${name} (ms)`] = median(values);
  }
}
await browser.close();
await endRuns();
console.log(JSON.stringify(record));
