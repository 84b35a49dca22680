/** The choice of tests for a mutant: by the imports of built files, the nearest first. */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { it, type TestContext } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

interface SelectTests {
  readonly importsOf: (dist: string) => ReadonlyMap<string, readonly string[]>;
  readonly nearestTests: (
    imports: ReadonlyMap<string, readonly string[]>,
    file: string,
  ) => { readonly tests: readonly string[]; readonly more: number };
}

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../../../..");
const { importsOf, nearestTests } = (await import(
  pathToFileURL(join(root, "launcher/mutants/select-tests.mjs")).href
)) as SelectTests;

/** A folder of built files. */
function distOf(context: TestContext, files: Readonly<Record<string, string>>): string {
  const dist = mkdtempSync(join(tmpdir(), "stemma-dist-"));
  context.after(() => rmSync(dist, { recursive: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dist, name)), { recursive: true });
    writeFileSync(join(dist, name), text);
  }
  return dist;
}

const gates = "server/fleet/rollout/gates.js";

it("takes the tests that import a file: fewest imports between, its own test, its folder's, then by kind", (context) => {
  const imports = importsOf(
    distOf(context, {
      [gates]: 'import { a } from "../../tree.js";',
      "server/tree.js": "",
      "server/judge.js": 'import {\n  b\n} from "./fleet/rollout/gates.js";',
      "test/helpers/fleet.js": 'export * from "../../server/judge.js";',
      "test/unit/far.test.js": 'import "../helpers/fleet.js";',
      "test/property/server/plans.test.js": 'import { c } from "../../../server/fleet/rollout/gates.js";',
      "test/unit/server/plans.test.js": 'const c = await import("../../../server/fleet/rollout/gates.js");',
      "test/unit/server/fleet/rollout/waves.test.js":
        'import { c } from "../../../../../server/fleet/rollout/gates.js";',
      "test/unit/server/fleet/rollout/gates.test.js":
        'import { c } from "../../../../../server/fleet/rollout/gates.js";',
      "test/unit/server/judge.test.js": 'import { d } from "../../../server/judge.js";',
      "test/unit/server/tree.test.js": 'import { e } from "../../../server/tree.js";',
    }),
  );
  assert.deepEqual(nearestTests(imports, gates).tests, [
    "test/unit/server/fleet/rollout/gates.test.js",
    "test/unit/server/fleet/rollout/waves.test.js",
    "test/unit/server/plans.test.js",
    "test/property/server/plans.test.js",
    "test/unit/server/judge.test.js",
    "test/unit/far.test.js",
  ]);
});

it("takes neither whole programs nor tests of later tiers, and none where nothing imports the file", (context) => {
  const text = 'import { c } from "../../server/fleet/rollout/gates.js";';
  const imports = importsOf(
    distOf(context, {
      [gates]: "",
      "server/alone.js": "",
      "test/integration/a.test.js": text,
      "test/fault/a.test.js": text,
      "test/unit/a.slow.test.js": text,
      "test/unit/a.full.test.js": text,
      "test/unit/helper.js": text,
      "test/contract/a.test.js": text,
    }),
  );
  assert.deepEqual(nearestTests(imports, gates).tests, ["test/contract/a.test.js"]);
  assert.deepEqual(nearestTests(imports, "server/alone.js").tests, []);
});

it("takes all tests that import a file themselves, and as many of the others as there are too few", (context) => {
  const names = (count: number) =>
    Array.from({ length: count }, (_, at) => `test/unit/server/t${at + 10}.test.js`);
  const direct = 'import "../../../server/fleet/rollout/gates.js";';
  const chosen = (directCount: number, otherCount: number): readonly number[] => {
    const others = names(directCount + otherCount).slice(directCount);
    const files: Record<string, string> = {
      [gates]: "",
      "server/judge.js": 'import "./fleet/rollout/gates.js";',
    };
    for (const name of names(directCount)) files[name] = direct;
    for (const name of others) files[name] = 'import "../../../server/judge.js";';
    const imports = importsOf(distOf(context, files));
    const { tests, more } = nearestTests(imports, gates);
    return [tests.length, more];
  };
  assert.deepEqual(chosen(9, 5), [9, 5]);
  assert.deepEqual(chosen(2, 9), [6, 5]);
  assert.deepEqual(chosen(1, 1), [2, 0]);
});
