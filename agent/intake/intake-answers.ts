/** Defines the intake's answers about the samples of a line. Types only. */
import type { SampleForm } from "../../shared/train/datasets/sample-form.js";
import type { SampleSplit } from "../../shared/train/datasets/sample-format.js";
import type { Pin } from "./retention.js";

export interface IntakeStatus {
  readonly samples: number;
  readonly train: number;
  readonly heldOut: number;
  /** Samples that trainings skip, because they do not have the form that the line's model needs. */
  readonly unfit: number;
  /** The form that samples of this line need, in words; null while neither model nor sample decides it. */
  readonly form: string | null;
  readonly bytes: number;
  readonly segments: number;
  /** Segments with a torn or damaged record: what follows it there is not read. */
  readonly damaged: number;
  /** One past the newest index. */
  readonly end: number;
}
export interface Taken {
  readonly accepted: number;
  readonly alreadyThere: number;
  readonly firstIndex: number;
  readonly end: number;
}

/** The samples that a training uses that starts now. */
export interface Snapshot {
  /** Segments as the dataset reader pins them: "name:bytes". */
  readonly segments: readonly string[];
  /** Indices of their samples. */
  readonly range: Pin;
  /** The form of the samples that it uses; it skips the others. */
  readonly form: SampleForm;
  /** Samples that have the form, and samples that it skips. */
  readonly usable: number;
  readonly unfit: number;
}

/** A stored sample as it is listed. */
export interface ListedSample {
  readonly index: number;
  readonly id: string;
  readonly timeMs: number;
  readonly split: SampleSplit;
  readonly shape: readonly number[];
  readonly label?: readonly number[] | undefined;
  /** Names of its targets; absent without any. */
  readonly targets?: readonly string[];
  /** The reason why trainings skip it; null where they use it. */
  readonly unfit: string | null;
}

/** The samples to remove: those with these ids, those that do not fit, or all. */
export type Removal = { readonly ids: readonly string[] } | { readonly all: true } | { readonly unfit: true };

export interface Removed {
  readonly removed: number;
  /** The number of these that a model was trained on that the server has not released yet. */
  readonly trainedOn: number;
  /** Ids that no stored sample has. */
  readonly unknown: readonly string[];
}
