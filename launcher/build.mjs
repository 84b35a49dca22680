// Builds dist/ from the TypeScript sources: one JavaScript file per source, and a copy of every
// asset beside it (wasm, proto, JSON, HTML). Only what changed is written again. Types are checked
// by `npm run typecheck`, not here, so that a build takes a second.
import { transform } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, extname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { buildEngineIfStale } from "./engine.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
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
 * Whether a file of dist/ has a source now: one that came after the look around was built by another command,
 * and stays.
 */
async function hasSource(name) {
  const plain = name.replace(/\.map$/, "");
  for (const source of [plain, plain.replace(/\.js$/, ".ts")])
    if (
      await stat(join(root, source)).then(
        () => true,
        () => false,
      )
    )
      return true;
  return false;
}

/** Builds everything that is stale. Returns counts and the list of files that failed. */
export async function build({ quiet = false } = {}) {
  const outRoot = join(root, "dist");
  const own = createHash("sha256")
    .update(await readFile(fileURLToPath(import.meta.url)))
    .digest("hex");
  const stampPath = join(outRoot, ".built-by");
  // Another builder may write other bytes: everything is written again, in place, so that what runs from here
  // goes on.
  const sameBuilder = (await readFile(stampPath, "utf8").catch(() => "")) === own;
  const wanted = new Set([stampPath]);
  const failures = [];
  let written = 0;
  for (const folder of sourceRoots) {
    for await (const source of filesBelow(join(root, folder))) {
      const name = relative(root, source);
      const isTypeScript = name.endsWith(".ts") && !name.endsWith(".d.ts");
      if (!isTypeScript && !assetExtensions.has(extname(name))) continue;
      const target = join(outRoot, isTypeScript ? name.replace(/\.ts$/, ".js") : name);
      wanted.add(target);
      if (isTypeScript) wanted.add(`${target}.map`);
      if (sameBuilder && (await isFresh(source, target))) continue;
      const bytes = await readFile(source);
      if (!isTypeScript) {
        await writeAtomically(target, bytes);
        written++;
        continue;
      }
      try {
        const result = await transform(bytes.toString("utf8"), {
          loader: "ts",
          format: "esm",
          target: "node20",
          sourcemap: true,
          sourcefile: relative(dirname(target), source),
        });
        await writeAtomically(`${target}.map`, result.map);
        await writeAtomically(target, `${result.code}//# sourceMappingURL=${target.split("/").pop()}.map\n`);
        written++;
      } catch (error) {
        failures.push({ name, message: String(error.message ?? error) });
      }
    }
  }
  try {
    if (await buildEngineIfStale({ root })) written++;
  } catch (error) {
    failures.push({
      name: "dist/engine",
      message: String(error.message ?? error)
        .split("\n")
        .slice(0, 2)
        .join(" "),
    });
  }
  const engineFolder = join(outRoot, "engine");
  for await (const path of filesBelow(outRoot)) {
    if (
      wanted.has(path) ||
      path.startsWith(engineFolder) ||
      path.endsWith(".tmp") ||
      (await hasSource(relative(outRoot, path)))
    )
      continue;
    await rm(path, { force: true });
  }
  await writeAtomically(stampPath, own);
  for (const failure of failures) console.error(`build: ${failure.name}: ${failure.message}`);
  if (!quiet) console.error(`build: ${written} files written, ${failures.length} failed`);
  return { written, failures };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { failures } = await build();
  if (failures.length > 0) process.exitCode = 1;
}
