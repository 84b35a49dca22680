/**
 * A training as data: the job, its progress and its result. Types only. The training itself runs in a child
 * process from the engine bundle (see train-in-child.ts), which reads a job folder and writes a result
 * folder.
 */
import type { Hash } from "../tensor/tensor.js";
import type { Evaluation } from "./evaluation.js";
import type { StateLeaves } from "./state-leaf.js";

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

/** Asks for the leaves of a training (state-leaf.ts), and for its states to be kept. */
export interface JobLeaves {
  /** Steps between two leaves; more where that gives more leaves, or states, than there may be. */
  readonly everySteps: number;
  /** The most that they may take of the time, in percent; more steps are between them where they take more. */
  readonly maxCostPercent?: number | undefined;
  /** Folder for the states, absolute or relative to the job folder, and their bytes; absent: none is kept. */
  readonly keep?: { readonly folder: string; readonly bytes: number } | undefined;
}

/** A part of a training that is run alone (run-segments.ts). */
export interface JobSegment {
  /** The state that it begins from, absolute or relative to the job folder; absent: before the first step. */
  readonly file?: string | undefined;
  /** Steps that are done there. */
  readonly fromStep: number;
  readonly toStep: number;
  /** True if the training is to end by itself after `toStep`; else it is stopped there. */
  readonly isLast: boolean;
  /** Leaves after each so many steps are wanted too; absent: only at the end. */
  readonly everySteps?: number | undefined;
}

/** The leaves that a segment gave. */
export interface SegmentRun {
  /** The leaf of the state that it began from. */
  readonly begin?: Hash | undefined;
  readonly leaves: readonly { readonly step: number; readonly leaf: Hash }[];
  /** The reason why it could not begin: its state is none of this training. */
  readonly unusable?: string | undefined;
  /** The reason why it could not go on. */
  readonly failed?: string | undefined;
}

/** Name of the file of a kept state after so many steps. */
export const keptStateName = (iteration: number): string => `${String(iteration).padStart(10, "0")}.state`;

/** Name of the file in the result folder with what segments gave. */
export const segmentsFile = "segments.json";

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
  /** The steps after which the loss is told, in ascending order. Not with `state`, ensembles or k-means. */
  readonly lossReports?: readonly number[] | undefined;
  /** Asks for its leaves; absent: none is computed. */
  readonly leaves?: JobLeaves | undefined;
  /** The parts that are run alone, without a model as the result; absent: the whole training is run. */
  readonly segments?: readonly JobSegment[] | undefined;
}

/** The loss of a running training, told after a step that its job names; the same for the same training. */
export interface LossReport {
  readonly step: number;
  /** The mean loss of the batches since the report before. */
  readonly loss: number;
}

/** The news of a running training that a person should know. */
export interface EngineNotice {
  readonly event:
    "training-continued" | "training-state-refused" | "training-state-unsaved" | "training-state-unkept";
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
  /** The leaves of the training, or the name of what trains without any; absent: they were not asked for. */
  readonly leaves?: StateLeaves | { readonly none: string } | undefined;
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
