/** k-means: known clusters are found, whatever the order of magnitude; equal rows and too many centres do no harm. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Streams } from "../../../../shared/random/streams.js";
import { Assignment, clusterWeights, firstCentres, sharpnessOf } from "../../../../shared/train/clusters.js";

const stream = () => new Streams("1", 0).stream("test");
const pointsOf = (values: readonly number[], length: number) => ({
  values: Float32Array.from(values),
  count: values.length / length,
  length,
});
function settled(
  points: ReturnType<typeof pointsOf>,
  clusters: number,
): { centres: number[]; error: number } {
  let centres = firstCentres(points, clusters, stream());
  for (let epoch = 0; epoch < 50; epoch++) {
    const assignment = new Assignment(points, centres);
    assignment.add(0, points.count);
    const next = assignment.means();
    if (next.every((value, index) => value === centres[index]))
      return { centres: [...centres], error: assignment.meanError };
    centres = next;
  }
  return assert.fail("the centres do not settle");
}

describe("k-means", () => {
  it("finds groups that are far from each other", () => {
    const { centres, error } = settled(pointsOf([0, 1, 2, 100, 101, 102, -50, -51, -49], 1), 3);
    assert.deepEqual(
      centres.toSorted((a, b) => a - b),
      [-50, 1, 101],
    );
    assert.equal(error, 2 / 3);
  });
  it("keeps centres of its rows where there are fewer different rows than clusters", () => {
    const { centres, error } = settled(pointsOf([1, 2, 1, 2, 3, 4], 2), 3);
    assert.equal(error, 0);
    assert.equal(centres.length, 6);
  });
  it("moves a centre without rows to the row that is farthest from its own", () => {
    const points = pointsOf([0, 1, 10], 1);
    const assignment = new Assignment(points, Float32Array.of(0, 500));
    assignment.add(0, 3);
    assert.deepEqual([...assignment.means()], [Math.fround(11 / 3), 10]);
  });
  it("scales scores by powers of two, for numbers of any size", () => {
    for (const scale of [1e-30, 1e-3, 1, 1e6, 1e18]) {
      const points = pointsOf(
        [1, 2, 3, 4, 7].map((value) => value * scale),
        1,
      );
      const sharpness = sharpnessOf(points);
      const { kernel } = clusterWeights(Float32Array.of(scale), 1, sharpness);
      assert.equal(kernel[0]! / (2 * sharpness), Math.fround(scale), `${scale}`);
    }
    assert.equal(sharpnessOf(pointsOf([5, 5, 5], 1)), 1);
  });
});
