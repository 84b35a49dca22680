// Makes one program of Stemma as a single executable: Node with an embedded start (start.cjs) and the files that it
// unpacks. Its parts are esbuild, Node's single executable application and postject (docs/adr/0016).
import { build } from "esbuild";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFile, chmod, copyFile, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { licencesOf, loadedByName, manifestOf, packages, stagePrograms } from "../launcher/package.mjs";
import { baseNode, nodeVersion } from "./base-node.mjs";
import { writeParts } from "./parts.mjs";

const run = promisify(execFile);
const ownFolder = dirname(fileURLToPath(import.meta.url));
const root = dirname(ownFolder);
/** The mark in Node's program that postject flips: without it the program is plain Node. */
const fuse = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";
const agentMain = "dist/agent/cli/main.js";
const starts = {
  agent: { script: agentMain },
  server: { script: "dist/server/cli/main.js", other: { word: "agent", script: agentMain } },
};

/** Libraries that a program loads by name, each as one file where Node looks for it. Returns their source files. */
async function stageLoadedByName(folder) {
  const inputs = [];
  for (const name of loadedByName) {
    const { metafile } = await build({
      absWorkingDir: root,
      stdin: {
        contents: `export * from ${JSON.stringify(name)}; export { default } from ${JSON.stringify(name)};`,
        resolveDir: root,
      },
      outfile: join(folder, "node_modules", name, "index.js"),
      bundle: true,
      format: "cjs",
      platform: "node",
      target: "node20",
      minifyWhitespace: true,
      minifySyntax: true,
      legalComments: "none",
      metafile: true,
      logLevel: "error",
    });
    inputs.push(...Object.keys(metafile.inputs));
  }
  await writeFile(join(folder, "node_modules/package.json"), '{"type":"commonjs"}\n');
  return inputs;
}

/** Everything that is unpacked, in a folder. Every library is in the bundles. */
async function stage(name, { target, folder, release, licence }) {
  const { inputs } = await stagePrograms(folder, packages[name], []);
  const sources = [...Object.keys(inputs), ...(await stageLoadedByName(folder))];
  const { bin: _, ...manifest } = await manifestOf(name, packages[name]);
  const stated = { ...manifest, ...(release && { version: release }), target, node: nodeVersion };
  await writeFile(join(folder, "package.json"), `${JSON.stringify(stated, undefined, 2)}\n`);
  await writeFile(join(folder, "LICENSES.txt"), await licencesOf(sources));
  await copyFile(join(root, "LICENSE"), join(folder, "LICENSE"));
  await copyFile(licence, join(folder, "LICENSE.node.txt"));
  return { manifest: stated, sources };
}

/** What the executable carries: the list of files with their hashes, whose own hash is the id; and their bytes. */
async function contentsOf(folder, { name, script, other }) {
  const names = (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath ?? entry.path, entry.name)))
    .sort();
  const contents = await Promise.all(names.map((path) => readFile(join(folder, path))));
  let offset = 0;
  const files = contents.map((content, at) => {
    const file = {
      path: names[at],
      bytes: content.length,
      sha256: createHash("sha256").update(content).digest("hex"),
      offset,
    };
    offset += content.length;
    return file;
  });
  const id = createHash("sha256").update(JSON.stringify(files)).digest("hex").slice(0, 16);
  return { index: { name, id, script, other, bytes: offset, files }, bytes: Buffer.concat(contents) };
}

/**
 * Builds the blob with the base Node of this machine: one of the same version must write it. The blob names its main
 * script as the configuration does, so every name is relative: another checkout gives the same bytes.
 */
async function writeBlob(folder, index) {
  await writeFile(join(folder, "index.json"), JSON.stringify(index));
  await copyFile(join(ownFolder, "start.cjs"), join(folder, "start.cjs"));
  const config = {
    main: "start.cjs",
    output: "sea.blob",
    disableExperimentalSEAWarning: true,
    useSnapshot: false,
    useCodeCache: false,
    assets: { "index.json": "index.json" },
  };
  await writeFile(join(folder, "sea.json"), JSON.stringify(config));
  const { program } = await baseNode(`linux-${process.arch}`);
  await run(program, ["--experimental-sea-config", "sea.json"], { cwd: folder });
  return join(folder, config.output);
}

/**
 * Puts the blob into Node's program, and the files' bytes behind its end: the blob is mapped into memory, and pages of it
 * that were read stay there.
 * @throws where the file is still plain Node
 */
async function inject(program, { blob, bytes, path }) {
  await copyFile(program, path);
  await chmod(path, 0o755);
  const cli = join(dirname(createRequire(import.meta.url).resolve("postject/package.json")), "dist/cli.js");
  await run(process.execPath, [cli, path, "NODE_SEA_BLOB", blob, "--sentinel-fuse", fuse], {
    maxBuffer: 1e8,
  });
  const made = await readFile(path);
  if (!made.includes(`${fuse}:1`) || !made.includes((await readFile(blob)).subarray(0, 65536)))
    throw new Error(`postject left ${path} a plain Node. Install the packages again (npm ci).`);
  await appendFile(path, bytes);
}

/** Makes the executable and its list of parts in a folder. */
export async function makeExecutable({ name, target, out, release }) {
  const { command } = packages[name];
  const work = join(out, `.parts/${name}-${target}`);
  const { program, licence } = await baseNode(target);
  await rm(work, { recursive: true, force: true });
  const folder = join(work, "unpacked");
  await mkdir(folder, { recursive: true });
  const { manifest, sources } = await stage(name, { target, folder, release, licence });
  const { index, bytes } = await contentsOf(folder, { name: command, ...starts[name] });
  const blob = await writeBlob(work, index);
  const path = join(out, `${command}-${manifest.version}-${target}`);
  await rm(path, { force: true });
  await inject(program, { blob, bytes, path });
  const partsPath = await writeParts(`${path}.cdx.json`, { manifest, command, sources, path });
  const { size } = await stat(path);
  return { path, partsPath, folder, manifest, bytes: size, unpackedBytes: bytes.length };
}
