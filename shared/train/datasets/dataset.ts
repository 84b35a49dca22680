/**
 * What every dataset reader gives: samples in memory as float32, in three parts that never mix.
 * Knows no format and no model. Readers are registered by name in registry.ts.
 */
import type { Files } from "../../ports.js";
import type { DatasetReference } from "../training.js";

/**
 * Samples of one part; row-major. `inputs` has count × product(inputShape) numbers, `targets` count ×
 * targetSize (regression) or count (class indices).
 */
export interface SamplePart {
  readonly count: number;
  readonly inputs: Float32Array;
  readonly targets: Float32Array;
}

/**
 * A classification's targets are whole numbers 0 … classes − 1; a regression's are in `unit` as the recipe
 * documents.
 */
export interface SampleSet {
  readonly task: "regression" | "classification";
  /** Without the batch dimension. */
  readonly inputShape: readonly number[];
  /** Numbers a target has (1 for a classification). */
  readonly targetSize: number;
  /** Number of classes; 0 for a regression. */
  readonly classes: number;
  readonly train: SamplePart;
  /** Early stopping looks here. */
  readonly validation: SamplePart;
  /** Never trained on, never looked at by early stopping; the metric before and after is measured here. */
  readonly heldOut: SamplePart;
  /**
   * Where the samples came from and what was done to them, for the provenance record (format, columns and
   * roles, transformations, split).
   */
  readonly description: Readonly<Record<string, unknown>>;
}

/** What readers need of the file port. */
export type DatasetFiles = Pick<Files, "read" | "list" | "stat">;

export type DatasetParameters = DatasetReference["parameters"];

export interface DatasetReader {
  readonly name: string;
  /** One line for people. */
  readonly title: string;
  readonly task: SampleSet["task"];
  /** Whether `location` (a folder) is needed. */
  readonly needsLocation: boolean;
  /** File names that must lie in the location for this reader to be usable there. */
  readonly requiredFiles: readonly string[];
  /** @throws DATASET_MALFORMED, DATASET_EMPTY, RECIPE_PARAMETERS_INVALID, FILE_MISSING */
  read(reference: DatasetReference, files: DatasetFiles): Promise<SampleSet>;
}

/** Bounds on what a reader may hold, checked before anything is allocated. */
export const maxSamples = 1_000_000;
export const maxSampleValues = 2 ** 27;

export function partLength(set: Pick<SampleSet, "inputShape">): number {
  return set.inputShape.reduce((product, dimension) => product * dimension, 1);
}
