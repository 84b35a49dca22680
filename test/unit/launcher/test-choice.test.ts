/** `npm test -- --changed`: which tests a change reaches, in which order, and what is left out and said. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it, type TestContext } from "node:test";
import { join } from "node:path";
import { checkout, launcherModule } from "../../helpers/launcher-modules.js";
import { smallCheckout, withoutGit, type SmallCheckout } from "../../helpers/small-checkout.js";

interface Change {
  readonly base: string;
  readonly names: readonly string[];
}
interface Choice {
  readonly files: readonly string[];
  readonly leftOut: readonly string[];
  readonly unused: readonly string[];
}
const { changedFiles, chooseTests } = await launcherModule<{
  readonly changedFiles: (root: string) => Change | undefined;
  readonly chooseTests: (of: { root: string; changed: readonly string[]; seconds: number }) => Choice;
}>("launcher/tests/changed.mjs");
const { grouped } = await launcherModule<{
  readonly grouped: (root: string, files: readonly string[]) => Promise<readonly string[]>;
}>("launcher/tests/files.mjs");

/** Sources, and beside each what it is built to. */
function built(sources: Readonly<Record<string, string>>): Record<string, string> {
  const files: Record<string, string> = {};
  for (const [name, text] of Object.entries(sources)) {
    files[name] = text;
    files[`dist/${name.replace(/\.ts$/, ".js")}`] = text;
  }
  return files;
}

function programAndTests(t: TestContext): SmallCheckout {
  const small = smallCheckout({
    ...built({
      "shared/deep.ts": "export const deep = 1;",
      "shared/types.ts": "export {};",
      "server/middle.ts": 'import { deep } from "../shared/deep.js"; export const middle = deep;',
      "server/main.ts": 'import { middle } from "./middle.js"; await import("./lazy.js");',
      "server/lazy.ts": "",
      "server/page.html": "<p>",
      "server/pages.ts": 'new URL("page.html", import.meta.url);',
      "test/unit/deep.test.ts": 'import { deep } from "../../shared/deep.js";',
      "test/integration/middle.test.ts": 'import "../../server/middle.js"; import "../../server/pages.js";',
      "test/fault/kills.test.ts": 'spawn(new URL("../../server/main.js", import.meta.url));',
      "test/fault/kills.slow.test.ts": 'import "../../shared/deep.js";',
      "test/helpers/markdown.ts": "",
      "test/unit/links.test.ts": 'import "../helpers/markdown.js";',
    }),
    "docs/limits.md": "# Limits",
    "launcher/start.mjs": 'spawn("dist/server/main.js");',
    "dist/firmware-profiles/profile.json": "{}",
    "dist/agent/none.json": "{}",
  });
  t.after(() => {
    small.remove();
  });
  return small;
}

describe("the tests that a change reaches", () => {
  const choose = (small: SmallCheckout, changed: readonly string[], seconds = 1000): Choice =>
    chooseTests({ root: small.root, changed, seconds });

  it("are those that import it or start a program with it, the nearest first", (t) => {
    const { files, leftOut, unused } = choose(programAndTests(t), ["shared/deep.ts"]);
    assert.deepEqual(files, [
      "dist/test/unit/deep.test.js",
      "dist/test/integration/middle.test.js",
      "dist/test/fault/kills.test.js",
    ]);
    assert.deepEqual([leftOut, unused], [[], []]);
  });

  it("include those over lazy imports, files that are read, and pages", (t) => {
    const small = programAndTests(t);
    assert.deepEqual(choose(small, ["server/lazy.ts"]).files, ["dist/test/fault/kills.test.js"]);
    assert.deepEqual(choose(small, ["server/page.html"]).files, ["dist/test/integration/middle.test.js"]);
    assert.deepEqual(choose(small, ["docs/limits.md"]).files, ["dist/test/unit/links.test.js"]);
  });

  it("are as many as the time allows, at least one, and the others are named", (t) => {
    const small = programAndTests(t);
    const { files, leftOut } = choose(small, ["shared/deep.ts"], 2);
    assert.deepEqual(files, ["dist/test/unit/deep.test.js"]);
    assert.deepEqual(leftOut, ["test/integration/middle.test.ts", "test/fault/kills.test.ts"]);
    small.write({ ".build/test-seconds.json": '{"test/unit/deep.test.ts":50}' });
    assert.equal(choose(small, ["shared/deep.ts"], 2).files.length, 1);
    assert.equal(choose(small, ["shared/deep.ts"], 60).files.length, 2);
  });

  it("are of a later tier only where the test itself changed", (t) => {
    const small = programAndTests(t);
    assert.deepEqual(choose(small, ["test/fault/kills.slow.test.ts"]).files, [
      "dist/test/fault/kills.slow.test.js",
    ]);
  });

  it("name what no test uses", (t) => {
    assert.deepEqual(choose(programAndTests(t), ["shared/types.ts", "shared/deep.ts"]).unused, [
      "shared/types.ts",
    ]);
  });
});

