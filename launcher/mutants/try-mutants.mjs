// Tries mutants: runs the nearest tests of each until one fails. Each test file runs once without a mutant, which tells
// whether it can judge, how many of its tests pass, and how long it takes.
import { transform } from "esbuild";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { withMutant } from "./generate.mjs";
import { runTest } from "./run-test.mjs";
import { importsOf, nearestTests } from "./select-tests.mjs";
import { makeWorkplace } from "./workplace.mjs";

/** A test that takes longer without a mutant judges none. */
export const longestTestMs = 20_000;
/** A mutant hangs after this time, or after so many times what the test takes without it. */
const [shortestHangMs, hangFactor] = [10_000, 5];

const compiled = (file) => file.replace(/\.ts$/, ".js");
const compile = async (text) =>
  (await transform(text, { loader: "ts", format: "esm", target: "node20" })).code;

/** Calls `act` for all items, in as many places at a time as there are. */
async function eachIn(places, items, act) {
  const waiting = [...items];
  const work = async (place) => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await act(place, item);
  };
  await Promise.all(places.map(work));
}

/** How tests end without a mutant: each runs once, when a mutant meets it first. */
class UsualResults {
  #results = new Map();
  /** Tests that cannot judge, and why. */
  unusable = [];

  /** @returns undefined where the test cannot judge */
  of(test, { folder }, seed) {
    const known = this.#results.get(test);
    if (known !== undefined) return known;
    const result = this.#run(test, folder, seed);
    this.#results.set(test, result);
    return result;
  }

  async #run(test, folder, seed) {
    const result = await runTest(folder, test, { timeoutMs: longestTestMs, seed });
    if (result.outcome === "passed" && result.passed > 0) return result;
    this.unusable.push({ test, because: result.outcome === "passed" ? "empty" : result.outcome });
    return undefined;
  }
}

/** How a mutant ended. `by`: the test that noticed it. */
async function tryMutant(workplace, mutant, { text, code, tests, usual, seed }) {
  const file = compiled(mutant.file);
  const mutated = await compile(withMutant(text, mutant)).catch(() => undefined);
  if (mutated === undefined || mutated === code) return { ...mutant, outcome: "invalid", tests: 0 };
  let tried = 0;
  for (const test of tests) {
    const without = await usual.of(test, workplace, seed);
    if (without === undefined) continue;
    tried++;
    const timeoutMs = Math.max(shortestHangMs, without.ms * hangFactor);
    workplace.place(file, mutated);
    const { outcome, passed } = await runTest(workplace.folder, test, { timeoutMs, seed });
    workplace.restore(file);
    if (outcome !== "passed" || passed !== without.passed)
      return { ...mutant, outcome: "killed", by: test, hung: outcome === "hung", tests: tried };
  }
  return { ...mutant, outcome: "survived", tests: tried };
}

/**
 * @param mutants of mutantsOf
 * @param options.root the checkout, built
 * @param options.jobs how many run at a time
 * @param options.seed of the tests that choose at random
 * @param options.onResult called after each mutant
 * @returns the mutants in their order with `outcome` (killed, survived or invalid), and the tests that could not judge
 */
export async function tryMutants(mutants, { root, jobs, seed, onResult }) {
  const imports = importsOf(join(root, "dist"));
  const sources = new Map();
  for (const file of new Set(mutants.map((mutant) => mutant.file))) {
    const text = await readFile(join(root, file), "utf8");
    sources.set(file, { text, code: await compile(text), ...nearestTests(imports, compiled(file)) });
  }
  const workplaces = [];
  try {
    for (let job = 0; job < jobs; job++) workplaces.push(makeWorkplace(root));
    const usual = new UsualResults();
    const results = new Map();
    await eachIn(workplaces, mutants, async (workplace, mutant) => {
      const result = await tryMutant(workplace, mutant, { ...sources.get(mutant.file), usual, seed });
      results.set(mutant, result);
      onResult(result);
    });
    const furtherTests = [...sources.values()].reduce((sum, { more }) => sum + more, 0);
    return { results: mutants.map((mutant) => results.get(mutant)), unusable: usual.unusable, furtherTests };
  } finally {
    for (const workplace of workplaces) workplace.remove();
  }
}
