/**
 * An evaluation as data: what goes into the engine, what comes out. Types only; it runs in a child process
 * like a training (see evaluate-in-child.ts).
 */
import type { Hash } from "../tensor/tensor.js";
import type { Evaluation } from "./evaluation.js";
import type { BackendChoice, DatasetReference } from "./training.js";

export interface EvaluationJob {
  readonly format: 1;
  /**
   * What makes this job no training. `limit`: the first so many held-out samples; `top`: a classification's
   * top-k beside its top-1; `outputs`: the model's outputs are wanted too, in the file `outputsFile`.
   */
  readonly evaluate: { readonly top?: number; readonly limit?: number; readonly outputs?: boolean };
  readonly dataset: DatasetReference;
  /** The model: model.safetensors with leaves named "layer/weight", and architecture.json. */
  readonly base: { readonly folder: string; readonly versionId?: Hash };
  readonly memoryLimitMb?: number;
}

export interface EvaluationResult {
  readonly format: 1;
  readonly engine: Hash;
  readonly backend: BackendChoice;
  readonly evaluation: Evaluation;
  readonly samples: { readonly evaluated: number; readonly heldOut: number };
  readonly datasetHash: Hash;
  readonly durationMs: number;
}

/** In the result folder: float32, little-endian, a row for each sample that was evaluated. */
export const outputsFile = "outputs.f32";

/** Most samples and classes that may be asked for. */
export const mostEvaluated = 1_000_000;
