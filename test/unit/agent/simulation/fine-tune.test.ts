// A simulated fine-tune changes the last tensors only, and no float to something that is not a number.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { changedBytes, changedFrom } from "../../../../agent/simulation/fine-tune.js";
import { askedVersions, simulatedEvaluation } from "../../../../agent/simulation/simulated-measurement.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { seededNumbers } from "../../../../shared/random/seeded-numbers.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

describe("a simulated fine-tune", () => {
  it("changes the last tensors up to a share of the bytes, at least one", () => {
    assert.equal(changedFrom([500, 300, 150, 50], 0), 3);
    assert.equal(changedFrom([500, 300, 150, 50], 0.05), 3);
    assert.equal(changedFrom([500, 300, 150, 50], 0.06), 2);
    assert.equal(changedFrom([500, 300, 150, 50], 0.5), 1);
    assert.equal(changedFrom([500, 300, 150, 50], 1), 0);
    assert.equal(changedFrom([7], 0.5), 0);
  });

  it("leaves sign and exponent of every number, and the bytes that it was given", () => {
    const values = Float32Array.from([0, 1, -1, 3.4e38, -1e-38, 1e-45]);
    const bytes = new Uint8Array(values.buffer.slice(0));
    const changed = new Float32Array(changedBytes(bytes, 4, seededNumbers(3)).buffer);
    assert.deepEqual(new Float32Array(bytes.buffer), values);
    changed.forEach((value, at) => {
      const was = values[at] as number;
      assert.ok(
        Number.isFinite(value) && Math.abs(value - was) <= Math.max(Math.abs(was) * 2 ** -17, 2 ** -143),
      );
    });
    assert.notDeepEqual(changed, values);
  });
});

describe("what a simulated device answers", () => {
  const [a, b] = ["a".repeat(64), "b".repeat(64)] as [Hash, Hash];
  const answers = { samples: 400, meanDifference: 0.15, standardDeviation: 0.3 };
  const with_ = (held: readonly Hash[]): Parameters<typeof simulatedEvaluation>[2] => ({
    answers,
    draw: seededNumbers(1),
    has: (versionId) => held.includes(versionId),
  });

  it("compares two versions as it was told to", () => {
    const { paired, versions } = simulatedEvaluation("soh", [a, b], with_([a, b]));
    assert.deepEqual(
      versions.map(({ versionId }) => versionId),
      [a, b],
    );
    assert.ok(paired !== null && Math.abs(paired.meanDifference - 0.15) < 5 * (0.3 / 20));
    assert.equal(paired.better + paired.worse + paired.equal, paired.samples);
  });

  it("does not have what it did not fetch", () => {
    assert.throws(
      () => simulatedEvaluation("soh", [a, b], with_([b])),
      (error) => isStemmaError(error, "MODEL_NOT_FOUND"),
    );
    assert.throws(
      () => simulatedEvaluation("soh", askedVersions({ versionIds: [] }, undefined), with_([])),
      (error) => isStemmaError(error, "MODEL_NOT_FOUND"),
    );
    assert.deepEqual(askedVersions({ versionIds: [] }, b), [b]);
  });
});
