// npm run package [-- FOLDER]: makes what is installed on a device and on a server, each by itself: out/agent and out/server, and a
// .tgz of each (or in FOLDER). A package has the program in bundles, the training engine and the assets that the program reads, in the
// layout of dist/, and the libraries that stay outside bundles in its node_modules, as the lock file pins them: unpacked,
// it runs with Node alone. `npm run package -- --target …` makes single executables of the same parts (packaging/main.mjs).
import { build } from "esbuild";
import { execFile } from "node:child_process";
import { cp, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { isBuiltin } from "node:module";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { buildBundle, englishOnly, external, ownUrls } from "./bundle.mjs";
import { engineFiles, engineIdOf } from "./engine.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
/** Libraries that a program loads by name when it first needs them, so that a bundle cannot have them. */
export const loadedByName = ["string-width", "yaml"];
const agentPrograms = [
  "agent/cli/main.ts",
  "shared/objects/decoding/decoding-thread.ts",
  "shared/save/header-thread.ts",
  "shared/wire/coding/coder-thread.ts",
];
/** Compiled on the machine that records what a program draws, or lists its libraries. */
const recorderSources = ["recorder.c", "launch.c", "libraries.c"].map(
  (name) => `shared/determinism/recorder/${name}`,
);
/** For each package: programs and threads (their files keep their place in dist/), assets, and command. */
export const packages = {
  agent: {
    programs: agentPrograms,
    assets: ["firmware-profiles", "shared/delta/kernels/delta.wasm", ...recorderSources],
    bundles: ["agent"],
    command: "stemma-agent",
    description:
      "The agent of Stemma: trains on a device, reports how its models changed, runs what is rolled out",
  },
  server: {
    programs: [
      "server/cli/main.ts",
      "server/storage/archive/plan-worker.ts",
      "server/services/data/query-worker.ts",
      "server/learning/progressive/decide-thread.ts",
      "agent/simulation/main.ts",
      ...agentPrograms,
    ],
    assets: ["firmware-profiles", "shared/delta/kernels/delta.wasm", "vendor", "probe", ...recorderSources],
    bundles: ["stemma", "agent"],
    command: "stemma",
    description: "The server of Stemma with its embedded broker, and its command line",
  },
};

/**
 * Programs as ES modules in dist/programs, of which each is loaded when it is first needed, and at the place that a
 * program has in dist/ of a checkout, a line that loads it from there.
 */
async function bundlePrograms(programs, folder, outside) {
  const bundleFolder = join(folder, "dist/programs");
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: Object.fromEntries(programs.map((name) => [nameInBundle(name), name])),
    outdir: bundleFolder,
    outExtension: { ".js": ".mjs" },
    chunkNames: "part-[hash]",
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    minifyWhitespace: true,
    minifySyntax: true,
    legalComments: "none",
    metafile: true,
    logLevel: "silent",
    external: [...outside, ...loadedByName],
    mainFields: ["module", "main"],
    // Packages in CommonJS ask for Node's modules by `require`.
    banner: {
      js: 'import{createRequire as stemmaCreateRequire}from"node:module";const require=stemmaCreateRequire(import.meta.url),stemmaBundleUrl=import.meta.url;',
    },
    plugins: [ownUrls(root), englishOnly],
  });
  for (const name of programs) {
    const path = join(folder, "dist", name.replace(/\.ts$/, ".js"));
    await mkdir(dirname(path), { recursive: true });
    const target = relative(dirname(path), join(bundleFolder, `${nameInBundle(name)}.mjs`));
    await writeFile(path, `import ${JSON.stringify(target.startsWith(".") ? target : `./${target}`)};\n`);
  }
  return metafile;
}

const nameInBundle = (program) => program.replace(/\.ts$/, "").replaceAll("/", "-");

/** The package that a file below node_modules belongs to: its folder. */
const packageFolder = (path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];

/** Folders of the libraries that these source files of a bundle belong to. */
export const libraryFolders = (inputs) =>
  [...new Set(inputs.map(packageFolder).filter((folder) => folder !== undefined))].sort();

/** Licences of what the bundles contain, of which nothing else in the package says so. */
export async function licencesOf(inputs) {
  const folders = libraryFolders(inputs);
  const texts = await Promise.all(
    folders.map(async (folder) => {
      const { name, version, license } = JSON.parse(
        await readFile(join(root, folder, "package.json"), "utf8"),
      );
      const files = (await readdir(join(root, folder))).filter((file) => /^(licen[cs]e|notice)/i.test(file));
      const parts = await Promise.all(files.map((file) => readFile(join(root, folder, file), "utf8")));
      return `${name} ${version} (${license})\n\n${parts.join("\n")}`;
    }),
  );
  return `Parts of these libraries are in this package.\n\n${texts.join(`\n${"-".repeat(80)}\n`)}`;
}

/** Where a package finds another by name: the nearest node_modules above it, as in Node. */
function find(locked, from, name) {
  for (let base = from; ; base = base.slice(0, Math.max(0, base.lastIndexOf("/node_modules/")))) {
    const path = base === "" ? `node_modules/${name}` : `${base}/node_modules/${name}`;
    if (path in locked) return path;
    if (base === "") return undefined;
  }
}

/** Folders of these libraries and of what they depend on, by the checkout's lock file. Types are only for compilers. */
function foldersOf(locked, names) {
  const found = new Set();
  const add = (from, name) => {
    const path = find(locked, from, name);
    if (path === undefined || found.has(path) || name.startsWith("@types/")) return;
    found.add(path);
    const { dependencies = {}, optionalDependencies = {} } = locked[path];
    for (const each of Object.keys({ ...dependencies, ...optionalDependencies })) add(path, each);
  };
  for (const name of names) add("", name);
  return [...found];
}

