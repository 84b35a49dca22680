/** Defines what a trial on live inputs tells the line's software and people. Types only. */
import type { Hash } from "../../shared/tensor/tensor.js";
import type { BaseFolder } from "../lines/activator.js";

/** The versions that the software is to run beside each other; null: nothing is on trial, or nothing more is needed. */
export interface TrialForSoftware {
  readonly line: string;
  readonly trial: BaseFolder | null;
  readonly running: BaseFolder | null;
  readonly inputs: Pick<TrialStatus, "wanted" | "compared" | "waiting"> | null;
}

export interface TrialStatus {
  readonly rollout: string;
  readonly versionId: Hash;
  /** Live inputs that are asked for, that were compared, and that wait for their labels. */
  readonly wanted: number;
  readonly compared: number;
  readonly waiting: number;
  /** True if its time is over, and nothing more is taken. */
  readonly isOver: boolean;
}

export interface ObservationsTaken {
  /** Observations of this request that were kept, and those that were not needed or came too fast. */
  readonly taken: number;
  readonly skipped: number;
  readonly compared: number;
  readonly wanted: number;
  /** True if nothing more is needed. */
  readonly isComplete: boolean;
}
