/** The size of a planned training counts what an own loss and change of samples compute and keep. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { SampleSet } from "../../../../shared/train/datasets/dataset.js";
import type { Expression } from "../../../../shared/train/expressions/check-expression.js";
import type { FitPlan } from "../../../../shared/train/fit-plan.js";
import { plannedTraining } from "../../../../shared/train/planned-training.js";

const part = (count: number): SampleSet["train"] => ({
  count,
  inputs: new Float32Array(count),
  targets: new Float32Array(count),
});
const set: SampleSet = {
  task: "regression",
  inputShape: [1],
  targetSize: 1,
  classes: 0,
  train: part(20),
  validation: part(5),
  heldOut: part(3),
  description: {},
};
const plan: FitPlan = {
  epochs: 3,
  batchSize: 4,
  loss: "mean-squared-error",
  optimizer: { name: "adam" },
  schedule: { name: "constant", rate: 0.01 },
  patience: 0,
  frozenLayers: [],
  clipNorm: 0,
  shiftPixels: 0,
  checkpointEveryEpochs: 0,
};
/** Two operations of 100 numbers each. */
const wide: Expression = {
  inputs: [[1]],
  operations: [
    { op: "pad", from: [0], before: [0], after: [99], value: 0 },
    { op: "neg", from: [1] },
  ],
  shapes: [[100], [100]],
  output: 2,
};

it("counts an own loss in all passes, and a change of samples where a step uses one", () => {
  const size = (options: Partial<FitPlan>): ReturnType<typeof plannedTraining> =>
    plannedTraining({ layers: [], inputs: [], outputs: [] } as never, { ...plan, ...options }, set);
  const plain = size({});
  const loss = size({ loss: { own: wide } });
  assert.equal(loss.operations - plain.operations, 3 * (3 * 20 + 5) * 200);
  assert.equal(loss.memoryBytes - plain.memoryBytes, 4 * 2 * 4 * 201);
  const augmented = size({ augmentation: wide });
  assert.equal(augmented.operations - plain.operations, 3 * 20 * 200);
  assert.equal(augmented.memoryBytes - plain.memoryBytes, 4 * 4 * 201);
  assert.equal(augmented.steps, plain.steps);
});
