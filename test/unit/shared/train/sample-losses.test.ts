/** Two models are compared sample by sample. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { pairLosses, sampleLosses } from "../../../../shared/train/sample-losses.js";

const part = (count: number, targets: readonly number[], inputs: readonly number[] = []) => ({
  count,
  inputs: Float32Array.from(inputs),
  targets: Float32Array.from(targets),
});

test("a class is right or wrong; of equal outputs the first counts", () => {
  const set = { task: "classification", targetSize: 1, classes: 3 } as const;
  const outputs = Float32Array.from([0, 1, 0, /**/ 2, 2, 1, /**/ 0, 0, 9]);
  assert.deepEqual(sampleLosses(set, part(3, [1, 1, 2]), outputs), Float64Array.from([0, 1, 0]));
  // Outputs of another width than the data have classes.
  assert.equal(sampleLosses({ ...set, classes: 2 }, part(3, [1, 1, 0]), outputs), undefined);
});

test("of numbers the mean absolute error of each sample", () => {
  const set = { task: "regression", targetSize: 2, classes: 0 } as const;
  const losses = sampleLosses(set, part(2, [1, 2, 3, 4]), Float32Array.from([1.5, 2.5, 3, 0]));
  assert.deepEqual(losses, Float64Array.from([0.5, 2]));
});

test("an autoencoder is compared with its input; data with several targets, or none, are not told by sample", () => {
  const input = { name: "input", kind: "input", shape: [2], classes: 0 } as const;
  const set = { task: "general", targetSize: 0, classes: 0, outputs: [input] } as const;
  assert.deepEqual(sampleLosses(set, part(1, [], [1, 2]), Float32Array.from([1, 4])), Float64Array.from([1]));
  const labels = { name: "faults", kind: "labels", shape: [2], classes: 0 } as const;
  for (const outputs of [[input, input], [labels], []])
    assert.equal(sampleLosses({ ...set, outputs }, part(1, [0, 1], [1, 2]), new Float32Array(2)), undefined);
  assert.equal(sampleLosses(set, part(0, []), new Float32Array(0)), undefined);
});

test("pairs count who is better, and give mean and deviation of the differences", () => {
  const paired = pairLosses(Float64Array.from([0, 1, 0, 2]), Float64Array.from([1, 1, 0, 0]));
  assert.deepEqual(
    { ...paired, standardDeviation: Math.round(paired.standardDeviation * 1e6) / 1e6 },
    { samples: 4, better: 1, worse: 1, equal: 2, meanDifference: 0.25, standardDeviation: 1.258306 },
  );
  assert.equal(pairLosses(Float64Array.of(1), Float64Array.of(3)).standardDeviation, 0);
});
