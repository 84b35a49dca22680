/** The arithmetic of averages: rounded once, and never moved far by one model. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import {
  averageOf,
  numbersOf,
  roundedTo,
  type AverageRule,
} from "../../../../shared/average/average-numbers.js";
import { cappedWeights } from "../../../../shared/average/capped-weights.js";
import { addSquaredDistances, outliersOf } from "../../../../shared/average/outliers.js";
import "../../../helpers/property-seed.js";

const models = fc
  .tuple(fc.integer({ min: 2, max: 7 }), fc.integer({ min: 1, max: 5 }))
  .chain(([count, length]) =>
    fc.array(
      fc.array(fc.float({ noNaN: true, noDefaultInfinity: true }), { minLength: length, maxLength: length }),
      { minLength: count, maxLength: count },
    ),
  );

/** All halves or bfloat16 numbers from 0 to infinity, by their bits. */
function allNumbers(dtype: "F16" | "BF16"): Float32Array {
  const infinity = dtype === "F16" ? 0x7c00 : 0x7f80;
  const words = Uint16Array.from({ length: infinity + 1 }, (_, bits) => bits);
  return numbersOf(dtype, new Uint8Array(words.buffer)) as Float32Array;
}

/** The nearest number, ties to the even bits: found among all of them. */
function nearest(all: Float32Array, value: number): number {
  let [low, high] = [0, all.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (all[middle]! <= value) low = middle;
    else high = middle;
  }
  // From half a step above the largest number on, to infinity.
  const above = high === all.length - 1 ? 2 * all[low]! - all[low - 1]! : all[high]!;
  const border = (all[low]! + above) / 2;
  return value < border || (value === border && low % 2 === 0) ? low : high;
}

describe("rounding", () => {
  for (const dtype of ["F16", "BF16"] as const)
    test(`${dtype} is rounded once, as a search among all numbers does`, () => {
      const all = allNumbers(dtype);
      const check = (value: number): void => {
        const [bits] = new Uint16Array(roundedTo(dtype, Float64Array.of(value)).slice().buffer);
        assert.equal(bits, nearest(all, value), String(value));
        const [negative] = new Uint16Array(roundedTo(dtype, Float64Array.of(-value)).slice().buffer);
        assert.equal(negative, nearest(all, value) | 0x8000, String(-value));
      };
      fc.assert(
        fc.property(
          fc.integer({ min: 0, max: all.length - 3 }),
          fc.constantFrom(0, 2 ** -52, -(2 ** -52), 2 ** -30, -(2 ** -30), 2 ** -25, -(2 ** -25)),
          (at, step) => {
            // Near a border between two numbers, where rounding to float32 first goes wrong.
            check(((all[at]! + all[at + 1]!) / 2) * (1 + step));
          },
        ),
        { numRuns: 2_000 },
      );
      fc.assert(fc.property(fc.double({ min: 0, max: 1e6, noNaN: true }), check), { numRuns: 500 });
    });

  test("float32 and float64 are those of the platform", () => {
    assert.deepEqual(
      [...numbersOf("F32", roundedTo("F32", Float64Array.of(0.1, -0, 1e-46)))],
      [Math.fround(0.1), -0, 0],
    );
    assert.deepEqual([...numbersOf("F64", roundedTo("F64", Float64Array.of(0.1)))], [0.1]);
  });
});

