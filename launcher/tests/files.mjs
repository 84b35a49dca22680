// Which test files there are, and which of them share a process.
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";

export const kinds = ["unit", "property", "contract", "integration", "simulation", "fault", "fleet"];
/** The order in which they run: a long file that begins late runs alone at the end. */
const order = ["fleet", "simulation", "fault", "contract", "integration", "property", "unit"];

/** Where a test file runs by its name: with `npm test`, after it in .ci/run, or only in .ci/full. */
export const tiers = ["quick", "slow", "full"];

export function tierOf(name) {
  const [, tier = "quick"] = /\.(slow|full)\.test\.[jt]s$/.exec(name) ?? [];
  return tier;
}

/**
 * Paths of built test files, from the checkout's root.
 * @param words the path contains one of them; empty: every file
 * @param tier only files of this tier; undefined: of every tier
 */
export async function testFiles(root, { words = [], tier } = {}) {
  const found = [];
  for (const kind of kinds) {
    const folder = join(root, "dist/test", kind);
    if (!existsSync(folder)) continue;
    for (const name of (await readdir(folder, { recursive: true })).sort()) {
      if (!name.endsWith(".test.js") || (tier !== undefined && tierOf(name) !== tier)) continue;
      const path = relative(root, join(folder, name)).replaceAll("\\", "/");
      if (words.length === 0 || words.some((word) => path.includes(word))) found.push(path);
    }
  }
  return found;
}

/** The source of a built test file: dist/test/unit/a.test.js → test/unit/a.test.ts. */
export const sourceOf = (path) => path.replace(/^dist\//, "").replace(/\.js$/, ".ts");
export const builtOf = (path) => `dist/${path.replace(/\.ts$/, ".js")}`;

/** Number of files in one process, by kind: loading what they import takes longer than most of them. */
const filesTogether = { fault: 4, integration: 5, contract: 2, property: 4, unit: 10 };
/** What a test file with a process of its own contains: hooks for all of its tests, or changes of the process itself. */
const needsOwnProcess = new RegExp(
  [
    String.raw`^(before|beforeEach|after|afterEach)\(`,
    String.raw`process\.(chdir|on|once|exit|exitCode|memoryUsage)\b`,
    String.raw`process\.env(\.\w+|\["\w+"\])? (\?\?)?= `,
    String.raw`delete process\.env|assign\(process\.env|\b(globalThis|mock)\b`,
    // A process has one backend at a time, which another file may have left running.
    String.raw`\bstartWasmBackend\(`,
  ].join("|"),
  "m",
);

/**
 * Replaces test files by files that import several of them, all before the first test runs, as loading keeps the
 * process busy. A failure still names the test's own file and line.
 */
export async function grouped(root, files) {
  const folder = join(root, "dist/test/groups");
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const alone = [];
  const together = new Map(Object.keys(filesTogether).map((kind) => [kind, []]));
  for (const file of files) {
    const list = together.get(file.split("/")[2]);
    const fits = list !== undefined && !needsOwnProcess.test(await readFile(join(root, file), "utf8"));
    (fits ? list : alone).push(file);
  }
  const groups = [];
  for (const [kind, list] of together)
    for (let at = 0; at < list.length; at += filesTogether[kind]) {
      const path = join(folder, `${kind}-${String(at / filesTogether[kind] + 1).padStart(2, "0")}.js`);
      const imports = list
        .slice(at, at + filesTogether[kind])
        .map((file) => relative(folder, join(root, file)));
      await writeFile(path, imports.map((name) => `import "./${name.replaceAll("\\", "/")}";\n`).join(""));
      groups.push(relative(root, path));
    }
  const place = (file) =>
    order.indexOf(file.includes("/groups/") ? file.split(/[/-]/)[3] : file.split("/")[2]);
  return [...alone, ...groups].sort((a, b) => place(a) - place(b));
}
