/** A seed that fails in the state before a change, too, found a known fault; everything else stops the change. */
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { launcherModule } from "../../helpers/launcher-modules.js";
import { smallCheckout, withoutGit, type SmallCheckout } from "../../helpers/small-checkout.js";

interface SeededRun {
  readonly failed: ReadonlyMap<string, readonly string[]>;
  readonly seed: number;
  readonly say: (text: string) => void;
}
const { knownFaults, seedOfRun } = await launcherModule<{
  readonly knownFaults: (root: string, run: SeededRun) => Promise<readonly string[]>;
  readonly seedOfRun: (root: string) => { readonly seed: number; readonly from: string };
}>("launcher/tests/known-faults.mjs");

const seeded = "test/fault/crash.test.ts";
const fixed = "test/unit/fixed.test.ts";
/** Prints the failures that a file of its checkout lists for the seed. */
const launcher = `
import { readFileSync } from "node:fs";
const failures = JSON.parse(readFileSync("failures.json", "utf8"))[process.env.STEMMA_TEST_SEED] ?? [];
for (const name of failures) console.log("  ✖ " + name + " (1.5ms)");
console.log("0 passed, " + failures.length + " failed, 0 skipped");
process.exitCode = failures.length > 0 ? 1 : 0;
`;
const day = 86_400;
const start = 1_700_000_000;

/** A checkout with a change of two commits, before which the seed 7 failed in the test "loses nothing". */
function changedCheckout(t: TestContext): SmallCheckout {
  const small = smallCheckout({
    "launcher/test.mjs": launcher,
    "failures.json": '{"7":["loses nothing"]}',
    "package-lock.json": "{}",
    [seeded]: "const seed = testSeed();",
    [fixed]: "assert.ok(false);",
  });
  t.after(() => {
    small.remove();
  });
  small.git(["init", "-q", "-b", "main"]);
  small.git(["add", "."]);
  small.git(["commit", "-q", "-m", "before"], start);
  small.write({ "failures.json": '{"7":["loses nothing"],"8":["loses nothing"]}' });
  small.git(["commit", "-q", "-a", "-m", "the change"], start + day);
  small.git(["commit", "-q", "--allow-empty", "-m", "the change goes on"], start + day + 60);
  return small;
}

describe("a test that fails by its seed", { skip: withoutGit() }, () => {
  const known = (small: SmallCheckout, failed: Record<string, readonly string[]>, seed: number) =>
    knownFaults(small.root, { failed: new Map(Object.entries(failed)), seed, say: () => {} });

  it("is a known fault where it fails before the change", async (t) => {
    assert.deepEqual(await known(changedCheckout(t), { [seeded]: ["loses nothing"] }, 7), [seeded]);
  });

  it("is not where it passes before the change, although the change's first commit fails", async (t) => {
    assert.deepEqual(await known(changedCheckout(t), { [seeded]: ["loses nothing"] }, 8), []);
  });

  it("is not where another test failed before the change", async (t) => {
    assert.deepEqual(await known(changedCheckout(t), { [seeded]: ["loses nothing", "keeps order"] }, 7), []);
  });

  it("is not where its cases do not follow from the seed, or it is new", async (t) => {
    const small = changedCheckout(t);
    assert.deepEqual(await known(small, { [fixed]: ["loses nothing"] }, 7), []);
    small.write({ "test/fault/new.test.ts": "testSeed();" });
    assert.deepEqual(await known(small, { "test/fault/new.test.ts": ["loses nothing"] }, 7), []);
  });
});

it("the seed of a run follows the commit", { skip: withoutGit() }, (t) => {
  const small = changedCheckout(t);
  const commit = small.git(["rev-parse", "HEAD"]);
  const given = process.env["STEMMA_TEST_SEED"];
  // The seed of this very run is no part of the small checkout.
  delete process.env["STEMMA_TEST_SEED"];
  t.after(() => {
    if (given !== undefined) process.env["STEMMA_TEST_SEED"] = given;
  });
  assert.equal(seedOfRun(small.root).seed, parseInt(commit.slice(0, 8), 16));
});