describe("averages", () => {
  test("the trimmed mean does not depend on the order of the models at all", () => {
    fc.assert(
      fc.property(models, fc.integer(), (all, turn) => {
        const numbers = all.map((each) => Float32Array.from(each));
        const rule: AverageRule = { rule: "trimmed", trimmedEach: (all.length - 1) >> 1 };
        const at = Math.abs(turn) % all.length;
        const turned = [...numbers.slice(at), ...numbers.slice(0, at)].reverse();
        assert.deepEqual(averageOf(numbers, rule), averageOf(turned, rule));
      }),
    );
  });

  test("the mean of equal float32 models is the model, bit for bit, by every rule", () => {
    fc.assert(
      fc.property(models, ([first = []]) => {
        const all = Array.from({ length: 5 }, () => Float32Array.from(first));
        for (const rule of [
          { rule: "mean" },
          { rule: "weighted", weights: [3, 1, 7, 2 ** 20, 12] },
          { rule: "trimmed", trimmedEach: 2 },
        ] as const)
          assert.deepEqual(Float32Array.from(averageOf(all, rule)), all[0]);
      }),
    );
  });

  test("equal weights give the mean, and a weight counts as that many copies", () => {
    fc.assert(
      fc.property(models, (all) => {
        const numbers = all.map((each) => Float32Array.from(each, (value) => Math.round(value) % 1_000));
        const mean = averageOf(numbers, { rule: "mean" });
        assert.deepEqual(averageOf(numbers, { rule: "weighted", weights: numbers.map(() => 1) }), mean);
        const [first, ...others] = numbers;
        const repeated = averageOf([first!, first!, ...others], { rule: "mean" });
        const weights = [2, ...others.map(() => 1)];
        assert.deepEqual(averageOf(numbers, { rule: "weighted", weights }), repeated);
      }),
    );
  });

  test("a trimmed mean stays within the others, whatever one model has", () => {
    fc.assert(
      fc.property(models, fc.double({ noNaN: true, noDefaultInfinity: true }), (all, lie) => {
        fc.pre(all.length >= 2);
        const honest = all.map((each) => Float64Array.from(each));
        const lying = Float64Array.from(honest[0]!, () => lie);
        const mean = averageOf([...honest, lying], { rule: "trimmed", trimmedEach: 1 });
        mean.forEach((value, i) => {
          const values = honest.map((numbers) => numbers[i]!);
          const margin = 1e-9 * Math.max(...values.map(Math.abs));
          assert.ok(value >= Math.min(...values) - margin && value <= Math.max(...values) + margin);
        });
      }),
    );
  });
});

describe("what a lying device can do", () => {
  const counts = fc.array(fc.integer({ min: 1, max: 2 ** 50 }), { minLength: 2, maxLength: 20 });

  test("no weight is more than all others together, nor than so many times the median", () => {
    fc.assert(
      fc.property(counts, fc.integer({ min: 1, max: 9 }), (all, times) => {
        const weights = cappedWeights(all, times);
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        const median = [...all].sort((a, b) => a - b)[(all.length - 1) >> 1]!;
        weights.forEach((weight, i) => {
          assert.ok(weight >= 1 && weight <= all[i]! && weight <= times * median);
          assert.ok(2 * weight <= total * (1 + 1e-12));
        });
      }),
    );
  });

  test("a device that states 10^12 samples has at most half", () => {
    assert.deepEqual(cappedWeights([100, 120, 1e12], 3), [100, 120, 220]);
    assert.deepEqual(cappedWeights([100, 110, 120, 130, 1e12], 3), [100, 110, 120, 130, 360]);
    assert.deepEqual(cappedWeights([100, 1e12], 3), [100, 100]);
    assert.deepEqual(cappedWeights([100, 200, 150], 3), [100, 200, 150]);
  });

  test("a model of 1e30 is far from the median, and does not move it", () => {
    const sums = new Float64Array(4);
    const all = [
      [1, 2],
      [1.1, 2.2],
      [0.9, 1.9],
      [1e30, -1e30],
    ].map((each) => Float64Array.from(each));
    addSquaredDistances(all, sums);
    const { isOutlier, medianDistance } = outliersOf([...sums].map(Math.sqrt), 3);
    assert.deepEqual(isOutlier, [false, false, false, true]);
    assert.ok(medianDistance < 1);
    const largest = new Float64Array(3);
    addSquaredDistances(
      [[1e300], [-1e300], [0]].map((each) => Float64Array.from(each)),
      largest,
    );
    assert.deepEqual([...largest], [Infinity, Infinity, 0]);
  });
});
