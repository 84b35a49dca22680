/** Learning-rate schedules: the table of rates that each one gives. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { learningRates } from "../../../../shared/train/learning-rate.js";

describe("learning-rate schedules", () => {
  it("are tables with one float32 per iteration", () => {
    const table = learningRates({ name: "constant", rate: 0.1 }, 2, 3);
    assert.deepEqual([...table], new Array(6).fill(Math.fround(0.1)));
  });
  it("fall linearly to the given share", () => {
    const table = learningRates({ name: "linear", rate: 1, factor: 0.5 }, 1, 5);
    assert.deepEqual([...table], [1, 0.875, 0.75, 0.625, 0.5]);
  });
  it("fall in steps of epochs", () => {
    assert.deepEqual(
      [...learningRates({ name: "step", rate: 1, factor: 0.5, everyEpochs: 2 }, 5, 1)],
      [1, 1, 0.5, 0.5, 0.25],
    );
  });
  it("fall with inverse time", () => {
    assert.deepEqual(
      [...learningRates({ name: "inverse-time", rate: 1, factor: 1 }, 4, 1)],
      [1, 0.5, Math.fround(1 / 3), 0.25],
    );
  });
  it("warm up", () => {
    assert.deepEqual(
      [...learningRates({ name: "constant", rate: 1, warmupIterations: 4 }, 1, 6)],
      [0.25, 0.5, 0.75, 1, 1, 1],
    );
  });
  it("reject rates that are negative or not finite", () => {
    for (const rate of [-1, NaN, Infinity])
      assert.throws(
        () => learningRates({ name: "constant", rate }, 1, 1),
        (error) => isStemmaError(error, "RECIPE_PARAMETERS_INVALID"),
      );
  });
});
