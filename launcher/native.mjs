// Bundles the native runner into dist/native: the engine's program with the backend of @tensorflow/tfjs-node-gpu in the
// place of WebAssembly, and what `stemma agent backend link` compiles the binding from. It is beside the engine, not in
// it: the engine's id knows nothing of it. `node launcher/native.mjs [FOLDER]`.
import { cp, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleBeside, isFresh } from "./side-bundle.mjs";

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

async function libraryVersions(root) {
  const versions = namedLibraries.map(async (name) => {
    const manifest = await readFile(join(root, "node_modules", name, "package.json"), "utf8");
    return [name, JSON.parse(manifest).version];
  });
  return Object.fromEntries(await Promise.all(versions));
}

// Builds into `folder`, completely or not at all.
export async function buildNative({ root = ownRoot, folder = join(root, "dist/native") } = {}) {
  return await bundleBeside({
    root,
    folder,
    entry: "shared/train/native/main.ts",
    outfile: "engine.mjs",
    plugins: [replaceModules(root), nodeGpuSources(root)],
    scripts: ["launcher/native.mjs"],
    addFiles: async (temporary) => {
      for (const [name, source] of Object.entries(copied))
        await cp(join(root, source), join(temporary, name), { recursive: true });
      await writeFile(join(temporary, "libraries.json"), `${JSON.stringify(await libraryVersions(root))}\n`);
    },
  });
}

// Builds only when an input is newer than the bundle. Returns whether it did.
export async function buildNativeIfStale({ root = ownRoot } = {}) {
  if (await isFresh(root, "native")) return false;
  await buildNative({ root });
  return true;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await buildNative(process.argv[2] === undefined ? {} : { folder: resolve(process.argv[2]) });
