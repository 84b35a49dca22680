/** Initial weights: their variance, their limits, and that the seed alone decides them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { depthwiseFans, fans, initialize, initializerNames } from "../../../../shared/train/initializers.js";
import { Streams } from "../../../../shared/random/streams.js";

const stream = (name = "w") => new Streams("5", 0).stream(name);
const variance = (values: Float32Array): number =>
  values.reduce((sum, value) => sum + value * value, 0) / values.length;

describe("initialisers", () => {
  it("compute fan-in and fan-out of a weight", () => {
    assert.deepEqual(fans([10, 20]), { fanIn: 10, fanOut: 20 });
    assert.deepEqual(fans([3, 3, 8, 16]), { fanIn: 72, fanOut: 144 });
    assert.deepEqual(fans([7]), { fanIn: 7, fanOut: 7 });
    assert.deepEqual(depthwiseFans([3, 3, 32, 2]), { fanIn: 9, fanOut: 18 });
  });

  it("give the variance that their names stand for", () => {
    const shape = [60, 100];
    for (const [name, expected] of [
      ["glorot-uniform", 2 / 160],
      ["glorot-normal", 2 / 160],
      ["he-uniform", 2 / 60],
      ["he-normal", 2 / 60],
      ["lecun-uniform", 1 / 60],
      ["lecun-normal", 1 / 60],
    ] as const) {
      const actual = variance(initialize(name, shape, stream(name)));
      assert.ok(Math.abs(actual / expected - 1) < 0.08, `${name}: ${actual} for ${expected}`);
    }
  });

  it("stay within their limit", () => {
    const limit = Math.fround(Math.sqrt(6 / 160));
    assert.ok(initialize("glorot-uniform", [60, 100], stream()).every((value) => Math.abs(value) <= limit));
  });

  it("give orthonormal rows or columns", () => {
    for (const [rows, columns] of [
      [8, 8],
      [6, 24],
      [24, 6],
    ] as const) {
      const values = initialize("orthogonal", [rows, columns], stream(`${rows}`));
      const tall = rows >= columns;
      const count = Math.min(rows, columns);
      const length = Math.max(rows, columns);
      const at = (vector: number, index: number): number =>
        values[tall ? index * columns + vector : vector * columns + index] as number;
      for (let a = 0; a < count; a++)
        for (let b = 0; b <= a; b++) {
          let dot = 0;
          for (let i = 0; i < length; i++) dot += at(a, i) * at(b, i);
          assert.ok(Math.abs(dot - (a === b ? 1 : 0)) < 1e-5, `${rows}×${columns}: ${a}·${b} = ${dot}`);
        }
    }
    assert.throws(
      () => initialize("orthogonal", [4], stream()),
      (error) => isStemmaError(error, "RECIPE_PARAMETERS_INVALID"),
    );
  });

  it("give the same values from the same stream, and use no other source", () => {
    for (const name of initializerNames)
      assert.deepEqual(initialize(name, [5, 7], stream(name)), initialize(name, [5, 7], stream(name)), name);
    assert.deepEqual([...initialize("ones", [3], stream())], [1, 1, 1]);
    assert.deepEqual([...initialize("zeros", [2, 0], stream())], []);
  });
});
