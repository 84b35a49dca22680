/** What the runner counts: every failure once, with the file and name by which it can be repeated. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { it, type TestContext } from "node:test";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { checkout } from "../../helpers/launcher-modules.js";
import { smallCheckout } from "../../helpers/small-checkout.js";

interface Outcome {
  readonly totals: Readonly<Record<"pass" | "fail" | "cancelled" | "skipped", number>>;
  readonly failed: readonly (readonly [string, readonly string[]])[];
  readonly seconds: Readonly<Record<string, number>>;
}

/** Runs the tests of a small checkout with the launcher's runner, in a process that is itself no test. */
function run(t: TestContext, tests: Readonly<Record<string, string>>): Outcome {
  const head = 'import { before, describe, it } from "node:test";\n';
  const files = Object.fromEntries(
    Object.entries(tests).map(([name, text]) => [`dist/test/${name}.test.js`, head + text]),
  );
  const small = smallCheckout({ ...files, "package.json": '{"type":"module"}' });
  t.after(() => {
    small.remove();
  });
  const runner = JSON.stringify(pathToFileURL(join(checkout, "launcher/tests/run.mjs")).href);
  const [root, names] = [JSON.stringify(small.root), JSON.stringify(Object.keys(files))];
  const script = `import { writeFileSync } from "node:fs"; import { runTests } from ${runner};
    const { totals, failed } = await runTests(${root}, ${names});
    writeFileSync("outcome.json", JSON.stringify({ totals, failed: [...failed] }));`;
  small.write({ "run.mjs": script });
  const { NODE_TEST_CONTEXT: _context, ...env } = process.env;
  const child = spawnSync(process.execPath, ["run.mjs"], { cwd: small.root, env });
  assert.equal(child.status, 0, String(child.stderr));
  const read = (name: string): unknown => JSON.parse(readFileSync(join(small.root, name), "utf8"));
  return {
    ...(read("outcome.json") as Omit<Outcome, "seconds">),
    seconds: read(".build/test-seconds.json") as Outcome["seconds"],
  };
}

it("counts tests, and names what failed by its file", (t) => {
  const { totals, failed, seconds } = run(t, {
    "unit/a": 'it("passes", () => {}); it("is skipped", { skip: "why" }, () => {});',
    "fault/b":
      'describe("b", () => { it("fails", () => { throw new Error("no"); }); it("passes", () => {}); });',
  });
  assert.deepEqual([totals.pass, totals.fail, totals.cancelled, totals.skipped], [2, 1, 0, 1]);
  assert.deepEqual(failed, [["test/fault/b.test.ts", ["fails"]]]);
  assert.deepEqual(Object.keys(seconds).sort(), ["test/fault/b.test.ts", "test/unit/a.test.ts"]);
});

it("counts a hook that fails, and a file that ends before its tests do", (t) => {
  const { totals, failed } = run(t, {
    "unit/hook": 'describe("h", () => { before(() => { throw new Error("no"); }); it("waits", () => {}); });',
    "unit/ends": 'it("never ends", async () => { process.exit(3); });',
  });
  assert.equal(totals.pass, 0);
  assert.ok(totals.fail + totals.cancelled >= 2);
  const names = failed.map(([file]) => file);
  assert.ok(
    names.includes("test/unit/hook.test.ts") && names.includes("test/unit/ends.test.ts"),
    names.join(),
  );
});
