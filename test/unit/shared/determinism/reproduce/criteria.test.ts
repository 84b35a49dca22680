/** Criteria of a comparison: which one fails first, by how much, and nothing equal that nobody recorded. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { compareRuns, type RunComparison } from "../../../../../shared/determinism/reproduce/criteria.js";
import { describeComparison } from "../../../../../shared/determinism/reproduce/criteria-text.js";
import {
  totalsOf,
  type PredictedSample,
  type RunLoss,
  type RunRecord,
} from "../../../../../shared/determinism/reproduce/run-record.js";

const classes = (...predicted: readonly string[]): ReadonlyMap<string, PredictedSample> =>
  new Map(
    predicted.map((each, at) => [String(at), { actual: String(at % 2), predicted: each, outputs: [] }]),
  );
const numbers = (...values: readonly number[]): ReadonlyMap<string, PredictedSample> =>
  new Map(values.map((value, at) => [String(at), { actual: [1], outputs: [value] }]));
const losses = (...values: readonly (number | null)[]): readonly RunLoss[] =>
  values.map((value, iteration) => ({ name: "loss", iteration, value }));
const run = (samples: RunRecord["samples"], rest: Partial<RunRecord> = {}): RunRecord => ({
  totals: samples === undefined ? {} : totalsOf(samples),
  ...(samples === undefined ? {} : { samples }),
  ...rest,
});
const nothing = run(undefined);
const verdicts = ({ findings }: RunComparison): Record<string, string> =>
  Object.fromEntries(findings.map(({ criterion, verdict }) => [criterion, verdict]));

test("runs with the same overall accuracy differ by a class and a prediction", () => {
  const found = compareRuns(run(classes("0", "0", "1", "1")), run(classes("0", "0", "0", "0")), undefined);
  assert.equal(found.verdict, "different");
  assert.equal(found.first?.criterion, "accuracy by class");
  assert.equal(found.first.difference, 50);
  assert.deepEqual(found.findings.find(({ criterion }) => criterion === "every prediction")?.difference, 2);
  assert.equal(verdicts(found)["accuracy"], "equal");
});

test("the first criterion that fails is named with its size", () => {
  const found = compareRuns(run(classes("0", "1", "0", "1")), run(classes("0", "1", "0", "0")), undefined);
  assert.equal(found.first?.criterion, "accuracy");
  assert.equal(found.first.difference, 25);
  assert.match(describeComparison(found)[0] ?? "", /^different: the first criterion that fails is accuracy$/);
});

test("nothing is equal that neither side has, and one side alone is said", () => {
  const none = compareRuns(nothing, nothing, undefined);
  assert.equal(none.verdict, "nothing");
  assert.deepEqual([...new Set(Object.values(verdicts(none)))], ["not recorded"]);
  const course = { course: { losses: losses(2, 1), iterations: 2 } };
  const same = compareRuns(run(undefined, course), run(undefined, course), undefined);
  assert.equal(same.verdict, "equal");
  assert.equal(verdicts(same)["epochs"], "not recorded", "a log that counts no epochs");
  assert.match(describeComparison(same)[0] ?? "", /^equal by 1 of 7 criteria; the others are not recorded/);
  const half = compareRuns(run(undefined, course), run(numbers(1), course), "B");
  assert.equal(half.verdict, "incomplete");
  assert.equal(verdicts(half)["every prediction"], "only in B");
  assert.equal(verdicts(half)["tensors"], "only in B");
});

test("a mean absolute error is of the same samples in any order, and one bit decides", () => {
  const values = [0.1, 0.2, 0.3, 7.7];
  const turned = new Map([...numbers(...values)].reverse());
  assert.equal(compareRuns(run(numbers(...values)), run(turned), undefined).verdict, "equal");
  const other = compareRuns(run(numbers(0.1)), run(numbers(0.1 + 2 ** -55)), undefined);
  assert.equal(other.first?.criterion, "every prediction");
});

test("losses and epochs are compared one by one; what is not finite is not told apart, and said so", () => {
  const record = (lastEpoch: number, ...values: readonly (number | null)[]): RunRecord =>
    run(undefined, { course: { losses: losses(...values), iterations: values.length, lastEpoch } });
  const shorter = compareRuns(record(3, 2, 1, 0.5), record(2, 2, 1), undefined);
  assert.equal(shorter.first?.criterion, "losses");
  assert.match(shorter.first.text, /1 of 3, the first loss at 2: 0.5 and none/);
  assert.equal(verdicts(shorter)["epochs"], "different");
  const unknown = compareRuns(record(1, null, 1), record(1, null, 1), undefined);
  assert.match(
    unknown.findings.find(({ criterion }) => criterion === "losses")?.text ?? "",
    /not told apart where not finite: 1/,
  );
  assert.equal(compareRuns(record(1, null), record(1, 4), undefined).verdict, "different");
});

test("bits of tensors decide alone", () => {
  const found = compareRuns(nothing, nothing, {
    compared: 2,
    differing: 1,
    first: "w (1 of 3 numbers)",
    largest: 0.5,
  });
  assert.deepEqual([found.first?.criterion, found.first?.difference], ["tensors", 0.5]);
});
