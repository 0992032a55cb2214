// The runs that the browser tests look at: real ones, trained once in a folder of the tests' own.
import assert from "node:assert/strict";
import { once } from "node:events";
import { cpSync, createWriteStream, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { ObjectStore, ask, index, train } from "./program.mjs";

const HOSTILE = JSON.parse(readFileSync(new URL("hostile.json", import.meta.url), "utf8"));
const LIVE = ["--steps", "1000000", "--pause", "0.02", "--checkpoint-every", "150"];

export const HOSTILE_PROFILE = "2026-11-28T01:02:03.004Z";

export const folder = mkdtempSync(join(tmpdir(), "paceline-web-"));
export const state = join(folder, "state");
const results = join(folder, "results");
const live = [];

function start(name, ...flags) {
  return train(state, ["--name", name, "--storage-path", results, ...flags]);
}

/**
 * One that hung, one that waited for its data, one that finished, a wider one, one that was killed and continued, one that
 * failed; and one that is live.
 */
export async function trainRuns() {
  await Promise.all([
    start("spirals-hung", "--steps", "300", "--hang-at", "40", "--hang-floor", "3").ended,
    start("spirals-slow-data", "--steps", "40", "--slow-data").ended,
  ]);
  const wide = ["--width", "192", "--learning-rate", "0.004"];
  await Promise.all([start("spirals-baseline", "--steps", "600").ended, start("spirals-wide", "--steps", "400", ...wide).ended]);
  await Promise.all([
    start("spirals-killed", "--steps", "300", "--kill-at", "130", "--max-failures", "2", "--checkpoint-every", "50", "--pause", "0.02").ended,
    start("spirals-bad-label", "--steps", "300", "--raise-at", "112").ended,
  ]);
  await startLive("spirals-live");
}

/** One of them, which others are made from. */
export function trainOne() {
  return start("spirals-baseline", "--steps", "100").ended;
}

/** Answers when it has made some reports. */
export async function startLive(name) {
  live.push(start(name, ...LIVE));
  while (((await ask(state, "list")).find((run) => run.name === name)?.report ?? 0) < 10) {
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

export async function endRuns() {
  for (const { child } of live) child.kill("SIGTERM");
  await Promise.all(live.map(({ ended }) => ended));
  rmSync(folder, { recursive: true, force: true });
}

const ids = new Map();

export async function idOf(name) {
  if (!ids.has(name)) for (const run of await ask(state, "list")) ids.set(run.name, run.id);
  return ids.get(name);
}

const profiles = new Map();

/** The name of a profile of a live run, which is taken once. */
export function profileOf(name) {
  if (!profiles.has(name)) {
    const taken = ask(state, "profile", "--seconds", "1", name).then(({ folder: kept }) => basename(kept));
    profiles.set(name, taken);
    taken.catch(() => profiles.delete(name)); // the next test asks anew
  }
  return profiles.get(name);
}

export function runFolder(name) {
  return join(results, name);
}

/** A state directory that knows no run. */
export function emptyState() {
  return join(folder, "state-empty");
}

/** Texts of users, wherever the journal has some. */
function withTexts(value, text, key = "") {
  const isText = ["name", "host", "text", "exception", "error", "reason", "last_lines", "frames", "failures"];
  if (typeof value === "string") return isText.includes(key) ? text : value;
  if (Array.isArray(value)) return value.map((one) => withTexts(one, text, key));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withTexts(one, text, name)]));
}

/** A profile in which everything that has a name is called like that. */
function keepProfile(run, text) {
  const kept = join(run, "profiles", HOSTILE_PROFILE);
  const frame = { function: text, file: text, line: 1, module: text };
  const thread = { tid: 7, name: text, language: text, stacks: [{ frames: [0], count: 5 }] };
  const profile = { worker: 2, rank: 0, node: text, pid: 7, rate: 99, seconds: 1, ways: [text], problems: [text] };
  mkdirSync(kept, { recursive: true });
  writeFileSync(join(kept, "profile.jsonl"), JSON.stringify({ ...profile, frames: [frame], threads: [thread] }) + "\n");
  const note = { kind: text, time: 1, who: text, seconds: 1, ranks: [0], samples: { [text]: 5 }, problems: [text] };
  writeFileSync(join(kept, "profile.json"), JSON.stringify(note) + "\n");
}

