/** A state after a step, as data: what the probe's process is told in job.json, and what it leaves. */
import type { Hash } from "../../tensor/tensor.js";
import type { TrainingJob } from "../../train/training.js";

export interface StateAfterJob {
  readonly training: TrainingJob;
  /** The file of the state to begin from; absent: before the first step. */
  readonly file?: string | undefined;
  /** The step after which it ends. */
  readonly step: number;
  /** True if the training is to end by itself after it: what follows the last step is part of the state. */
  readonly isEnd: boolean;
  /** Folder of the engine, whose kernels run, and its id. */
  readonly engine: string;
  readonly engineId: Hash;
}

/** The state of a training after a step. */
export interface StateAfter {
  readonly leaf: Hash;
  /** "weight/PATH", "best/PATH" or "slot/NAME/PATH" (training-state.ts), in the model's order. */
  readonly arrays: readonly { readonly name: string; readonly hash: Hash }[];
}

export const stateAfterFile = "state-after.json";
