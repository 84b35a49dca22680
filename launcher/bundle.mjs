// Bundles the two command lines into dist/bundle, so that a command reads a few files instead of some hundred
// when it starts. What a command imports dynamically becomes a chunk that is read when it is needed. Programs
// that run for long, worker threads and child processes run from the single files of dist/.
import { build } from "esbuild";
import { mkdir, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const ownRoot = dirname(dirname(fileURLToPath(import.meta.url)));

/** Packages that read files of their own or start threads, and those that no short command loads. */
const external = [
  "@tensorflow/*",
  "aedes",
  "fastify",
  "mqtt",
  "nedb-promises",
  "pino",
  "prom-client",
  "protobufjs",
];

// A chunk's URL is not that of the source file, so a source file that asks for its own gets that of its single
// file in dist/.
const ownUrls = (root) => ({
  name: "own-urls",
  setup(plugin) {
    plugin.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      const name = relative(root, path).replaceAll("\\", "/").replace(/\.ts$/, ".js");
      const url = `new URL(${JSON.stringify(`../${name}`)}, import.meta.url).href`;
      return { contents: text.replaceAll("import.meta.url", url), loader: "ts" };
    });
  },
});

// zod brings its messages in fifty languages, half of its size, of which a command reads English ones only.
const englishOnly = {
  name: "english-only",
  setup(plugin) {
    plugin.onLoad({ filter: /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, () => ({
      contents: 'export { default as en } from "./en.js";',
      loader: "js",
    }));
  },
};

// What CommonJS packages in the bundle call.
const banner =
  'import{createRequire as stemmaCreateRequire}from"node:module";const require=stemmaCreateRequire(import.meta.url);';

/** Chunks of former builds stay this long, because a command that is running may still import them. */
const keepChunksMs = 24 * 3_600_000;
const entries = ["stemma.js", "agent.js"];

/** Moves a build into its folder: chunks first, whose names are their content's, then the entries. */
async function install(from, to) {
  await mkdir(to, { recursive: true });
  const built = (await readdir(from)).sort((a, b) => entries.indexOf(a) - entries.indexOf(b));
  for (const name of built) await rename(join(from, name), join(to, name));
  for (const name of await readdir(to)) {
    if (built.includes(name)) continue;
    const { mtimeMs } = await stat(join(to, name));
    if (Date.now() - mtimeMs > keepChunksMs) await rm(join(to, name), { force: true });
  }
}

export async function buildBundle({ root = ownRoot, folder = join(root, "dist/bundle") } = {}) {
  const temporary = `${folder}.${process.pid}.tmp`;
  await rm(temporary, { recursive: true, force: true });
  try {
    await build({
      absWorkingDir: root,
      entryPoints: { stemma: "server/cli/main.ts", agent: "agent/cli/main.ts" },
      outdir: temporary,
      bundle: true,
      splitting: true,
      format: "esm",
      platform: "node",
      target: "node20",
      minifyWhitespace: true,
      minifySyntax: true,
      legalComments: "none",
      sourcemap: false,
      logLevel: "silent",
      external,
      mainFields: ["module", "main"],
      banner: { js: banner },
      plugins: [ownUrls(root), englishOnly],
    });
    await install(temporary, folder);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildBundle();
