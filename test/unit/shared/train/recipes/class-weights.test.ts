/** Balanced weights make every class count the same. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { classWeightsOf } from "../../../../../shared/train/recipes/class-weights.js";

const samples = (targets: readonly number[], classes: number): Parameters<typeof classWeightsOf>[1] => ({
  classes,
  train: { count: targets.length, inputs: new Float32Array(), targets: Float32Array.from(targets) },
});

test("a class that is three times as frequent counts a third", () => {
  const weights = classWeightsOf({ classWeights: "balanced" }, samples([0, 0, 0, 1], 2));
  assert.deepEqual(weights, [Math.fround(4 / 6), 2]);
});

test("a class without samples has the weight 1; without the parameter there are none", () => {
  assert.deepEqual(classWeightsOf({ classWeights: "balanced" }, samples([0, 0], 2)), [0.5, 1]);
  assert.equal(classWeightsOf({ classWeights: "none" }, samples([0, 0, 1], 2)), undefined);
  assert.equal(classWeightsOf({}, samples([0, 1], 2)), undefined);
});
