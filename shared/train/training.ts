/**
 * A training as data: the job, its progress and its result. Types only. The training itself runs in a child
 * process from the engine bundle (see train-in-child.ts), which reads a job folder and writes a result
 * folder.
 */
import type { Hash } from "../tensor/tensor.js";
import type { Evaluation } from "./evaluation.js";

export type BackendName = "wasm" | "native";
export interface BackendChoice {
  readonly backend: BackendName;
  /** The reason for this backend, for the log. */
  readonly reason: string;
}

/** Names the samples of a training, so that they can be read again. */
export interface DatasetReference {
  /**
   * A reader of datasets/registry.ts: "nasa-battery", "battery-simulated", "mnist", "images-generated", "csv",
   * "libsvm", "idx", "image-folder", "text-folder", "samples", "canonical".
   */
  readonly reader: string;
  readonly parameters: Readonly<Record<string, string | number | boolean | readonly string[]>>;
  /** Folder of the files, for readers that need one. */
  readonly location?: string | undefined;
  /** SHA-256 of the samples in canonical form (sampleSetHash); checked before training when present. */
  readonly hash?: Hash | undefined;
}

/**
 * The form of job.json that the engine reads (docs/formats.md, "Job"). Each engine folder names the form of its engine
 * in engine.json, so that an engine of another release is given its own form.
 */
export const jobFormat = 2;

/**
 * The place and the pace at which the engine saves the state of a training, so that another process can continue it.
 */
export interface JobState {
  /** Folder for the state file, absolute or relative to the job folder. */
  readonly folder: string;
  /** Seconds of work between two states; the engine waits longer where saving costs more (StatePace). */
  readonly everySeconds?: number | undefined;
  /** A state that would need more than this, with the one before it, is not saved. */
  readonly maxBytes?: number | undefined;
}

/** A fleet's own recipe: its bundle, and what confines the process that runs it. */
export interface JobRecipe {
  /** Id of the bundle. */
  readonly id: Hash;
  /** File of the bundle, absolute or relative to the job folder. */
  readonly file: string;
  /** Program and arguments that start the confined process. */
  readonly command: readonly [string, ...string[]];
}

export interface TrainingJob {
  readonly format: typeof jobFormat;
  /** Name of a built-in recipe; with `ownRecipe`, that of a fleet's own. */
  readonly recipe: string;
  /** The code of a recipe that is not part of the engine. */
  readonly ownRecipe?: JobRecipe | undefined;
  /** The parameters that were passed; the recipe adds its defaults. The provenance keeps both apart. */
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
  readonly dataset: DatasetReference;
  /** Decimal string of an unsigned 64-bit number. */
  readonly seed: string;
  /** The number of earlier invocations of this trainer (ME9). */
  readonly invocation: number;
  /**
   * Folder of the base model (model.safetensors and architecture.json), absolute or relative to the job
   * folder. Absent: the recipe initialises a new model.
   */
  readonly base?: { readonly folder: string; readonly versionId?: Hash | undefined } | undefined;
  readonly memoryLimitMb?: number | undefined;
  /**
   * The largest number of threads; the engine takes the largest number that it can use. Every number gives the
   * same bits.
   */
  readonly threads?: number | undefined;
  /** The settings of the saved state; absent: no state is saved, and a training that is cut short begins again. */
  readonly state?: JobState | undefined;
  /** Keep only this many of the newest checkpoints. */
  readonly maxCheckpoints?: number | undefined;
}

/** The news of a running training that a person should know. */
export interface EngineNotice {
  readonly event: "training-continued" | "training-state-refused" | "training-state-unsaved";
  readonly text: string;
  /** training-continued: the steps that were done before. */
  readonly iteration?: number | undefined;
}

/** The plan of a training, told before its first step. */
export interface PlannedTraining {
  readonly samples: { readonly train: number; readonly validation: number; readonly heldOut: number };
  /** The largest number of epochs. */
  readonly epochs: number;
  /** The number of steps, by planned-training.ts. */
  readonly steps: number;
  readonly operations: number;
  readonly memoryBytes: number;
}

export type TrainingPhase =
  | "starting"
  | "reading data"
  | "evaluating"
  | "evaluating before"
  | "training"
  | "evaluating after"
  | "writing";

/** A progress report of a running training; the numbers are present from the phase "training" on. */
export interface TrainingProgress {
  readonly phase: TrainingPhase;
  readonly iteration?: number;
  /** Maximum number of iterations; early stopping may end sooner. */
  readonly iterations?: number;
  readonly epoch?: number;
  /** Maximum number of epochs. */
  readonly epochs?: number;
  readonly loss?: number;
  readonly learningRate?: number;
  readonly validation?: number | null;
}

export interface Measurement {
  readonly iteration: number;
  readonly epoch: number;
  readonly loss: number;
  readonly learningRate: number;
  /** Mean loss on the validation samples, at the end of each epoch; null without such samples. */
  readonly validation?: number | null;
  /** Further figures of a training log that was committed with the model, by their names; null: not finite. */
  readonly metrics?: Readonly<Record<string, number | null>>;
}

export interface TrainingResult {
  readonly format: 1;
  readonly engine: Hash;
  readonly backend: BackendChoice;
  /** null where the data has no held-out samples. */
  readonly metric: {
    readonly name: string;
    readonly unit: string;
    readonly lowerIsBetter: boolean;
    /** The metric on held-out samples, before the training and after it. */
    readonly before: number;
    readonly after: number;
  } | null;
  /** All measures on the held-out samples (ME4), not only the recipe's metric; absent without them. */
  readonly evaluation?: { readonly before: Evaluation; readonly after: Evaluation };
  readonly measurements: readonly Measurement[];
  readonly epochs: number;
  readonly stoppedEarly: boolean;
  readonly samples: { readonly train: number; readonly validation: number; readonly heldOut: number };
  readonly datasetHash: Hash;
  /**
   * The members that the provenance record keeps in addition to model and data: parameters, streams and their
   * counts, optimiser.
   */
  readonly provenance: Readonly<Record<string, unknown>>;
  /** Milliseconds of work, of all processes together where the training was cut short. */
  readonly durationMs: number;
  /** The number of times it continued after it was cut short; absent: none. */
  readonly continuations?: number | undefined;
  /** Older checkpoints that were not kept, because of the job's maxCheckpoints; absent: none. */
  readonly checkpointsDropped?: number | undefined;
  /** Names of the files in the result folder. */
  readonly files: {
    readonly model: "model.safetensors";
    readonly architecture: "architecture.json";
    readonly optimizer?: "optimizer.safetensors" | undefined;
    /** Oldest first. */
    readonly checkpoints?:
      readonly { readonly name: string; readonly epoch: number; readonly iteration: number }[] | undefined;
  };
}
