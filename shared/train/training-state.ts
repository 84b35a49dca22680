/**
 * The state of a training between two steps: everything that the following steps depend on, so that another process
 * can continue with the same bits. fit.ts gives and takes it, engine/state-file.ts stores it. Types, and how often it
 * is saved. Pure.
 */
import type { Hash } from "../tensor/tensor.js";
import type { Evaluation } from "./evaluation.js";
import type { FitOutcome } from "./fit.js";
import type { OptimizerState } from "./optimizers.js";
import type { Measurement } from "./training.js";

/** The position of the training loop. JSON. */
export interface FitPosition {
  /** The number of epochs that began. */
  readonly epoch: number;
  /** Steps that were done. */
  readonly iteration: number;
  /**
   * The order of the running epoch: the count of the stream "order" before it was drawn, and how many of its samples
   * the steps have used. null between two epochs.
   */
  readonly order: { readonly countBefore: number; readonly used: number } | null;
  /** Counts of all random streams. */
  readonly streams: Readonly<Record<string, number>>;
  /** The epoch with the lowest validation loss so far; loss null before the first. */
  readonly best: { readonly epoch: number; readonly loss: number | null };
  readonly measurements: readonly Measurement[];
  /** The position of each member of an ensemble; null for one that waits. */
  readonly members?: readonly (MemberPosition | null)[];
}

/** A member that is being trained, or is trained. Its arrays are named "MEMBER/" and what follows. */
export type MemberPosition =
  | { readonly position: FitPosition; readonly optimizer: OptimizerNumbers }
  | { readonly outcome: Omit<FitOutcome, "optimizer">; readonly streams: Readonly<Record<string, number>> };

/** The optimizer's state without its arrays. */
type OptimizerNumbers = Pick<OptimizerState, "name" | "iterations" | "shared">;

/** An array of the state: "weight/PATH", "best/PATH" (weights of the best epoch) or "slot/NAME/PATH" (optimizer). */
export interface StateArray {
  readonly name: string;
  readonly shape: readonly number[];
  /** A copy of the present numbers. Call it before the next step. */
  readonly read: () => Float32Array;
}

/** The present state; valid until the next step. */
export interface FitSnapshot {
  readonly position: FitPosition;
  readonly optimizer: OptimizerNumbers;
  readonly arrays: readonly StateArray[];
}

/** A state that was saved. */
export interface FitState {
  readonly position: FitPosition;
  readonly optimizer: OptimizerNumbers;
  readonly arrays: ReadonlyMap<string, Float32Array>;
}

/** The leaves that were collected until a state was saved (leaf-collector.ts). */
export interface SavedLeaves {
  readonly everySteps: number;
  readonly leaves: readonly Hash[];
}

/** The progress that a training needs beside the loop's state to continue. */
export interface TrainingProgressSoFar extends Effort {
  /** The leaves until now; absent where none are collected. */
  readonly leaves?: SavedLeaves | undefined;
  /** Measured before the first step; null without held-out samples. */
  readonly before: Evaluation | null;
}

export interface Effort {
  /** Milliseconds that the processes before spent on the training. */
  readonly spentMs: number;
  /** The number of times the training continued after it was cut short. */
  readonly continuations: number;
}

/** A pass over samples that another process can continue. */
export interface PassId {
  readonly stage: "before" | "validation" | "after";
  /** Steps of the training that were done before it. */
  readonly iteration: number;
  /** Samples of earlier passes after the same step. */
  readonly samplesBefore: number;
}

/** The progress of a pass. */
export interface PassProgress {
  /** Samples that are done; a pass takes them in their order. */
  readonly samples: number;
  /** Sums over those samples. */
  readonly sums: Float64Array;
}

/** Name of the file in the state folder with the progress of a pass. */
export const passFileName = "evaluation.state";

/** First bytes of that file; the length of its header follows as u32, and its header as JSON. */
export const passMagic = "STEMPAS1";

/** Name of the state file in the state folder. */
export const stateFileName = "training.state";
/** First bytes of a state file; the steps done follow as u32. */
export const stateMagic = "STEMTST1";

/** Seconds of work between two saved states, unless the job or the pace below says more. */
const defaultEverySeconds = 5;
/** Saving takes at most this share of the time: one part in 20. */
const minWorkPerSave = 20;
/** Average bytes of states per second, so that the states of large models do not wear flash memory out. */
const maxBytesPerSecond = 2 ** 20;

/**
 * Decides when a state is saved. A kill costs at most the time between two states: 5 s of work for a small model, or
 * longer where saving would take more than 5 % of the time, or write more than 1 MiB a second on average (MobileNetV2
 * with Adam has a state of 56 MB: one a minute).
 */
export class StatePace {
  #nextMs: number;
  readonly #everyMs: number;

  /** @param nowMs when the process began: its start counts as work */
  constructor(nowMs: number, everySeconds = defaultEverySeconds) {
    this.#everyMs = everySeconds * 1000;
    this.#nextMs = nowMs + this.#everyMs;
  }

  isDue(nowMs: number): boolean {
    return nowMs >= this.#nextMs;
  }

  /** A state was saved, or saving it failed after that many bytes. */
  tried({ startMs, endMs, bytes }: { startMs: number; endMs: number; bytes: number }): void {
    if (this.#everyMs === 0) return;
    const pauseMs = Math.max(
      this.#everyMs,
      minWorkPerSave * (endMs - startMs),
      (bytes / maxBytesPerSecond) * 1000,
    );
    this.#nextMs = endMs + pauseMs;
  }
}
