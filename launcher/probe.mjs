// Bundles the probe into dist/probe: the engine's sources with a program that says what each layer of a model gives
// (shared/determinism/probe). It is beside the engine, not in it: it reads the engine's wasm files, and the engine's id knows
// nothing of it. `node launcher/probe.mjs [FOLDER]`.
import { build } from "esbuild";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { banner, isFresh, nodeGpuSources } from "./native.mjs";

const ownRoot = dirname(dirname(fileURLToPath(import.meta.url)));

// Builds into `folder`, completely or not at all.
export async function buildProbe({ root = ownRoot, folder = join(root, "dist/probe") } = {}) {
  const temporary = `${folder}.${process.pid}.tmp`;
  await rm(temporary, { recursive: true, force: true });
  await mkdir(temporary, { recursive: true });
  try {
    const { metafile } = await build({
      absWorkingDir: root,
      entryPoints: ["shared/determinism/probe/main.ts"],
      outfile: join(temporary, "probe.mjs"),
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
      plugins: [nodeGpuSources(root)],
      define: { "process.env.NODE_ENV": '"production"' },
    });
    const inputs = [...Object.keys(metafile.inputs), "launcher/native.mjs", "launcher/probe.mjs"].sort();
    await writeFile(join(temporary, "built-from.json"), `${JSON.stringify({ inputs })}\n`);
    await rm(folder, { recursive: true, force: true });
    await rename(temporary, folder);
    return { inputs };
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

// Builds only when an input is newer than the bundle. Returns whether it did.
export async function buildProbeIfStale({ root = ownRoot } = {}) {
  if (await isFresh(root, "probe")) return false;
  await buildProbe({ root });
  return true;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await buildProbe(process.argv[2] === undefined ? {} : { folder: resolve(process.argv[2]) });
