/** The comparison with an outside suite's expected results: it sees a difference in either direction. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { compareCases } from "./compare-cases.js";
import type { Case } from "./outside-suite.js";

const of = (name: string, outcome: Case["outcome"]): Case => ({ case: name, outcome, why: "" });

it("counts what is as expected", () => {
  const cases = [of("a", "passed"), of("b", "failed"), of("c", "skipped")];
  assert.deepEqual(compareCases(cases, { b: "on purpose" }), {
    passed: 1,
    failedAsExpected: 1,
    skipped: 1,
    differences: [],
  });
});

it("knows all cases of a file by a star at the end", () => {
  const expected = { "x::*": "on purpose" };
  assert.deepEqual(compareCases([of("x::a", "failed"), of("xa", "passed")], expected).differences, []);
  assert.equal(compareCases([of("x::a", "failed"), of("x::b", "passed")], expected).differences.length, 1);
});

for (const [what, cases] of [
  ["a failure that is not expected", [of("a", "failed"), of("b", "failed")]],
  ["an expected failure that passes", [of("a", "passed"), of("b", "passed")]],
  ["an expected failure that was left out", [of("b", "skipped")]],
  ["an expected failure that the suite does not have", [of("a", "passed")]],
] as const)
  it(`tells of ${what}`, () => {
    assert.equal(compareCases(cases, { b: "on purpose" }).differences.length, 1);
  });
