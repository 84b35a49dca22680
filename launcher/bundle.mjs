// Bundles the two command lines into dist/bundle, one file each, so that a command reads one file instead of some
// hundred when it starts. A module's code runs when something first needs it. Worker threads and child processes
// run from the single files of dist/. launcher/run-bundle.mjs runs a bundle.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const ownRoot = dirname(dirname(fileURLToPath(import.meta.url)));

/** Packages that read files of their own or start threads, and those that no short command loads. */
export const external = ["@tensorflow/*", "aedes", "fastify", "mqtt", "pino", "prom-client", "protobufjs"];

// The bundle's URL is not that of the source file, so a source file that asks for its own gets that of its single
// file in dist/.
export const ownUrls = (root) => ({
  name: "own-urls",
  setup(plugin) {
    plugin.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      const name = relative(root, path).replaceAll("\\", "/").replace(/\.ts$/, ".js");
      const url = `new URL(${JSON.stringify(`../${name}`)}, stemmaBundleUrl).href`;
      return { contents: text.replaceAll("import.meta.url", url), loader: "ts" };
    });
  },
});
const banner = 'const stemmaBundleUrl=require("node:url").pathToFileURL(__filename).href;';

// zod brings its messages in fifty languages, half of its size, of which a command reads English ones only.
export const englishOnly = {
  name: "english-only",
  setup(plugin) {
    plugin.onLoad({ filter: /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, () => ({
      contents: 'export { default as en } from "./en.js";',
      loader: "js",
    }));
  },
};

/** run-bundle.mjs reads bundles as ASCII. esbuild escapes other characters in strings, but not in regular expressions. */
function requireAscii(name, code) {
  const at = code.findIndex((byte) => byte > 127);
  if (at < 0) return;
  const around = code.subarray(Math.max(0, at - 60), at + 20).toString("utf8");
  throw new Error(
    `The bundle ${name} would have a character beyond ASCII, at: ${around}\nWrite it as \\uXXXX in its source: it is ` +
      "in a regular expression or in String.raw.",
  );
}

/**
 * Moves a build into its folder. Each file ends with the hash of its content, by which run-bundle.mjs knows whether
 * compiled code belongs to it.
 */
async function install(from, to) {
  await mkdir(to, { recursive: true });
  const built = await readdir(from);
  for (const name of built) {
    const path = join(from, name);
    const code = await readFile(path);
    requireAscii(name, code);
    await writeFile(path, `${code}//${createHash("sha256").update(code).digest("hex")}\n`);
    await rename(path, join(to, name));
  }
  for (const name of await readdir(to)) if (!built.includes(name)) await rm(join(to, name), { force: true });
}

const programs = { stemma: "server/cli/main.ts", agent: "agent/cli/main.ts" };

/** @param names which of the two; a device has the agent's alone */
export async function buildBundle({
  root = ownRoot,
  folder = join(root, "dist/bundle"),
  names = Object.keys(programs),
} = {}) {
  const temporary = `${folder}.${process.pid}.tmp`;
  await rm(temporary, { recursive: true, force: true });
  try {
    await build({
      absWorkingDir: root,
      entryPoints: Object.fromEntries(names.map((name) => [name, programs[name]])),
      outdir: temporary,
      outExtension: { ".js": ".cjs" },
      bundle: true,
      // Modules of this form are wrapped, so that each runs only when it is needed; external packages too.
      format: "cjs",
      // On Node 20 code that was compiled earlier cannot load a module by import(), so what is outside the bundle
      // is loaded by require there.
      supported: { "dynamic-import": false },
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
