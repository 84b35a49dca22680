// Bundles the native runner into dist/native: the engine's program with the backend of @tensorflow/tfjs-node-gpu in the
// place of WebAssembly, and what `stemma agent backend link` compiles the binding from. It is beside the engine, not in
// it: the engine's id knows nothing of it. `node launcher/native.mjs [FOLDER]`.
import { build } from "esbuild";
import { cp, mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const ownRoot = dirname(dirname(fileURLToPath(import.meta.url)));
const binding = "node_modules/@tensorflow/tfjs-node-gpu";
/** Files and folders beside the bundle. */
const copied = {
  binding: `${binding}/binding`,
  include: "node_modules/node-api-headers/include",
};
/** Libraries whose versions a training's environment names. */
const namedLibraries = ["@tensorflow/tfjs", "@tensorflow/tfjs-node-gpu"];

/** Modules of the engine that the runner has others for. */
const replaced = {
  "shared/errors.js": "shared/train/engine/errors.ts",
  "shared/train/backends/wasm.js": "shared/train/native/replaced-wasm.ts",
  "shared/train/backends/choose.js": "shared/train/native/replaced-choice.ts",
  "shared/train/engine/member-pool.js": "shared/train/native/replaced-pools.ts",
  "shared/train/engine-id.js": "shared/train/native/replaced-engine-id.ts",
  "shared/train/known-answer.js": "shared/train/native/replaced-known-answer.ts",
};

const replaceModules = (root) => ({
  name: "replace-modules",
  setup(plugin) {
    plugin.onResolve({ filter: /\.js$/ }, ({ path, importer, resolveDir }) => {
      const name = resolve(resolveDir, path).slice(root.length + 1);
      const other = Object.hasOwn(replaced, name) ? join(root, replaced[name]) : undefined;
      // What replaces a module may use it.
      const mayUse = importer === other || importer === join(root, "shared/train/native/probe.ts");
      return other === undefined || (mayUse && name.endsWith("known-answer.js"))
        ? undefined
        : { path: other };
    });
  },
});

/** The sources of the backend, as a bundle can have them. */
export const nodeGpuSources = (root) => ({
  name: "node-gpu-sources",
  setup(plugin) {
    // Its compiled code has classes of ECMAScript 5, which cannot extend those of TensorFlow.js in a bundle.
    plugin.onResolve({ filter: /^@tensorflow\/tfjs-node-gpu\/dist\// }, ({ path }) => ({
      path: join(root, "node_modules", path.replace("/dist/", "/src/").replace(/\.js$/, ".ts")),
    }));
    plugin.onResolve({ filter: /^util$/ }, ({ importer }) =>
      importer.includes(`${binding}/src/`)
        ? { path: join(root, "shared/train/native/replaced-util.ts") }
        : undefined,
    );
  },
});

/** What modules in CommonJS ask for, at the start of a bundle. */
export const banner =
  'import{createRequire as stemmaCreateRequire}from"node:module";import{fileURLToPath as stemmaFileUrl}from"node:url";import{dirname as stemmaDirname}from"node:path";const require=stemmaCreateRequire(import.meta.url),__filename=stemmaFileUrl(import.meta.url),__dirname=stemmaDirname(__filename);';

async function libraryVersions(root) {
  const versions = namedLibraries.map(async (name) => {
    const manifest = await readFile(join(root, "node_modules", name, "package.json"), "utf8");
    return [name, JSON.parse(manifest).version];
  });
  return Object.fromEntries(await Promise.all(versions));
}

// Builds into `folder`, completely or not at all.
export async function buildNative({ root = ownRoot, folder = join(root, "dist/native") } = {}) {
  const temporary = `${folder}.${process.pid}.tmp`;
  await rm(temporary, { recursive: true, force: true });
  await mkdir(temporary, { recursive: true });
  try {
    const { metafile } = await build({
      absWorkingDir: root,
      entryPoints: ["shared/train/native/main.ts"],
      outfile: join(temporary, "engine.mjs"),
      bundle: true,
      format: "esm",
      platform: "node",
      target: "node20",
      minify: true,
      legalComments: "none",
      metafile: true,
      logLevel: "silent",
      mainFields: ["module", "main"],
      banner: { js: banner },
      plugins: [replaceModules(root), nodeGpuSources(root)],
      define: { "process.env.NODE_ENV": '"production"' },
    });
    for (const [name, source] of Object.entries(copied))
      await cp(join(root, source), join(temporary, name), { recursive: true });
    await writeFile(join(temporary, "libraries.json"), `${JSON.stringify(await libraryVersions(root))}\n`);
    const inputs = [...Object.keys(metafile.inputs), "launcher/native.mjs"].sort();
    await writeFile(join(temporary, "built-from.json"), `${JSON.stringify({ inputs })}\n`);
    await rm(folder, { recursive: true, force: true });
    await rename(temporary, folder);
    return { inputs };
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

// True if no input of the bundle in dist/`name` is newer than it.
export async function isFresh(root, name) {
  const stampPath = join(root, `dist/${name}/built-from.json`);
  try {
    const { mtimeMs } = await stat(stampPath);
    const { inputs } = JSON.parse(await readFile(stampPath, "utf8"));
    const times = await Promise.all(inputs.map(async (input) => (await stat(join(root, input))).mtimeMs));
    return times.every((time) => time <= mtimeMs);
  } catch {
    // Missing or unreadable: it is built.
    return false;
  }
}

// Builds only when an input is newer than the bundle. Returns whether it did.
export async function buildNativeIfStale({ root = ownRoot } = {}) {
  if (await isFresh(root, "native")) return false;
  await buildNative({ root });
  return true;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await buildNative(process.argv[2] === undefined ? {} : { folder: resolve(process.argv[2]) });
