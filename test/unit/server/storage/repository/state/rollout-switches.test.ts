/** What rollouts say of their devices after the line was given another version, the same one again, or went back. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { defaultPolicy } from "../../../../../../shared/journal/facts/rollout-policy.js";
import type { Fact } from "../../../../../../shared/journal/fact.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";
import { applyFact } from "../../../../../../server/storage/repository/state/apply-fact.js";
import { isStillGiven } from "../../../../../../server/storage/repository/state/rollout-switches.js";
import { emptyState } from "../../../../../../server/storage/repository/state/state.js";

const [device, line] = ["car", "soh"];
const id = (n: number): Hash => n.toString(16).padStart(64, "0") as Hash;

/** A fleet of one device that runs version 1; versions are written as numbers. */
function fleetUnderTest() {
  const state = emptyState();
  const add = (...facts: readonly Fact[]): void => {
    for (const fact of facts) applyFact(state, state.length, fact);
  };
  const activated = (version: number): void => {
    const number = state.length;
    const of = { deviceAtMs: 9, deviceClockErrorMs: null, session: 1, number };
    add({ type: "activated", atMs: 9, device, line, versionId: id(version), ...of });
  };
  const assigned = (version: number, rollout?: string): void => {
    const by = rollout === undefined ? {} : { rollout };
    add({ type: "assigned", atMs: 9, device, line, versionId: id(version), ...by });
  };
  const lines = [line];
  add({ type: "enrolled", atMs: 1, device, publicKey: "k", tokenHash: "t", profile: "generic", lines });
  activated(1);
  return {
    activated,
    assigned,
    /** The device passes in a rollout of the version. */
    passes: (rollout: string, version: number): void => {
      const of = { atMs: 9, rollout, because: "" };
      const policy = defaultPolicy;
      add({ type: "rollout", ...of, critical: true, line, versionId: id(version), select: "all", policy });
      add({ type: "rollout-phase", ...of, phase: "running" });
      add({ type: "wave", ...of, wave: 1, devices: [device] });
      add({ type: "judged", ...of, device, verdict: "passed", before: id(1) });
      if (state.devices.get(device)?.assignments.get(line)?.versionId !== id(version))
        assigned(version, rollout);
    },
    says: (name: string): string => {
      const { switched = false } = state.rollouts.get(name)?.members.get(device) ?? {};
      const isGiven = isStillGiven(state.devices.get(device), { line, name });
      return `${switched ? "switched" : "not switched"}, ${isGiven ? "has it" : "given another"}`;
    },
  };
}

test("a device has switched once it ran the version, also after it went back", () => {
  const { passes, activated, assigned, says } = fleetUnderTest();
  passes("spring", 2);
  assert.equal(says("spring"), "not switched, has it");
  activated(2);
  assert.equal(says("spring"), "switched, has it");
  assigned(1, "spring");
  assert.equal(says("spring"), "switched, given another");
  activated(1);
  assert.equal(says("spring"), "switched, given another");
});

test("a device that was given another version first has not switched, whatever it runs later", () => {
  const { passes, activated, assigned, says } = fleetUnderTest();
  passes("spring", 2);
  assigned(3);
  assert.equal(says("spring"), "not switched, given another");
  activated(3);
  passes("summer", 2);
  activated(2);
  assert.deepEqual(
    [says("spring"), says("summer")],
    ["not switched, given another", "switched, has it"],
    "histories are compared by position, not by value",
  );
});

test("a device that was given the version again has switched once", () => {
  const { passes, activated, assigned, says } = fleetUnderTest();
  passes("spring", 2);
  activated(2);
  activated(4);
  assigned(2);
  assert.equal(says("spring"), "switched, has it");
  passes("summer", 2);
  assert.deepEqual([says("spring"), says("summer")], ["switched, has it", "not switched, has it"]);
  activated(2);
  assert.equal(says("summer"), "switched, has it");
});

test("a device that runs the version already when it passes has switched", () => {
  const { passes, activated, assigned, says } = fleetUnderTest();
  assigned(2);
  activated(2);
  passes("spring", 2);
  assert.equal(says("spring"), "switched, has it");
});
