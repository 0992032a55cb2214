// Runs the unit tests: bundled first, since they and what they test are TypeScript.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
const tests = readdirSync("tests/unit")
  .filter((name) => name.endsWith(".test.ts"))
  .map((name) => `tests/unit/${name}`);
rmSync("build/unit", { recursive: true, force: true });
await build({
  entryPoints: tests,
  outdir: "build/unit",
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  jsx: "automatic",
  jsxImportSource: "preact",
  sourcemap: "inline",
  logLevel: "warning",
});
const files = readdirSync("build/unit").map((name) => `build/unit/${name}`);
process.exit(
  spawnSync(process.execPath, ["--enable-source-maps", "--test", ...files], { stdio: "inherit" }).status ?? 1,
);
