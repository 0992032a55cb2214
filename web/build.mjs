// Builds the pages into dist/: index.html, its icon, and a script and a style sheet whose names have their content's
// hash, so that a server can let browsers keep them for ever; in dist/speedscope/ that viewer, as it was released.
// `node build.mjs --check` builds beside it, and compares.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const MOST_BYTES = 150_000; // of the pages' own files, compressed
const SPEEDSCOPE = "speedscope"; // the package, and the folder
/** What of speedscope nobody needs here: an example, Java's recordings, the description of its format. */
const LEFT_OUT = /^(perf-vertx-stacks|jfrview_bg|file-format-schema|release\.txt|favicon.*\.js$)/;

async function bundle(folder) {
  await mkdir(folder, { recursive: true }); // it stays the same one: `paceline dashboard --web-root` has it open
  for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true });
  const { metafile } = await build({
    absWorkingDir: HERE,
    entryPoints: { app: "src/main.tsx" },
    outdir: folder,
    entryNames: "[name]-[hash]",
    bundle: true,
    minify: true,
    format: "esm",
    target: ["es2022", "chrome109", "firefox115", "safari16"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "inline", // the licenses of what is bundled ask for it
    metafile: true,
    logLevel: "warning",
  });
  const outputs = Object.keys(metafile.outputs).map((path) => basename(path));
  const named = (extension) => outputs.find((name) => name.endsWith(extension));
  const page = await readFile(join(HERE, "src/index.html"), "utf8");
  await copyFile(join(HERE, "src/favicon.svg"), join(folder, "favicon.svg"));
  await writeFile(join(folder, "index.html"), page.replace("app.js", named(".js")).replace("app.css", named(".css")));
}

async function copySpeedscope(folder) {
  const from = join(HERE, "node_modules", SPEEDSCOPE);
  const to = join(folder, SPEEDSCOPE);
  await mkdir(to);
  const names = (await readdir(join(from, "dist/release"))).filter((name) => !LEFT_OUT.test(name));
  for (const name of names) await copyFile(join(from, "dist/release", name), join(to, name.replace(/\.md$/, ".txt")));
  await copyFile(join(from, "LICENSE"), join(to, "LICENSE.txt"));
}

async function filesOf(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const names = entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath ?? entry.path, entry.name)))
    .sort();
  return new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name))])));
}

/** What differs between the bundle that is checked in and a fresh one, a line each. */
function differences(there, fresh) {
  const names = [...new Set([...there.keys(), ...fresh.keys()])].sort();
  return names.flatMap((name) => {
    if (!there.has(name)) return [`dist/${name} is missing`];
    if (!fresh.has(name)) return [`dist/${name} is left from an earlier build`];
    return there.get(name).equals(fresh.get(name)) ? [] : [`dist/${name} differs`];
  });
}

function printSizes(files) {
  let total = 0;
  for (const [name, content] of files) {
    if (name.startsWith(SPEEDSCOPE)) continue;
    const compressed = gzipSync(content, { level: 9 }).length;
    total += compressed;
    console.log(
      `${name.padEnd(24)} ${String(content.length).padStart(8)} bytes  ${String(compressed).padStart(7)} gzip`,
    );
  }
  console.log(`${"together".padEnd(24)} ${String(total).padStart(31)} gzip of ${MOST_BYTES}`);
  return total;
}

const check = process.argv.includes("--check");
const folder = join(HERE, check ? "build/fresh" : "dist");
await bundle(folder);
await copySpeedscope(folder);
const fresh = await filesOf(folder);
const tooLarge = printSizes(fresh) > MOST_BYTES;
const stale = check ? differences(await filesOf(join(HERE, "dist")), fresh) : [];
for (const line of stale) console.error(line);
if (stale.length) console.error("web/dist is not what the sources give: run `make web` and commit it");
if (tooLarge) console.error(`the pages are larger than ${MOST_BYTES} bytes`);
process.exit(tooLarge || stale.length ? 1 : 0);
