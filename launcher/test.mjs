// npm test: prepares the checkout, checks the types, runs the tests of the quick tier, and reports how long it took.
//   npm test -- unit/shared/tensor      only test files whose path contains one of the given texts, of every tier
//   npm test -- --changed               the nearest tests of what changed since the merge base, for two minutes
// Tests that choose at random follow the commit; STEMMA_TEST_SEED is another seed, STEMMA_TEST_FULL=1 the full counts.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { prepare, root } from "./prepare.mjs";
import { changedFiles, chooseTests } from "./tests/changed.mjs";
import { grouped, kinds, sourceOf, testFiles, tiers } from "./tests/files.mjs";
import { knownFaults, seedOfRun } from "./tests/known-faults.mjs";
import { runTests } from "./tests/run.mjs";

/** Of --changed, added up over two processes. */
const secondsOfChanged = 240;
const usage = `npm test -- [--changed] [--tier ${tiers.join("|")}] [--no-types] [TEXT IN A PATH …]`;

function refuse(text) {
  console.error(`stemma: ${text}\nUsage: ${usage}`);
  process.exit(2);
}

function readOptions() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        changed: { type: "boolean", default: false },
        tier: { type: "string" },
        "no-types": { type: "boolean", default: false },
      },
    });
    if (values.tier !== undefined && !tiers.includes(values.tier))
      refuse(`there is no tier "${values.tier}".`);
    if (values.changed && (positionals.length > 0 || values.tier !== undefined))
      refuse("--changed chooses the tests itself; leave out the paths and --tier.");
    return { words: positionals, ...values };
  } catch (error) {
    return refuse(error.message);
  }
}

const seconds = (since) => ((Date.now() - since) / 1000).toFixed(1);

/** Whether the types are right. The compiler uses one core, so the first tests run meanwhile. */
function checkTypes() {
  const since = Date.now();
  return new Promise((resolve) => {
    const compiler = join(root, "node_modules/typescript/bin/tsc");
    const child = spawn(process.execPath, [compiler, "-p", "tsconfig.json", "--noEmit"], {
      cwd: root,
      stdio: ["ignore", "inherit", "inherit"],
    });
    child.on("close", (code) => {
      console.error(`stemma: types ${code === 0 ? "checked" : "are wrong"} in ${seconds(since)} s`);
      resolve(code === 0);
    });
  });
}

/** The nearest tests of what changed; all tests of the quick tier without git. */
async function filesOfChange() {
  const change = changedFiles(root);
  if (change === undefined) {
    console.error("stemma: this is not a git checkout, so nothing says what changed; running all tests.");
    return { files: await testFiles(root, { tier: "quick" }), leftOut: [] };
  }
  const { files, leftOut, unused } = chooseTests({ root, changed: change.names, seconds: secondsOfChanged });
  console.error(
    `stemma: ${change.names.length} files changed since ${change.base.slice(0, 8)}; ` +
      `running the nearest ${files.length} of ${files.length + leftOut.length} test files that use them`,
  );
  for (const name of unused) console.error(`stemma: no test uses ${name}`);
  return { files, leftOut };
}

/** The built test files to run, and sources of those that use a change and are left out. */
async function filesOfRun({ changed, words, tier }) {
  if (changed) return filesOfChange();
  const files = await testFiles(root, { words, tier: tier ?? (words.length === 0 ? "quick" : undefined) });
  if (files.length === 0)
    refuse(`no test file matches ${words.join(" ") || tier}; the folders are ${kinds.join(", ")}.`);
  return { files, leftOut: [] };
}

/** Whether every failure is a fault that the same seed finds before the change. Looked at by CI only. */
async function areKnown(failed, seed) {
  if (process.env.CI !== "true") return false;
  const known = await knownFaults(root, { failed, seed, say: console.error });
  for (const file of known)
    console.error(`stemma: known fault: ${file} fails with the seed ${seed} before this change, too`);
  return failed.size > 0 && known.length === failed.size;
}

/** Runs the tests, and the compiler meanwhile. Returns what they counted, and whether the types are right. */
async function runAll(options, files, seed) {
  // What tests put into the folder for temporary files, also those that are killed, goes with this folder.
  const { TMPDIR: usual = tmpdir() } = process.env;
  const temporary = await mkdtemp(join(usual, "stemma-t-"));
  Object.assign(process.env, { STEMMA_TEST_SEED: String(seed), TMPDIR: temporary });
  process.env.FORCE_COLOR ??= process.stdout.isTTY ? "1" : "0";
  try {
    const typesAreRight = options["no-types"] || options.words.length > 0 || checkTypes();
    // Files of later tiers are long: several of them in a process would only end later.
    const isQuickTier =
      options.words.length === 0 && !options.changed && (options.tier ?? "quick") === "quick";
    const results = await runTests(root, isQuickTier ? await grouped(root, files) : files);
    return { ...results, typesAreRight: await typesAreRight };
  } finally {
    process.env.TMPDIR = usual;
    // Programs that a test left, as one that was ended, may still write into it.
    await rm(temporary, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function main() {
  const began = Date.now();
  const options = readOptions();
  if (options.words.length === 0 && !options.changed && options.tier === undefined)
    console.error("stemma: the test suite takes about 8 minutes on two cores.");
  await prepare();
  const { files, leftOut } = await filesOfRun(options);
  if (files.length === 0) console.error("stemma: no test uses what changed; nothing is tested.");
  const { seed, from } = seedOfRun(root);
  console.error(`stemma: tests that choose at random start from STEMMA_TEST_SEED=${seed} (${from})`);
  const since = Date.now();
  const { totals, failed, typesAreRight } = await runAll(options, files, seed);
  const failures = totals.fail + totals.cancelled;
  const isFailure = failures > 0 && !(await areKnown(failed, seed));
  for (const name of leftOut) console.error(`stemma: left out: ${name}`);
  for (const name of failed.keys())
    console.error(`stemma: failed: npm test -- ${name.replace(/\.test\.ts$/, "")}`);
  console.error(
    `stemma: tests of ${files.length} files in ${seconds(since)} s, everything in ${seconds(began)} s`,
  );
  console.log(`${totals.pass} passed, ${failures} failed, ${totals.skipped} skipped`);
  if (!typesAreRight)
    console.error(
      "stemma: the types are wrong; the compiler's lines are above, npm run typecheck prints them alone",
    );
  process.exitCode = isFailure || !typesAreRight ? 1 : 0;
}

await main();