describe("what changed", { skip: withoutGit() }, () => {
  const names = (root: string): readonly string[] => [...(changedFiles(root)?.names ?? [])].sort();

  it("is what is committed since the merge base, and the working tree", (t) => {
    const small = smallCheckout({ ".gitignore": "dist\n", "a.ts": "1", "b.ts": "1", "c d ü.ts": "1" });
    t.after(() => {
      small.remove();
    });
    small.git(["init", "-q", "-b", "main"]);
    small.git(["add", "."]);
    small.git(["commit", "-q", "-m", "first"]);
    assert.deepEqual(names(small.root), []);
    const base = small.git(["rev-parse", "HEAD"]);
    small.git(["checkout", "-q", "-b", "work"]);
    small.write({ "b.ts": "2" });
    small.git(["mv", "c d ü.ts", "renamed.ts"]);
    small.git(["commit", "-q", "-a", "-m", "second"]);
    small.write({ "new.ts": "1", "a.ts": "2", "dist/built.js": "" });
    assert.equal(changedFiles(small.root)?.base, base);
    assert.deepEqual(names(small.root), ["a.ts", "b.ts", "c d ü.ts", "new.ts", "renamed.ts"]);
  });

  it("is not known without git", (t) => {
    const small = smallCheckout({ "a.ts": "1" });
    t.after(() => {
      small.remove();
    });
    assert.equal(changedFiles(small.root), undefined);
  });
});

it("files with a process of their own are those that change the process or have hooks for all tests", async (t) => {
  const small = smallCheckout({
    "dist/test/unit/plain.test.js": 'it("a"); describe("b", () => {\n  before(() => {});\n});',
    "dist/test/unit/reads.test.js": 'const full = process.env["FULL"] === "1";',
    "dist/test/unit/hooks.test.js": "before(() => {});",
    "dist/test/unit/sets.test.js": '  process.env["HOME"] = "/tmp";',
    "dist/test/fault/spawns.test.js": "spawn(process.execPath);",
  });
  t.after(() => {
    small.remove();
  });
  const files = ["plain", "reads", "hooks", "sets"].map((name) => `dist/test/unit/${name}.test.js`);
  assert.deepEqual(await grouped(small.root, [...files, "dist/test/fault/spawns.test.js"]), [
    "dist/test/groups/fault-01.js",
    "dist/test/unit/hooks.test.js",
    "dist/test/unit/sets.test.js",
    "dist/test/groups/unit-01.js",
  ]);
});

for (const [words, what] of [
  [["--chnged"], "an unknown option"],
  [["--tier", "fast"], "an unknown tier"],
  [["--changed", "unit/shared"], "--changed with a path"],
] as const)
  it(`${what} is refused before anything is installed or built`, () => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [join(checkout, "launcher/test.mjs"), ...words],
      {
        encoding: "utf8",
      },
    );
    assert.deepEqual([status, stdout], [2, ""]);
    assert.match(stderr, /Usage: npm test/);
  });