/** Names of the libraries that a build left outside. */
function librariesOf({ outputs }) {
  const paths = Object.values(outputs).flatMap(({ imports }) =>
    imports.filter(({ external }) => external).map(({ path }) => path),
  );
  const names = [...paths, ...loadedByName].map((path) => packageName.exec(path)?.[0]);
  // A library may ask for a module of a later Node, where there is one.
  return [...new Set(names)].filter((name) => !name.startsWith("node:") && !isBuiltin(name)).sort();
}
const packageName = /^(?:@[^/]+\/)?[^/]+/;

/** Copies libraries with all that they need, so that a device needs neither npm nor a registry. */
async function copyLibraries(names, locked, folder) {
  for (const path of foldersOf(locked, names))
    await cp(join(root, path), join(folder, path), {
      recursive: true,
      // What a library has below itself is in the list, too, where it is needed.
      filter: (source) => !source.endsWith(".map") && basename(source) !== "node_modules",
    });
}

/** Of the checkout, by which `doctor` finds a clock that is behind. The same commit gives the same package. */
async function dateOfCommit() {
  const { SOURCE_DATE_EPOCH: epoch } = process.env;
  if (epoch !== undefined) return new Date(Number(epoch) * 1000).toISOString();
  const seconds = await run("git", ["log", "-1", "--format=%ct"], { cwd: root }).catch(() => undefined);
  return new Date(seconds === undefined ? Date.now() : Number(seconds.stdout) * 1000).toISOString();
}

/** The commit of the checkout, with a "+" where files differ from it; undefined outside of git. */
async function commitOf() {
  const git = async (...args) => (await run("git", args, { cwd: root })).stdout.trim();
  try {
    const changed = await git("status", "--porcelain", "--untracked-files=no");
    return `${await git("rev-parse", "HEAD")}${changed === "" ? "" : "+"}`;
  } catch {
    return undefined;
  }
}

/** Programs, engine and assets in the layout of dist/. @param outside libraries that bundles do not contain */
export async function stagePrograms(folder, { programs, assets }, outside = external) {
  await rm(folder, { recursive: true, force: true });
  const metafile = await bundlePrograms(programs, folder, outside);
  for (const asset of assets)
    await cp(join(root, "dist", asset), join(folder, "dist", asset), {
      recursive: true,
      filter: (path) => !/\.map$|built-from\.json$/.test(path),
    });
  await mkdir(join(folder, "dist/engine"), { recursive: true });
  for (const file of [...engineFiles, "libraries.json"])
    await cp(join(root, "dist/engine", file), join(folder, "dist/engine", file));
  await cp(join(root, "dist/native"), join(folder, "dist/native"), {
    recursive: true,
    filter: (path) => !path.endsWith("built-from.json"),
  });
  return metafile;
}

/** The members of a package's package.json that say what it is. */
export async function manifestOf(name, { description, command }) {
  const checkout = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  return {
    name: `@stemma/${name}`,
    version: checkout.version,
    date: await dateOfCommit(),
    commit: await commitOf(),
    engine: await engineIdOf(join(root, "dist/engine")),
    description,
    license: checkout.license,
    type: "module",
    engines: checkout.engines,
    bin: { [command]: `bin/${command}` },
  };
}

async function stage(name, contents, out) {
  const { bundles, command } = contents;
  const folder = join(out, name);
  const metafile = await stagePrograms(folder, contents);
  await buildBundle({ root, folder: join(folder, "dist/bundle"), names: bundles });
  const { packages: locked } = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8"));
  const libraries = librariesOf(metafile);
  await copyLibraries(libraries, locked, folder);
  await writeJson(join(folder, "package.json"), {
    ...(await manifestOf(name, contents)),
    dependencies: Object.fromEntries(libraries.map((each) => [each, locked[`node_modules/${each}`].version])),
    bundleDependencies: true,
  });
  await writeFile(join(folder, "LICENSES.txt"), await licencesOf(Object.keys(metafile.inputs)));
  await cp(join(root, "LICENSE"), join(folder, "LICENSE"));
  await mkdir(join(folder, "bin"), { recursive: true });
  await cp(join(root, "launcher/run-bundle.mjs"), join(folder, "bin/run-bundle.mjs"));
  await writeFile(join(folder, "bin", command), commandText(name), { mode: 0o755 });
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", "..", "."], { cwd: folder });
  return { folder, file: join(out, JSON.parse(stdout)[0].filename), libraries: libraries.length };
}

const run = promisify(execFile);
const writeJson = (path, value) => writeFile(path, `${JSON.stringify(value, undefined, 2)}\n`);

/** The program that npm links into the path. The server's runs the agent's commands, too. */
const commandText = (name) => `#!/usr/bin/env node
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { runProgram } from "./run-bundle.mjs";

${
  name === "agent"
    ? `const program = "agent";
globalThis[Symbol.for("stemma.command")] = "stemma-agent";`
    : `const program = process.argv[2] === "agent" ? "agent" : "stemma";
if (program === "agent") process.argv.splice(2, 1);`
}
await runProgram(dirname(dirname(fileURLToPath(import.meta.url))), program);
`;

export async function makePackages(out = join(root, "out")) {
  for (const [name, contents] of Object.entries(packages)) {
    const { file, libraries } = await stage(name, contents, out);
    const { size } = await stat(file);
    console.log(
      `${relative(process.cwd(), file)}  ${(size / 1e6).toFixed(1)} MB, ${libraries} libraries outside its bundles`,
    );
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await makePackages(process.argv[2] && resolve(process.argv[2]));
