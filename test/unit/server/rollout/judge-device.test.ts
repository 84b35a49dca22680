/** What an answer of a device that could not measure means for the version. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { RolloutState } from "../../../../server/repository/state/rollout-state.js";
import { defaultPolicy } from "../../../../server/rollout/policy.js";
import { measureOnDevice } from "../../../../server/rollout/judge-device.js";
import type { RolloutPolicy } from "../../../../shared/journal/facts/rollout-facts.js";
import { StemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { sha256 } from "../../../../shared/tensor/hash.js";

const before = sha256("before");
const device = { state: "enrolled", lines: ["a"], active: { a: { versionId: before } } };

async function measuredWhere(code: ErrorCode, policy: RolloutPolicy = defaultPolicy, kind = "tfjs") {
  return measureOnDevice(
    { evaluateOnDevice: () => Promise.reject(new StemmaError(code, code)) },
    {
      fleet: "f",
      device: () => device,
      get: (versionId: string) => ({ versionId, record: { kind } }),
    } as unknown as Parameters<typeof measureOnDevice>[1],
    {
      line: "a",
      versionId: sha256("next"),
      policy,
      members: new Map(),
    } as unknown as RolloutState,
    "car",
  );
}

it("a device is asked again, unless the version itself is the reason", async () => {
  assert.deepEqual(await measuredWhere("TRAINING_REFUSED"), { waits: "TRAINING_REFUSED" });
  const failed = { verdict: "failed", before };
  assert.deepEqual(await measuredWhere("NOT_A_NUMBER"), { ...failed, because: "NOT_A_NUMBER" });
  // It failed only where it still cannot after a few tries.
  assert.deepEqual(await measuredWhere("TRAINING_STOPPED"), {
    waits: "TRAINING_STOPPED",
    otherwise: { ...failed, because: "TRAINING_STOPPED" },
  });
});

it("what a device cannot tell by its samples it may tell by its live inputs, if the rollout asks for them", async () => {
  const live = { ...defaultPolicy, live: { inputs: 10, minutes: 60, maxFailed: 0 } };
  const verdictOf = async (...asked: Parameters<typeof measuredWhere>) => {
    const measured = await measuredWhere(...asked);
    assert.ok("verdict" in measured);
    return [measured.verdict, measured.isMeasured];
  };
  assert.deepEqual(await verdictOf("DATASET_EMPTY"), ["failed", true]);
  assert.deepEqual(await verdictOf("DATASET_EMPTY", live), ["passed", true]);
  // It is not even asked to evaluate what only its own software can run.
  assert.deepEqual(await verdictOf("NOT_A_NUMBER", live, "opaque"), ["passed", true]);
  assert.deepEqual(await verdictOf("NOT_A_NUMBER", live), ["failed", undefined]);
});
