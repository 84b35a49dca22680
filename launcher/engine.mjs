// Bundles the training engine into four files, which contain everything that decides the bits of a replay
// and are identified together by one hash. `node launcher/engine.mjs [FOLDER]` builds it into dist/engine or
// FOLDER and prints the id; with --accept the id becomes the expected one (shared/train/engine-id.json), after the
// known answer of this engine (shared/train/known-answer.ts) was computed and kept in its engine.json.
import { build } from "esbuild";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const ownRoot = dirname(dirname(fileURLToPath(import.meta.url)));
const copied = {
  "engine.json": "shared/train/engine/engine.json",
  "kernels.wasm": "shared/train/kernels/kernels.wasm",
  "tfjs-backend-wasm-simd.wasm":
    "node_modules/@tensorflow/tfjs-backend-wasm/wasm-out/tfjs-backend-wasm-simd.wasm",
};
/** Libraries whose versions a training's provenance names. */
const namedLibraries = ["@tensorflow/tfjs", "@tensorflow/tfjs-backend-wasm"];
export const engineFiles = ["engine.mjs", ...Object.keys(copied)];

// Computes the same id as shared/train/engine-id.ts (a test compares them). It is written twice because this
// program runs before anything is built.
export async function engineIdOf(folder) {
  const lines = await Promise.all(
    engineFiles.map(
      async (name) =>
        `${name}\0${createHash("sha256")
          .update(await readFile(join(folder, name)))
          .digest("hex")}\n`,
    ),
  );
  return createHash("sha256")
    .update(`stemma-engine-1\0${lines.sort().join("")}`)
    .digest("hex");
}

// Error codes of other modules do not decide bits, so the bundle has a table of its own.
const ownErrors = (root) => ({
  name: "own-errors",
  setup(plugin) {
    plugin.onResolve({ filter: /\/errors\.js$/ }, ({ path, resolveDir }) =>
      resolve(resolveDir, path) === join(root, "shared/errors.js")
        ? { path: join(root, "shared/train/engine/errors.ts") }
        : undefined,
    );
  },
});

const banner =
  'import{createRequire as stemmaCreateRequire}from"node:module";import{fileURLToPath as stemmaFileUrl}from"node:url";import{dirname as stemmaDirname}from"node:path";const require=stemmaCreateRequire(import.meta.url),__filename=stemmaFileUrl(import.meta.url),__dirname=stemmaDirname(__filename);';

// Two builds may run at the same time. Their folders are equal, so it does not matter which one stays.
async function replaceFolder(from, to) {
  for (let attempt = 1; ; attempt++) {
    await rm(to, { recursive: true, force: true });
    try {
      return await rename(from, to);
    } catch (error) {
      if (attempt === 5 || !["ENOTEMPTY", "EEXIST"].includes(error.code)) throw error;
    }
  }
}

async function libraryVersions(root) {
  const versions = namedLibraries.map(async (name) => {
    const manifest = await readFile(join(root, "node_modules", name, "package.json"), "utf8");
    return [name, JSON.parse(manifest).version];
  });
  return Object.fromEntries(await Promise.all(versions));
}

// Builds into `folder`, completely or not at all. Returns the id and the input files.
export async function buildEngine({ root = ownRoot, folder = join(root, "dist/engine") } = {}) {
  const temporary = `${folder}.${process.pid}.tmp`;
  await rm(temporary, { recursive: true, force: true });
  await mkdir(temporary, { recursive: true });
  try {
    const { metafile } = await build({
      absWorkingDir: root,
      entryPoints: ["shared/train/engine/main.ts"],
      outfile: join(temporary, "engine.mjs"),
      bundle: true,
      format: "esm",
      platform: "node",
      target: "node20",
      minify: true,
      legalComments: "none",
      sourcemap: false,
      metafile: true,
      logLevel: "silent",
      mainFields: ["module", "main"],
      banner: { js: banner },
      plugins: [ownErrors(root)],
      define: { "process.env.NODE_ENV": '"production"' },
    });
    for (const [name, source] of Object.entries(copied))
      await copyFile(join(root, source), join(temporary, name));
    const id = await engineIdOf(temporary);
    const inputs = [
      ...Object.keys(metafile.inputs),
      ...Object.values(copied),
      relative(root, fileURLToPath(import.meta.url)),
    ];
    await writeFile(join(temporary, "built-from.json"), `${JSON.stringify({ id, inputs: inputs.sort() })}\n`);
    await writeFile(join(temporary, "libraries.json"), `${JSON.stringify(await libraryVersions(root))}\n`);
    await replaceFolder(temporary, folder);
    return { id, inputs };
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

// Builds only when an input is newer than the bundle. Returns whether it did.
export async function buildEngineIfStale({ root = ownRoot } = {}) {
  const folder = join(root, "dist/engine");
  try {
    const stamp = await stat(join(folder, "built-from.json"));
    await stat(join(folder, "libraries.json"));
    const { inputs } = JSON.parse(await readFile(join(folder, "built-from.json"), "utf8"));
    const times = await Promise.all(
      [...inputs.map((input) => join(root, input)), ...engineFiles.map((name) => join(folder, name))].map(
        async (path, index) =>
          index < inputs.length ? (await stat(path)).mtimeMs : (await stat(path)).size === 0 ? Infinity : 0,
      ),
    );
    if (times.every((time) => time <= stamp.mtimeMs)) return false;
  } catch {
    /* missing or unreadable: build it */
  }
  await buildEngine({ root, folder });
  return true;
}

// Lets the engine in dist/engine compute its known answer and writes it into the engine's committed manifest. It is
// committed, so that a build on a machine that computes something else is found out.
async function acceptKnownAnswer() {
  await buildEngine();
  const script = join(ownRoot, "dist/engine/engine.mjs");
  const computing = promisify(execFile)(process.execPath, [script, "--known-answer"], { env: {} });
  const { stdout } = await computing;
  const knownAnswer = stdout.trim();
  if (!/^[0-9a-f]{64}$/.test(knownAnswer)) throw new Error(`The engine gave no known answer: ${stdout}`);
  const path = join(ownRoot, copied["engine.json"]);
  const manifest = { ...JSON.parse(await readFile(path, "utf8")), knownAnswer };
  await writeFile(path, `${JSON.stringify(manifest, undefined, 2)}\n`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv.slice(2).find((argument) => !argument.startsWith("--"));
  if (process.argv.includes("--accept")) await acceptKnownAnswer();
  const { id } = await buildEngine(folder === undefined ? {} : { folder: resolve(folder) });
  if (process.argv.includes("--accept"))
    await writeFile(join(ownRoot, "shared/train/engine-id.json"), `{ "id": "${id}" }\n`);
  console.log(id);
}
