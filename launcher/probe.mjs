// Bundles the probe into dist/probe: the engine's sources with a program that says what each layer of a model gives
// (shared/determinism/probe). It is beside the engine, not in it: it reads the engine's wasm files, and the engine's id
// knows nothing of it. `node launcher/probe.mjs [FOLDER]`.
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { nodeGpuSources } from "./native.mjs";
import { bundleBeside, isFresh } from "./side-bundle.mjs";

const ownRoot = dirname(dirname(fileURLToPath(import.meta.url)));

// Builds into `folder`, completely or not at all.
export async function buildProbe({ root = ownRoot, folder = join(root, "dist/probe") } = {}) {
  return await bundleBeside({
    root,
    folder,
    entry: "shared/determinism/probe/main.ts",
    outfile: "probe.mjs",
    plugins: [nodeGpuSources(root)],
    scripts: ["launcher/native.mjs", "launcher/probe.mjs"],
  });
}

// Builds only when an input is newer than the bundle. Returns whether it did.
export async function buildProbeIfStale({ root = ownRoot } = {}) {
  if (await isFresh(root, "probe")) return false;
  await buildProbe({ root });
  return true;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await buildProbe(process.argv[2] === undefined ? {} : { folder: resolve(process.argv[2]) });
