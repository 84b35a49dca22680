/**
 * The result of every dataset reader: samples in memory as float32, in three parts that never mix. Readers
 * are registered by name in registry.ts.
 */
import type { Files } from "../../ports.js";
import type { DatasetReference } from "../training.js";

/** The samples of one part, row-major. */
export interface SamplePart {
  readonly count: number;
  /** count × product(inputShape) numbers. */
  readonly inputs: Float32Array;
  /** Regression: count × targetSize numbers. Classification: count class indices from 0 to classes − 1. */
  readonly targets: Float32Array;
}

export interface SampleSet {
  readonly task: "regression" | "classification";
  /** Without the batch dimension. */
  readonly inputShape: readonly number[];
  /** Numbers per target; 1 for a classification. */
  readonly targetSize: number;
  /** Number of classes; 0 for a regression. */
  readonly classes: number;
  readonly train: SamplePart;
  /** Used by early stopping only. */
  readonly validation: SamplePart;
  /** Used neither for training nor for early stopping; the metric before and after is measured on it. */
  readonly heldOut: SamplePart;
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
  /** Whether the reference must have a `location` (a folder). */
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

/** Numbers per input. */
export function sampleLength(set: Pick<SampleSet, "inputShape">): number {
  return set.inputShape.reduce((product, dimension) => product * dimension, 1);
}
