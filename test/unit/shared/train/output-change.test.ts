/** How far outputs of two models lie apart. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { outputChange } from "../../../../shared/train/output-change.js";

const classes = { task: "classification", targetSize: 1, classes: 2 } as const;
const numbers = { task: "regression", targetSize: 2, classes: 0 } as const;
const floats = (...values: number[]): Float32Array => Float32Array.from(values);

describe("the change of outputs", () => {
  it("is the share of samples with another class", () => {
    const change = outputChange(classes, 2, [floats(0.9, 0.1, 0.4, 0.6), floats(0.6, 0.4, 0.7, 0.3)]);
    assert.equal(change, 0.5);
  });
  it("is the mean absolute difference of numbers", () => {
    assert.equal(outputChange(numbers, 2, [floats(1, 2, 3, 4), floats(1, 1, 3, 7)]), 1);
  });
  it("is not told of outputs that differ in form", () => {
    assert.equal(outputChange(numbers, 2, [floats(1, 2), floats(1, 2, 3, 4)]), undefined);
    assert.equal(outputChange(classes, 1, [floats(1, 2, 3), floats(1, 2, 3)]), undefined);
  });
});
