/** Gates on time, memory and outputs: what is over a limit fails, what was not measured is not taken for good. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { throughGates, trialOf } from "../../../../../server/fleet/rollout/gates.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";

const number = fc.double({ min: 0, max: 100, noNaN: true });
const limits = fc.record(
  { maxSlowdown: number, maxMoreMemoryMb: number, maxChange: number },
  { requiredKeys: [] },
);
const trials = fc.record({ slowdown: number, moreBytes: number, change: number }, { requiredKeys: [] });

describe("gates", () => {
  it("fail exactly where a limit is exceeded, and are open where its measurement is missing", () => {
    fc.assert(
      fc.property(limits, trials, (policy, trial) => {
        const moreMb = trial.moreBytes === undefined ? undefined : trial.moreBytes / 2 ** 20;
        const pairs = [
          [policy.maxSlowdown, trial.slowdown],
          [policy.maxMoreMemoryMb, moreMb],
          [policy.maxChange, trial.change],
        ] as const;
        const isOver = pairs.some(([limit, value]) => value! > limit!);
        const isOpen = pairs.some(([limit, value]) => limit !== undefined && value === undefined);
        const outcome = throughGates(policy, trial);
        const found = outcome === undefined ? "passed" : "failed" in outcome ? "failed" : "open";
        assert.equal(found, isOver ? "failed" : isOpen ? "open" : "passed");
      }),
    );
  });

  it("take the limits for passed, and count memory in MiB", () => {
    const failed = (policy: Parameters<typeof throughGates>[0], trial: Parameters<typeof throughGates>[1]) =>
      throughGates(policy, trial) !== undefined;
    assert.equal(failed({ maxSlowdown: 2 }, { slowdown: 2 }), false);
    assert.equal(failed({ maxChange: 0.1 }, { change: 0.1 }), false);
    assert.equal(failed({ maxMoreMemoryMb: 3 }, { moreBytes: 3 * 1024 * 1024 }), false);
    assert.equal(failed({ maxMoreMemoryMb: 3 }, { moreBytes: 3 * 1024 * 1024 + 1 }), true);
    // One gate does not stand for another one.
    assert.equal(failed({ maxSlowdown: 2 }, { slowdown: 1, change: 100, moreBytes: 2 ** 40 }), false);
  });

  it("compare what both versions cost, in whatever order the device names them", () => {
    const [next, last] = [sha256("next"), sha256("last")];
    const metric = { name: "accuracy", unit: "%", lowerIsBetter: false, value: 1 };
    const version = (versionId: typeof next, milliseconds: number, peakBytes: number) => ({
      versionId,
      metric,
      durationMs: 1,
      inference: { milliseconds, peakBytes },
    });
    const versions = [version(last, 2, 1000), version(next, 3, 900)];
    assert.deepEqual(trialOf({ versions, change: 0.5 }, next, last), {
      slowdown: 1.5,
      moreBytes: -100,
      change: 0.5,
    });
    assert.deepEqual(trialOf({ versions: [version(next, 3, 900)], change: null }, next, last), {});
    assert.deepEqual(trialOf({ versions: [version(last, 0, 1), version(next, 3, 1)] }, next, last), {
      moreBytes: 0,
    });
    assert.equal(trialOf({ versions: [version(last, 0.5, 1), version(next, 1, 1)] }, next, last).slowdown, 2);
  });
});
