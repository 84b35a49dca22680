/** What an answer of a device that could not measure means for the version. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { RolloutState } from "../../../../server/repository/state/rollout-state.js";
import { defaultPolicy } from "../../../../server/rollout/policy.js";
import { measureOnDevice } from "../../../../server/rollout/judge-device.js";
import { StemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { sha256 } from "../../../../shared/tensor/hash.js";

const before = sha256("before");
const device = { state: "enrolled", lines: ["a"], active: { a: { versionId: before } } };

async function measuredWhere(code: ErrorCode) {
  return measureOnDevice(
    { evaluateOnDevice: () => Promise.reject(new StemmaError(code, code)) },
    { fleet: "f", device: () => device, get: () => ({}) } as unknown as Parameters<typeof measureOnDevice>[1],
    {
      line: "a",
      versionId: sha256("next"),
      policy: defaultPolicy,
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