/**
 * Run folders as somebody may hand them over: copies of real ones, with an attack in names, errors, events, metrics and
 * logs. Gives the ids by text.
 */
export async function hostileRuns() {
  const storage = join(folder, "hostile");
  const hostile = join(folder, "state-hostile");
  const lines = (path) => readFileSync(path, "utf8").trimEnd().split("\n");
  HOSTILE.forEach((text, number) => {
    const run = join(storage, `run-${number}`);
    cpSync(runFolder(number % 2 ? "spirals-killed" : "spirals-bad-label"), run, { recursive: true });
    const events = lines(join(run, "journal.jsonl")).map((line) => {
      const event = withTexts(JSON.parse(line), text);
      if (event.event === "process_exited") event.then.error = `Rank 1: ${text}\n${text}\n  | ${text}`;
      return JSON.stringify({ ...event, [text]: text });
    });
    writeFileSync(join(run, "journal.jsonl"), events.join("\n") + "\n");
    const history = lines(join(run, "metrics.jsonl")).map((line) => {
      const row = JSON.parse(line);
      return JSON.stringify({ ...row, metrics: { ...row.metrics, [text]: row.report } });
    });
    writeFileSync(join(run, "metrics.jsonl"), history.join("\n") + "\n");
    keepProfile(run, text);
    for (const figures of readdirSync(join(run, "data"))) {
      const path = join(run, "data", figures);
      writeFileSync(path, JSON.stringify(withTexts(JSON.parse(readFileSync(path, "utf8")), text)));
    }
    for (const log of readdirSync(join(run, "logs"))) writeFileSync(join(run, "logs", log), `${text}\n`.repeat(50));
  });
  await index(hostile, storage);
  const listed = await ask(hostile, "list");
  const byText = new Map(listed.map((run) => [HOSTILE[Number(/run-(\d+)$/.exec(run.path)[1])], run.id]));
  return { state: hostile, ids: byText };
}

/** A run with so many reports. */
export async function longRun(reports) {
  const storage = join(folder, "long");
  const long = join(folder, "state-long");
  cpSync(runFolder("spirals-baseline"), join(storage, "spirals-long"), { recursive: true });
  const history = createWriteStream(join(storage, "spirals-long", "metrics.jsonl"));
  const start = Date.now() / 1000 - reports;
  for (let report = 1; report <= reports; report++) {
    const loss = Math.exp(-report / (reports / 4)) + 0.1 * Math.sin(report / (reports / 60)) + 0.05 * Math.random();
    const metrics = { loss, eval: { accuracy: 1 - loss / 2 }, learning_rate: 0.01, step_seconds: 0.1 };
    const row = { attempt: 1, metrics, rank: 0, report, time: start + report };
    if (!history.write(JSON.stringify(row) + "\n")) await once(history, "drain");
  }
  await new Promise((resolve) => history.end(resolve));
  await index(long, storage);
  const [{ id }] = await ask(long, "list");
  return { state: long, id };
}

/** The runs that version 0.1 left, in a state directory of their own. */
export async function oldRuns() {
  const storage = join(folder, "old");
  const old = join(folder, "state-old");
  cpSync(new URL("../../../paceline/run/fixtures/v0_1", import.meta.url), storage, { recursive: true });
  await index(old, storage);
  return old;
}

/** A run on S3, and another state directory that knows it by `flags` alone. */
export async function runOnS3() {
  const store = await ObjectStore.start();
  const trained = train(state, ["--name", "spirals-on-s3", "--steps", "60", "--storage-path", store.uri], store.environment);
  assert.equal(await trained.ended, 0);
  const flags = ["--storage-path", store.uri];
  return { store, state: join(folder, "state-s3"), flags, environment: store.environment };
}

/** A run store that knows ten thousand runs. */
export async function manyRuns(count = 10_000) {
  const storage = join(folder, "many");
  const many = join(folder, "state-many");
  const [opened, ...events] = readFileSync(join(runFolder("spirals-baseline"), "journal.jsonl"), "utf8").split("\n");
  for (let number = 0; number < count; number++) {
    const name = `sweep-${String(number).padStart(5, "0")}`;
    mkdirSync(join(storage, name), { recursive: true });
    const first = { ...JSON.parse(opened), name };
    writeFileSync(join(storage, name, "journal.jsonl"), [JSON.stringify(first), ...events.slice(0, 2), ""].join("\n"));
  }
  await index(many, storage);
  return many;
}
