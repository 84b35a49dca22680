/**
 * An evaluation as data: the job and its result. It runs in a child process like a training (see
 * evaluate-in-child.ts).
 */
import type { Hash } from "../tensor/tensor.js";
import type { Evaluation } from "./evaluation.js";
import type { BackendChoice, DatasetReference, jobFormat } from "./training.js";

export interface EvaluationJob {
  readonly format: typeof jobFormat;
  /** Distinguishes the job from a training. */
  readonly evaluate: {
    /** Classification: also count samples whose class is among the k largest outputs. */
    readonly top?: number | undefined;
    /** Evaluate only the first held-out samples. */
    readonly limit?: number | undefined;
    /** True to write also the model's outputs, into the file `outputsFile`. */
    readonly outputs?: boolean | undefined;
    /** True to measure also how long a sample takes, and the memory of the process. */
    readonly inference?: boolean | undefined;
  };
  readonly dataset: DatasetReference;
  /** The model's folder: model.safetensors with leaves named "layer/weight", and architecture.json. */
  readonly base: { readonly folder: string; readonly versionId?: Hash | undefined };
  readonly memoryLimitMb?: number | undefined;
  /** The largest number of threads; the engine takes the largest number that it can use. */
  readonly threads?: number | undefined;
}

export interface EvaluationResult {
  readonly format: 1;
  readonly engine: Hash;
  readonly backend: BackendChoice;
  readonly evaluation: Evaluation;
  readonly samples: { readonly evaluated: number; readonly heldOut: number };
  readonly datasetHash: Hash;
  readonly durationMs: number;
  /** The cost of inference, where the job asks for it. */
  readonly inference?: InferenceCost | undefined;
}

/** The cost of running a model: the median time of one sample, and the most memory that the process had. */
export interface InferenceCost {
  readonly milliseconds: number;
  readonly peakBytes: number;
}

/** The outputs in the result folder: float32, little-endian, one row for each evaluated sample. */
export const outputsFile = "outputs.f32";

/** Maximum of `limit` and `top`. */
export const maxEvaluated = 1_000_000;
