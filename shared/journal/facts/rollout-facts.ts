/** Facts about rollouts, and what their judgements are. Types only. */
import type { Hash } from "../../tensor/tensor.js";
import type { Caused, Timed } from "./fact-members.js";
import type { RolloutPolicy } from "./rollout-policy.js";

export type RolloutPhase = "running" | "paused" | "aborted" | "undone" | "done";

/**
 * `passed`: the device switches. `kept`: its own model is the better one. `worse`: the version is worse on its samples.
 * `failed`: it could not be installed or measured. `left`: the device takes no part any more.
 * `unknown`: its software did not tell of as many live inputs as were asked for; it keeps what it runs.
 */
export type RolloutVerdict = "passed" | "kept" | "worse" | "failed" | "left" | "unknown";

/** The losses of the version less those of what the device ran, sample by sample. */
export interface ComparedLosses {
  readonly samples: number;
  readonly meanDifference: number;
  readonly standardError: number;
}

/** The measurements of a version beside what the device ran; what it did not measure is absent. */
export interface RolloutTrial {
  /** Median time of one sample, as a multiple. */
  readonly slowdown?: number;
  /** Bytes of memory that it needed more; negative: less. */
  readonly moreBytes?: number;
  /** Share of samples with another class, or mean absolute difference of the outputs. */
  readonly change?: number;
}

/** The result of live inputs on which a device's software ran the version beside what the line runs. */
export interface LiveTrialResult {
  /** Inputs on which both were compared. */
  readonly inputs: number;
  /** Inputs on which only the version failed. */
  readonly failed: number;
  readonly compared?: ComparedLosses;
  readonly slowdown?: number;
  readonly change?: number;
}

/** The measurement of a version on a device's held-out samples. */
export interface DeviceMeasurement {
  /** The version that its line ran. */
  readonly before: Hash;
  readonly because: string;
  /** The compared losses; absent: it could not compare by its samples. */
  readonly compared?: ComparedLosses;
  readonly trial?: RolloutTrial;
}

export interface DeviceJudgement {
  readonly verdict: RolloutVerdict;
  /** The version that its line ran, which a return gives it again; null: nothing. */
  readonly before: Hash | null;
  readonly because: string;
  /** The comparison of both versions by the device's own held-out samples; absent: there was none. */
  readonly compared?: ComparedLosses;
  readonly trial?: RolloutTrial;
  /** The result of live inputs after a fact `measured`, of which the rest stays. */
  readonly live?: LiveTrialResult;
}

/** The expected transfer of a version to a device. */
export interface PlannedTransfer {
  readonly bytes: number;
  /** Null: nothing was measured on the device, or on others of its profile. */
  readonly ms: number | null;
}

export type RolloutFact =
  /** A version is to go to a selection of devices, in waves. It starts with a fact `rollout-phase`. */
  | (Caused & {
      readonly type: "rollout";
      /** The rollout's name, which no other rollout of the fleet has. */
      readonly rollout: string;
      /** An older release would neither go on with it nor keep what its devices return to. */
      readonly critical: true;
      readonly line: string;
      readonly versionId: Hash;
      /** Selection of devices (docs/selections.md). */
      readonly select: string;
      readonly policy: RolloutPolicy;
      /** The rollout of the same line that it ends when it starts. */
      readonly supersedes?: string;
    })
  /** Another person than its creator agrees that it may start. */
  | (Caused & { readonly type: "rollout-approved"; readonly rollout: string; readonly because: string })
  /** A rollout starts, pauses, goes on, or ends. */
  | (Caused & {
      readonly type: "rollout-phase";
      readonly rollout: string;
      readonly phase: RolloutPhase;
      readonly because: string;
    })
  /** Devices are in a wave of a rollout from now on; a large wave is several facts. */
  | (Timed & {
      readonly type: "wave";
      readonly rollout: string;
      /** The number of the wave, from 1. */
      readonly wave: number;
      readonly devices: readonly string[];
      /** The expected transfer to each of them, in their order; absent: not known. */
      readonly planned?: readonly PlannedTransfer[];
    })
  /** The measurement on a device's held-out samples, before a trial on its live inputs; a later one replaces it. */
  | (Timed &
      DeviceMeasurement & { readonly type: "measured"; readonly rollout: string; readonly device: string })
  /** The judgement of a device in a rollout, before it runs the version. */
  | (Timed & DeviceJudgement & { readonly type: "judged"; readonly rollout: string; readonly device: string })
  /** A hook of the device refused the version that it was to switch to. */
  | (Timed & {
      readonly type: "switch-failed";
      readonly rollout: string;
      readonly device: string;
      readonly because: string;
    });
