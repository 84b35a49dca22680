/** The stamp of a build: a command skips the build exactly as long as nothing that it reads or wrote changed. */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { launcherModule } from "../../helpers/launcher-modules.js";

interface BuildStamp {
  readonly isBuilt: (root: string, options?: { readonly withTests?: boolean }) => boolean;
  readonly removeStamp: (root: string) => void;
  readonly stateOfSources: (root: string) => Record<string, string>;
  readonly writeStamp: (root: string, sources: Record<string, string>) => void;
}

const { isBuilt, removeStamp, stateOfSources, writeStamp } =
  await launcherModule<BuildStamp>("launcher/build-stamp.mjs");

const roots: string[] = [];
after(() => {
  for (const root of roots) rmSync(root, { recursive: true, force: true });
});

/** A small checkout that was built. */
function builtCheckout(): string {
  const root = mkdtempSync(join(tmpdir(), "stemma-stamp-"));
  roots.push(root);
  for (const [name, text] of [
    ["shared/model/tree.ts", "a"],
    ["test/unit/tree.test.ts", "t"],
    ["server/cli/main.ts", "b"],
    ["launcher/build.mjs", "c"],
    ["package-lock.json", "{}"],
    ["node_modules/.stemma-installed", "d"],
    ["dist/shared/model/tree.js", "a"],
  ] as const) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  }
  writeStamp(root, stateOfSources(root));
  return root;
}

/** Sets a file's text, and its time to one that differs from the time before. */
function change(root: string, name: string, text: string): void {
  writeFileSync(join(root, name), text);
  utimesSync(join(root, name), 1_000_000, 1_000_000);
}

test("nothing changed: the build is skipped", () => {
  const root = builtCheckout();
  assert.equal(isBuilt(root), true);
  removeStamp(root);
  assert.equal(isBuilt(root), false);
});

for (const [what, alter] of [
  ["a source was edited", (root: string) => change(root, "shared/model/tree.ts", "z")],
  [
    "a source became shorter within the same millisecond",
    (root: string) => writeFileSync(join(root, "server/cli/main.ts"), ""),
  ],
  ["a source was added in a new folder", (root: string) => mkdirSync(join(root, "server/cli/more"))],
  ["a source was removed", (root: string) => rmSync(join(root, "server/cli/main.ts"))],
  ["the program that builds was edited", (root: string) => change(root, "launcher/build.mjs", "z")],
  ["the lock file was edited", (root: string) => change(root, "package-lock.json", "[]")],
  ["the packages were removed", (root: string) => rmSync(join(root, "node_modules"), { recursive: true })],
  ["an output was removed", (root: string) => rmSync(join(root, "dist/shared/model/tree.js"))],
  ["all outputs were removed", (root: string) => rmSync(join(root, "dist"), { recursive: true })],
  [
    "the stamp was cut short",
    (root: string) => writeFileSync(join(root, ".build/built.json"), '{"format":1'),
  ],
] as const)
  test(`${what}: the build runs`, () => {
    const root = builtCheckout();
    alter(root);
    assert.equal(isBuilt(root), false);
  });

test("tests that changed are built for what runs them, and not for a command", () => {
  const root = builtCheckout();
  change(root, "test/unit/tree.test.ts", "z");
  assert.equal(isBuilt(root), false);
  assert.equal(isBuilt(root, { withTests: false }), true);
  change(root, "shared/model/tree.ts", "z");
  assert.equal(isBuilt(root, { withTests: false }), false);
});

test("a source that changes while the build runs is built by the next command", () => {
  const root = builtCheckout();
  const before = stateOfSources(root);
  change(root, "shared/model/tree.ts", "edited during the build");
  writeStamp(root, before);
  assert.equal(isBuilt(root), false);
});
