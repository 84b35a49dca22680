// Which tests may notice a mutant: those that import its file, directly or through others, the nearest first.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix, relative } from "node:path";

/** Kinds of tests that call what they test in their own process. */
export const kinds = ["unit", "property", "contract"];

const importPattern = /\b(?:from|import)\s*\(?\s*"(\.{1,2}\/[^"]+)"/g;
/** Files of the later tiers take long. */
const isTest = (name) => name.endsWith(".test.js") && !/\.(?:slow|full)\.test\.js$/.test(name);

/** The files that each file of dist/ reachable from a test imports, as paths below dist/. */
export function importsOf(dist) {
  const imports = new Map();
  const waiting = kinds
    .map((kind) => join(dist, "test", kind))
    .filter((folder) => existsSync(folder))
    .flatMap((folder) =>
      readdirSync(folder, { recursive: true })
        .filter(isTest)
        .map((name) => relative(dist, join(folder, name)).replaceAll("\\", "/")),
    );
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (imports.has(file) || !existsSync(join(dist, file))) continue;
    const text = file.endsWith(".js") ? readFileSync(join(dist, file), "utf8") : "";
    const imported = [...text.matchAll(importPattern)].map(([, to]) => posix.join(dirname(file), to));
    imports.set(file, imported);
    waiting.push(...imported);
  }
  return imports;
}

/** 0: the test of that very file; 1: a test of its folder; 2: another one. */
function strangeness(test, file) {
  const [, , ...path] = test.split("/");
  const mirrored = path.join("/").replace(/(?:\.property)?\.test\.js$/, ".js");
  if (mirrored === file) return 0;
  return dirname(mirrored) === dirname(file) ? 1 : 2;
}

/**
 * The tests that import a file, the nearest first: fewest imports between, then the file's own tests, then in the order
 * of `kinds`.
 * @param imports of importsOf
 * @param file below dist/, such as server/fleet/rollout/gates.js
 */
function testsOf(imports, file) {
  const importers = new Map();
  for (const [from, targets] of imports)
    for (const target of targets) importers.set(target, [...(importers.get(target) ?? []), from]);
  const distances = new Map([[file, 0]]);
  // A map is read in the order in which it was filled, also while it is: breadth first.
  for (const [at, distance] of distances)
    for (const importer of importers.get(at) ?? [])
      if (!distances.has(importer)) distances.set(importer, distance + 1);
  return [...distances.keys()]
    .filter((name) => name.startsWith("test/") && isTest(name))
    .map((test) => ({
      test,
      rank: [distances.get(test), strangeness(test, file), kinds.indexOf(test.split("/")[1])],
    }))
    .sort(
      ({ rank: one, test }, { rank: other, test: otherTest }) =>
        one[0] - other[0] || one[1] - other[1] || one[2] - other[2] || (test < otherTest ? -1 : 1),
    )
    .map(({ test, rank: [distance] }) => ({ test, imports: distance }));
}

/** Tests that a mutant meets, where fewer import its file themselves: those further away seldom notice more. */
export const fewestTests = 6;

/** All tests that import a file themselves; where these are few, also the nearest of the others. */
export function nearestTests(imports, file) {
  const tests = testsOf(imports, file);
  const direct = tests.filter((each) => each.imports === 1).length;
  const count = Math.max(direct, fewestTests);
  return { tests: tests.slice(0, count).map(({ test }) => test), more: Math.max(0, tests.length - count) };
}
