// Builds dist/ from the TypeScript sources: one JavaScript file per source, and next to it a copy of every
// asset (wasm, proto, JSON, HTML). Only what changed is written again. Types are checked by `npm run
// typecheck`, not here, so that a build takes a second.
import { transform } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, extname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { buildBundle } from "./bundle.mjs";
import { buildEngineIfStale } from "./engine.mjs";
import { buildNativeIfStale } from "./native.mjs";
import { buildProbeIfStale } from "./probe.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const outRoot = join(root, "dist");
const sourceRoots = ["shared", "agent", "server", "firmware-profiles", "test"];
const assetExtensions = new Set([
  ".wasm",
  ".json",
  ".proto",
  ".html",
  ".css",
  ".svg",
  ".js",
  ".mjs",
  ".cjs",
  ".bin",
  ".c",
  ".pt",
  ".keras",
  ".h5",
  ".safetensors",
]);
const skippedFolders = new Set(["node_modules", "assembly"]);

async function* filesBelow(folder) {
  let entries;
  try {
    entries = await readdir(folder, { withFileTypes: true });
  } catch {
    return;
  }
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      if (!skippedFolders.has(entry.name)) yield* filesBelow(path);
    } else yield path;
  }
}

async function writeAtomically(path, bytes) {
  await mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.${process.pid}.tmp`;
  await writeFile(temporary, bytes);
  await rename(temporary, path);
}

async function isFresh(source, target) {
  try {
    const [from, to] = await Promise.all([stat(source), stat(target)]);
    return to.mtimeMs >= from.mtimeMs;
  } catch {
    return false;
  }
}

/**
 * Whether a file of dist/ has a source. Another command may have built it after this one listed the sources.
 */
async function hasSource(name) {
  const plain = name.replace(/\.map$/, "");
  const stats = [plain, plain.replace(/\.js$/, ".ts")].map((source) => stat(join(root, source)));
  return (await Promise.allSettled(stats)).some(({ status }) => status === "fulfilled");
}

/**
 * Files of large packages of which Stemma needs only these, so that what is installed to run has none of the rest
 * (sql.js is 30 MB, swagger-ui-dist 12): their place in node_modules, and in dist/vendor.
 */
const vendored = {
  "sql.js/dist/sql-wasm.js": "sql-wasm.cjs",
  "sql.js/dist/sql-wasm.wasm": "sql-wasm.wasm",
  "swagger-ui-dist/swagger-ui.css": "swagger-ui.css",
  "swagger-ui-dist/swagger-ui-bundle.js": "swagger-ui-bundle.js",
};

/** Every source and asset below the source folders, and each vendored file, with the file that is built from it. */
async function* sources() {
  for (const [name, target] of Object.entries(vendored))
    yield {
      source: join(root, "node_modules", name),
      name: `node_modules/${name}`,
      isTypeScript: false,
      target: join(outRoot, "vendor", target),
    };
  for (const folder of sourceRoots)
    for await (const source of filesBelow(join(root, folder))) {
      const name = relative(root, source);
      const isTypeScript = name.endsWith(".ts") && !name.endsWith(".d.ts");
      // A workspace's package.json lists what is installed, and is not read when it runs.
      if (basename(name) === "package.json") continue;
      if (!isTypeScript && !assetExtensions.has(extname(name))) continue;
      yield {
        source,
        name,
        isTypeScript,
        target: join(outRoot, isTypeScript ? name.replace(/\.ts$/, ".js") : name),
      };
    }
}

async function buildFile({ source, isTypeScript, target }) {
  const bytes = await readFile(source);
  if (!isTypeScript) return writeAtomically(target, bytes);
  const { code, map } = await transform(bytes.toString("utf8"), {
    loader: "ts",
    format: "esm",
    target: "node20",
    sourcemap: true,
    sourcefile: relative(dirname(target), source),
  });
  await writeAtomically(`${target}.map`, map);
  await writeAtomically(target, `${code}//# sourceMappingURL=${target.split("/").pop()}.map\n`);
}

/** Removes files of dist/ whose source is gone. */
async function removeLeftovers(wanted) {
  const ownFolders = ["engine", "native", "probe", "bundle"].map((name) => join(outRoot, name));
  for await (const path of filesBelow(outRoot)) {
    const hasOwnSource = ownFolders.some((folder) => path.startsWith(folder));
    if (wanted.has(path) || hasOwnSource || path.endsWith(".tmp")) continue;
    if (!(await hasSource(relative(outRoot, path)))) await rm(path, { force: true });
  }
}

/** Builds everything that is stale. Returns counts and the list of files that failed. */
export async function build({ quiet = false } = {}) {
  const builderHash = createHash("sha256")
    .update(await readFile(fileURLToPath(import.meta.url)))
    .digest("hex");
  const stampPath = join(outRoot, ".built-by");
  // Another version of this program may write other bytes, so then every file is written again. It is written
  // in place, so that a program running from dist/ keeps running.
  const isSameBuilder = (await readFile(stampPath, "utf8").catch(() => "")) === builderHash;
  const wanted = new Set([stampPath]);
  const failures = [];
  let written = 0;
  for await (const file of sources()) {
    wanted.add(file.target);
    if (file.isTypeScript) wanted.add(`${file.target}.map`);
    if (isSameBuilder && (await isFresh(file.source, file.target))) continue;
    try {
      await buildFile(file);
      written++;
    } catch (error) {
      failures.push({ name: file.name, message: String(error.message ?? error) });
    }
  }
  for (const [name, buildIfStale] of [
    ["dist/engine", buildEngineIfStale],
    ["dist/native", buildNativeIfStale],
    ["dist/probe", buildProbeIfStale],
  ])
    try {
      if (await buildIfStale({ root })) written++;
    } catch (error) {
      const message = String(error.message ?? error);
      failures.push({ name, message: message.split("\n").slice(0, 2).join(" ") });
    }
  await removeLeftovers(wanted);
  try {
    await buildBundle({ root });
  } catch (error) {
    failures.push({ name: "dist/bundle", message: String(error.message ?? error).split("\n")[0] });
  }
  await writeAtomically(stampPath, builderHash);
  for (const failure of failures) console.error(`build: ${failure.name}: ${failure.message}`);
  if (!quiet) console.error(`build: ${written} files written, ${failures.length} failed`);
  return { written, failures };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { failures } = await build();
  if (failures.length > 0) process.exitCode = 1;
}
