/** A rollout that is folded from facts, as in a journal. */
import assert from "node:assert/strict";
import {
  applyRollout,
  checkRollout,
  type RolloutState,
} from "../../../../../server/storage/repository/state/rollout-state.js";
import { nextStep, type Step } from "../../../../../server/fleet/rollout/next-step.js";
import { policyOf } from "../../../../../server/fleet/rollout/policy.js";
import type { RolloutPhase, RolloutVerdict } from "../../../../../shared/journal/facts/rollout-facts.js";
import type { RolloutPolicy } from "../../../../../shared/journal/facts/rollout-policy.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";

export const versionId = sha256("new");
export const minute = 60_000;

/** A rollout that runs, at a time in minutes. */
export class Rollout {
  readonly rollouts = new Map<string, RolloutState>();
  /** Passed devices that have not run the version yet. */
  readonly switching = new Set<string>();
  minutes = 1;

  constructor(policy: Partial<RolloutPolicy> = {}) {
    this.apply({
      type: "rollout",
      critical: true,
      line: "a",
      versionId,
      select: "all",
      policy: policyOf(policy),
    });
    this.phase("running");
  }

  get state(): RolloutState {
    return this.rollouts.get("r") as RolloutState;
  }
  apply(fact: Record<string, unknown>): void {
    const full = { rollout: "r", atMs: this.minutes * minute, ...fact } as Parameters<typeof applyRollout>[1];
    checkRollout(this.rollouts, full);
    assert.ok(applyRollout(this.rollouts, full));
  }
  phase(phase: RolloutPhase): void {
    this.apply({ type: "rollout-phase", phase, because: "" });
  }
  wave(...devices: string[]): void {
    this.apply({ type: "wave", wave: this.state.wave + 1, devices });
  }
  judged(verdict: RolloutVerdict, ...devices: string[]): void {
    for (const device of devices) this.apply({ type: "judged", device, verdict, before: null, because: "x" });
  }
  next(): Step {
    return nextStep(this.state, {
      nowMs: this.minutes * minute,
      hasSwitched: (device) => !this.switching.has(device),
    });
  }
}
