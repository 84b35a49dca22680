/** The report of mutants: survivors with their places, and a last line that tells the whole run. */
import assert from "node:assert/strict";
import { dirname, join, resolve } from "node:path";
import { readFileSync } from "node:fs";
import { it } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

interface Result {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly kind: string;
  readonly original: string;
  readonly mutated: string;
  readonly outcome: "killed" | "survived" | "invalid";
  readonly tests: number;
}
interface Report {
  readonly summaryOf: (part: {
    readonly name: string;
    readonly made: number;
    readonly results: readonly Result[];
    readonly unusable: readonly { readonly test: string; readonly because: string }[];
    readonly furtherTests: number;
  }) => object;
  readonly textOf: (summaries: readonly object[], seed: number) => string;
}

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../../../..");
const { summaryOf, textOf } = (await import(
  pathToFileURL(join(root, "launcher/mutants/report.mjs")).href
)) as Report;

const resultOf = (file: string, line: number, outcome: Result["outcome"], tests = 1): Result => ({
  file,
  line,
  column: 3,
  kind: "literal",
  original: "0",
  mutated: "(0 + 1)",
  outcome,
  tests,
});
const partOf = (name: string, results: readonly Result[]) =>
  summaryOf({ name, made: 10, results, unusable: [], furtherTests: 0 });

it("names each survivor with its place, and ends with the count of the whole run", () => {
  const text = textOf(
    [
      partOf("rollout", [
        resultOf("a.ts", 1, "killed"),
        resultOf("a.ts", 2, "survived"),
        resultOf("a.ts", 3, "invalid", 0),
      ]),
      partOf("trust", [resultOf("b.ts", 4, "killed"), resultOf("b.ts", 5, "survived", 0)]),
    ],
    7,
  );
  const lines = text.trimEnd().split("\n");
  assert.ok(lines.includes("rollout: 1 killed, 1 survived; 3 of 10 mutants, seed 7"));
  assert.ok(lines.includes("    a.ts:2:3 literal: 0 → (0 + 1)"));
  assert.ok(lines.includes("    b.ts:5:3 literal: 0 → (0 + 1) (no test judges this file)"));
  assert.equal(lines.at(-1), "2 killed, 2 survived");
  // The count that .ci/full takes from a part's output is the last line of this form.
  const [, pattern = ""] =
    /grep -E '([^']+)' "\$log"/u.exec(readFileSync(join(root, ".ci/full"), "utf8")) ?? [];
  const counts = lines.filter((line) => new RegExp(pattern, "u").test(line));
  assert.deepEqual(counts, ["2 killed, 2 survived"]);
});
