// The program, as it was built: its commands, and `paceline dashboard` as a user starts it.
import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
export const BUILD = process.env.PACELINE_BUILD ?? ROOT + "build/release";
const PROGRAM = BUILD + "/paceline/cli/paceline";
const PYTHON = process.env.PACELINE_PYTHON ?? ROOT + ".venv/bin/python";
const WEB_ROOT = ROOT + "web/dist"; // what was built last, whatever is in the program

/** What the tests need and is not there; "" for nothing. */
export function whatIsMissing() {
  const missing = [PROGRAM, PYTHON, BUILD + "/python/paceline"].find((path) => !existsSync(path));
  return missing ? `${missing} is missing: make build` : "";
}

function environment(state, more = {}) {
  return { ...process.env, PACELINE_STATE_DIR: state, PYTHONPATH: BUILD + "/python", ...more };
}

/** The answer of `paceline … --json`. */
export async function ask(state, ...words) {
  const run = promisify(execFile);
  const { stdout } = await run(PROGRAM, [...words, "--json"], { env: environment(state), maxBuffer: 1 << 26 });
  return JSON.parse(stdout);
}

/** Adds the runs in a folder to the run store, as `paceline index` does. */
export async function index(state, folder) {
  await promisify(execFile)(PROGRAM, ["index", folder], { env: environment(state) });
}

/** A training of train.py: its process, and a promise of its exit code. */
export function train(state, flags, more = {}) {
  const script = fileURLToPath(new URL("train.py", import.meta.url));
  const child = spawn(PYTHON, ["-B", script, ...flags], { env: environment(state, more), stdio: "ignore" });
  return { child, ended: new Promise((resolve) => child.on("close", resolve)) };
}

/** An object store with a bucket at `uri`, for programs that have `environment`. */
export class ObjectStore {
  static async start() {
    const script = fileURLToPath(new URL("object_store.py", import.meta.url));
    const store = new ObjectStore();
    store.child = spawn(PYTHON, ["-B", script], { stdio: ["pipe", "pipe", "inherit"] });
    store.ended = new Promise((resolve) => store.child.on("close", resolve));
    let said = "";
    for await (const text of store.child.stdout) {
      said += text;
      if (said.endsWith("\n")) break;
    }
    Object.assign(store, JSON.parse(said));
    return store;
  }

  async stop() {
    this.child.stdin.end();
    await this.ended;
  }
}

export class Dashboard {
  /** Answers when it listens. */
  static async start(state, { port = 0, flags = [], more = {} } = {}) {
    const words = ["dashboard", "--port", String(port), "--web-root", WEB_ROOT, ...flags];
    const child = spawn(PROGRAM, words, { env: environment(state, more), stdio: ["ignore", "pipe", "inherit"] });
    const dashboard = new Dashboard();
    dashboard.child = child;
    dashboard.ended = new Promise((resolve) => child.on("close", resolve));
    dashboard.said = "";
    await new Promise((resolve, reject) => {
      child.stdout.on("data", (text) => {
        dashboard.said += text;
        if (dashboard.said.includes("#code=")) resolve();
      });
      child.on("error", reject);
      child.on("close", () => reject(new Error(`paceline dashboard has ended: ${dashboard.said}`)));
    });
    return dashboard;
  }

  /** The address that it has printed last, with the code of the next session. */
  get url() {
    return /.*(http:\S+#code=[0-9a-f]+)/s.exec(this.said)[1];
  }
  get address() {
    return this.url.replace(/#.*/, "");
  }
  get port() {
    return Number(new URL(this.url).port);
  }

  async stop() {
    this.child.kill("SIGTERM");
    await this.ended;
  }
}
