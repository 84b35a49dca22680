// Evaluations of outputs: top-k with the same tie-breaking as the arg-max, parts limited to some samples,
// checked jobs.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { parseJob } from "../../../../shared/train/engine/job-schema.js";
import { jobFormat } from "../../../../shared/train/training.js";
import { Tally, type TallyOptions } from "../../../../shared/train/tally.js";
import type { SamplePart } from "../../../../shared/train/datasets/dataset.js";
import {
  type Evaluation,
  firstSamples,
  metricValue,
  predictedClass,
  rankOf,
} from "../../../../shared/train/evaluation.js";

/** The evaluation of outputs that are added in two batches. */
function evaluate(
  set: ConstructorParameters<typeof Tally>[0],
  samples: SamplePart,
  outputs: readonly Float32Array[],
  { loss = NaN, ...options }: TallyOptions & { readonly loss?: number } = {},
): Evaluation {
  const rows = (from: number, to: number): Float32Array[] =>
    outputs.map((all) =>
      all.subarray((all.length / samples.count) * from, (all.length / samples.count) * to),
    );
  const first = new Tally(set, options);
  first.add(samples, { from: 0, to: 1 }, rows(0, 1));
  const second = new Tally(set, options);
  assert.ok(second.restore(first.sums) && !second.restore(new Float64Array(1)));
  second.add(samples, { from: 1, to: samples.count }, rows(1, samples.count));
  return second.evaluation(samples, loss);
}

const three = { task: "classification", classes: 3, targetSize: 1 } as const;
const part = (targets: readonly number[]) => ({
  count: targets.length,
  inputs: new Float32Array(targets.length * 2),
  targets: Float32Array.from(targets),
});

test("top-k counts labels among the k largest outputs, and top-1 is the accuracy", () => {
  const outputs = Float32Array.of(5, 4, 3, /* */ 1, 2, 3, /* */ 7, 7, 1);
  const of = (k: number) => {
    const found = evaluate(three, part([1, 0, 1]), [outputs], { top: k });
    assert.ok(found.task === "classification");
    return found;
  };
  assert.deepEqual(
    [of(1).correct, of(1).top, of(2).top, of(3).top],
    [
      0,
      { k: 1, correct: 0, accuracy: 0 },
      { k: 2, correct: 2, accuracy: 2 / 3 },
      { k: 3, correct: 3, accuracy: 1 },
    ],
  );
  assert.equal(metricValue(of(1), "%"), 0);
  assert.equal((evaluate(three, part([1, 0, 1]), [outputs]) as { top?: unknown }).top, undefined);
});

test("the class of rank 0 is the predicted one, and ranks are a permutation, with and without ties", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 1, maxLength: 12 }), (values) => {
      const outputs = Float32Array.from(values);
      const ranks = values.map((_, each) => rankOf(outputs, 0, values.length, each));
      assert.equal(ranks.indexOf(0), predictedClass(outputs, 0, values.length));
      assert.deepEqual(
        [...ranks].sort((a, b) => a - b),
        values.map((_, each) => each),
      );
    }),
  );
});

test("a limit takes the first samples with their own inputs and targets", () => {
  const samples = { count: 3, inputs: Float32Array.of(1, 2, 3, 4, 5, 6), targets: Float32Array.of(7, 8, 9) };
  assert.deepEqual(firstSamples(samples, 2), {
    count: 2,
    inputs: Float32Array.of(1, 2, 3, 4),
    targets: Float32Array.of(7, 8),
  });
  assert.equal(firstSamples(samples, 3), samples);
  assert.equal(firstSamples(samples, 9), samples);
});

test("the job of an evaluation is checked field by field, and is not accepted as a training job", () => {
  const job = {
    format: jobFormat,
    evaluate: { top: 5 },
    dataset: { reader: "mnist", parameters: {} },
    base: { folder: "/m" },
  };
  const parse = (value: unknown) => parseJob(Buffer.from(JSON.stringify(value)));
  assert.deepEqual(parse(job), job);
  for (const wrong of [
    { ...job, base: undefined },
    { ...job, evaluate: { top: 0 } },
    { ...job, evaluate: { limit: 1.5 } },
    { ...job, evaluate: { limit: 1e9 } },
    { ...job, recipe: "x" },
    { ...job, evaluate: null },
    { ...job, format: 1 },
  ])
    assert.throws(() => parse(wrong), { code: "RECIPE_PARAMETERS_INVALID" });
});

test("each declared target is evaluated by its kind, and the metric is the loss", () => {
  const outputs = [
    { name: "wear", kind: "numbers", shape: [1], classes: 0 },
    { name: "mask", kind: "classes", shape: [2], classes: 2 },
    { name: "faults", kind: "labels", shape: [2], classes: 0 },
  ] as const;
  const set = { task: "general", classes: 0, targetSize: 5, outputs } as const;
  const rows = [
    [0.5, 0, 1, 1, 0],
    [0.25, 1, 1, 0, 0],
  ];
  const found = evaluate(
    set,
    { count: 2, inputs: new Float32Array(2), targets: Float32Array.from(rows.flat()) },
    [
      Float32Array.of(0.5, 0.75),
      Float32Array.of(1, 0, 0, 1, /* */ 1, 0, 0, 1),
      Float32Array.of(0.9, 0.1, /* */ 0.6, 0.2),
    ],
    { loss: 3, areProbabilities: [false, false, true] },
  );
  assert.ok(found.task === "general");
  assert.equal(metricValue(found, "%"), 3);
  const [wear, mask, faults] = found.outputs.map(({ evaluation }) => evaluation);
  assert.ok(wear?.task === "regression" && mask?.task === "classification" && faults?.task === "multi-label");
  assert.equal(wear.meanAbsoluteError, 0.25);
  assert.deepEqual(
    [mask.samples, mask.correct, mask.confusion],
    [
      4,
      3,
      [
        [1, 0],
        [1, 2],
      ],
    ],
  );
  assert.deepEqual([faults.samples, faults.correct, faults.accuracy], [2, 1, 0.75]);
  assert.deepEqual(faults.labels[0], { samples: 1, recall: 1, precision: 0.5, f1: 2 / 3 });
  assert.deepEqual(faults.labels[1], { samples: 0, recall: null, precision: null, f1: null });
});
