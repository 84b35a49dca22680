/**
 * The result of every dataset reader: samples in memory as float32, in three parts that never mix. Readers
 * are registered by name in registry.ts.
 */
import type { Files } from "../../ports.js";
import type { TargetForm } from "./target-form.js";
import type { DatasetReference } from "../training.js";

/** The samples of one part, row-major. */
export interface SamplePart {
  readonly count: number;
  /** count × product(inputShape) numbers. */
  readonly inputs: Float32Array;
  /**
   * Regression: count × targetSize numbers. Classification: count class indices from 0 to classes − 1. General: in each
   * row the targets of all outputs, one after the other.
   */
  readonly targets: Float32Array;
  /** A number ≥ 0 for each sample with which a step multiplies its loss. Absent: 1. */
  readonly weights?: Float32Array | undefined;
  /** The texts that are kept with each sample and are no input, in the order of the set's `metadata`. */
  readonly metadata?: readonly (readonly string[])[] | undefined;
}

/** `general`: the targets are described by `outputs`. */
export type SampleTask = "regression" | "classification" | "general";

export interface SampleSet {
  readonly task: SampleTask;
  /** The shape without the batch dimension. */
  readonly inputShape: readonly number[];
  /** Numbers per target; 1 for a classification; the sum of all outputs for the task `general`. */
  readonly targetSize: number;
  /** Number of classes; 0 for any other task than classification. */
  readonly classes: number;
  /** The task `general`: what each output of the model is compared with, in the order of the outputs. */
  readonly outputs?: readonly TargetForm[] | undefined;
  /** Names of the texts that are kept with each sample. */
  readonly metadata?: readonly string[] | undefined;
  readonly train: SamplePart;
  /** Used by early stopping only. Empty where `withoutParts` names it. */
  readonly validation: SamplePart;
  /** Used neither for training nor for early stopping; the metric before and after is measured on it. */
  readonly heldOut: SamplePart;
  /** Parts that the data set does without. */
  readonly withoutParts?: readonly ("validation" | "heldOut")[] | undefined;
  /**
   * The origin of the samples and what was done to them, for the provenance record: format, columns and their
   * roles, transformations, split.
   */
  readonly description: Readonly<Record<string, unknown>>;
}

/** The part of the file port that readers need. */
export type DatasetFiles = Pick<Files, "read" | "list" | "stat">;

export type DatasetParameters = DatasetReference["parameters"];

export interface DatasetReader {
  readonly name: string;
  /** True if the reference must have a `location` (a folder). */
  readonly needsLocation: boolean;
  /**
   * Reads and checks the samples.
   * @throws DATASET_MALFORMED, DATASET_EMPTY, RECIPE_PARAMETERS_INVALID, FILE_MISSING
   */
  read(reference: DatasetReference, files: DatasetFiles): Promise<SampleSet> | SampleSet;
}

/** Limits of one part, checked before anything is allocated: samples, and numbers of all inputs together. */
export const maxSamples = 1_000_000;
export const maxSampleValues = 2 ** 27;

/** Returns the targets that each output of a model for this set is compared with. */
export function outputsOf({
  task,
  targetSize,
  classes,
  outputs = [],
}: Pick<SampleSet, "task" | "targetSize" | "classes" | "outputs">): readonly TargetForm[] {
  switch (task) {
    case "general":
      return outputs;
    case "classification":
      return [{ name: "label", kind: "class", shape: [], classes }];
    case "regression":
      return [{ name: "label", kind: "numbers", shape: [targetSize], classes: 0 }];
  }
}

/** Numbers per input. */
export function sampleLength(set: Pick<SampleSet, "inputShape">): number {
  return set.inputShape.reduce((product, dimension) => product * dimension, 1);
}
