// Bundles programs that stand beside the engine, which runs in another process: the native runner and the probe.
import { build } from "esbuild";
import { mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** What modules in CommonJS ask for, at the start of a bundle. */
const banner =
  'import{createRequire as stemmaCreateRequire}from"node:module";import{fileURLToPath as stemmaFileUrl}from"node:url";import{dirname as stemmaDirname}from"node:path";const require=stemmaCreateRequire(import.meta.url),__filename=stemmaFileUrl(import.meta.url),__dirname=stemmaDirname(__filename);';

// Bundles an entry into `folder`, completely or not at all. `addFiles` puts more beside it; `scripts` are those of this
// folder that say how.
export async function bundleBeside({ root, folder, entry, outfile, plugins, scripts, addFiles }) {
  const temporary = `${folder}.${process.pid}.tmp`;
  await rm(temporary, { recursive: true, force: true });
  await mkdir(temporary, { recursive: true });
  try {
    const { metafile } = await build({
      absWorkingDir: root,
      entryPoints: [entry],
      outfile: join(temporary, outfile),
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
      plugins,
      define: { "process.env.NODE_ENV": '"production"' },
    });
    await addFiles?.(temporary);
    const inputs = [...Object.keys(metafile.inputs), ...scripts, "launcher/side-bundle.mjs"].sort();
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
