/** Statistics of a study against figures of SciPy 1.17.1 (`scipy.stats.ranksums`, `scipy.special.erfc`). */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  cliffsDelta,
  complementaryError,
  median,
  rankSum,
  sizeOfDelta,
  standardDeviation,
} from "../../../../../shared/determinism/reproduce/statistics.js";

const numbers = (from: number, count: number): number[] =>
  Array.from({ length: count }, (_, at) => from + at);

const cases: readonly {
  readonly a: readonly number[];
  readonly b: readonly number[];
  readonly z: number;
  readonly p: number;
  readonly delta: number;
}[] = [
  {
    a: [1.1, 2.2, 3.3, 4.4, 5.5],
    b: [1, 2, 3, 4, 5],
    z: 0.5222329678670935,
    p: 0.6015081344405899,
    delta: 0.2,
  },
  { a: numbers(10, 8), b: numbers(1, 8), z: 3.3606722016672235, p: 0.0007775304469403846, delta: 1 },
  {
    a: [1, 1, 2, 2, 3],
    b: [2, 2, 3, 3, 3, 4],
    z: -1.734454765433026,
    p: 0.0828374251588063,
    delta: -0.6333333333333333,
  },
  { a: [0.5], b: [0.7], z: -1, p: 0.31731050786291415, delta: -1 },
  {
    a: [3.1, 2.9, 3, 3.3, 2.8, 3.2, 3.15, 3.05],
    b: [3, 3.4, 3.1, 3.35, 3.2, 3.5, 3.25, 3.45],
    z: -2.152930629193065,
    p: 0.031324130877889995,
    delta: -0.640625,
  },
  { a: [5, 5, 5], b: [5, 5, 5], z: 0, p: 1, delta: 0 },
  { a: numbers(0, 100), b: numbers(30, 100), z: -6.230641662171566, p: 4.6452855298750883e-10, delta: -0.51 },
];

const isNear = (actual: number, expected: number, label: string): void => {
  assert.ok(Math.abs(actual - expected) <= 1e-12 * Math.max(Math.abs(expected), 1e-3), `${label}: ${actual}`);
};

test("rank sums and deltas are SciPy's", () => {
  for (const { a, b, z, p, delta } of cases) {
    const label = `${a.join(" ")} and ${b.join(" ")}`;
    isNear(rankSum(a, b).z, z, label);
    isNear(rankSum(a, b).p, p, label);
    isNear(cliffsDelta(a, b), delta, label);
    isNear(cliffsDelta(b, a), -delta, label);
  }
});

test("the complementary error function is SciPy's on both sides of where its form changes", () => {
  for (const [x, expected] of [
    [0, 1],
    [0.1, 0.8875370839817152],
    [0.5, 0.4795001221869535],
    [1, 0.15729920705028516],
    [1.5, 0.03389485352468927],
    [2, 0.004677734981047266],
    [3, 2.2090496998585445e-5],
    [5, 1.5374597944280347e-12],
    [8, 1.1224297172982928e-29],
  ] as const)
    assert.ok(Math.abs(complementaryError(x) / expected - 1) < 1e-12, `${x}: ${complementaryError(x)}`);
});

test("spread, median and words for a delta", () => {
  assert.equal(standardDeviation([2, 4, 4, 4, 5, 5, 7, 9]).toFixed(9), "2.138089935");
  assert.equal(standardDeviation([3]), 0);
  assert.deepEqual([median([3, 1, 2]), median([4, 1, 2, 3])], [2, 2.5]);
  assert.deepEqual([0.1, -0.2, 0.4, -0.9].map(sizeOfDelta), ["negligible", "small", "medium", "large"]);
});
