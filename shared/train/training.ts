/**
 * A training as data: what goes in, what comes out. Types only. The training itself runs in a child
 * process from the engine bundle (see engine.ts): job folder in, result folder out.
 */
import type { Hash } from "../tensor/tensor.js";
import type { Evaluation } from "./evaluation.js";

export type BackendName = "wasm" | "native";
export interface BackendChoice {
  readonly backend: BackendName;
  /** Why not the other one, for the person who reads the log. */
  readonly reason: string;
}

/** What a recipe needs to find its samples again. */
export interface DatasetReference {
  /**
   * Registered reader: "nasa-battery", "battery-simulated", "mnist", "images-generated", "samples" (what a
   * device collected) …
   */
  readonly reader: string;
  readonly parameters: Readonly<Record<string, string | number | boolean | readonly string[]>>;
  /** Folder or file, when the reader has one. */
  readonly location?: string;
  /** SHA-256 over the samples in canonical form; checked before training when present. */
  readonly hash?: Hash;
}

export interface TrainingJob {
  readonly format: 1;
  readonly recipe: string;
  /** As passed; defaults are filled in from the recipe and both are kept apart in the provenance. */
  readonly parameters: Readonly<Record<string, string | number | boolean>>;
  readonly dataset: DatasetReference;
  /** Decimal string of an unsigned 64-bit number. */
  readonly seed: string;
  /** Times this trainer was invoked before (ME9). */
  readonly invocation: number;
  /**
   * Base model in the job folder (model.safetensors + architecture.json); absent: the recipe's own
   * initialisation.
   */
  readonly base?: { readonly folder: string; readonly versionId?: Hash };
  readonly memoryLimitMb?: number;
  readonly threads?: number;
}

export interface Measurement {
  readonly iteration: number;
  readonly epoch: number;
  readonly loss: number;
  readonly learningRate: number;
  readonly validation?: number;
}

export interface TrainingResult {
  readonly format: 1;
  readonly engine: Hash;
  readonly backend: BackendChoice;
  readonly metric: {
    readonly name: string;
    readonly unit: string;
    readonly lowerIsBetter: boolean;
    /** On held-out samples. */
    readonly before: number;
    readonly after: number;
  };
  /** All measures on the held-out samples (ME4), not only the recipe's own. */
  readonly evaluation?: { readonly before: Evaluation; readonly after: Evaluation };
  readonly measurements: readonly Measurement[];
  readonly epochs: number;
  readonly stoppedEarly: boolean;
  readonly samples: { readonly train: number; readonly validation: number; readonly heldOut: number };
  readonly datasetHash: Hash;
  /**
   * Everything the provenance record needs beside model and data: parameters (passed, defaulted), streams and
   * counts, optimiser.
   */
  readonly provenance: Readonly<Record<string, unknown>>;
  readonly durationMs: number;
  /** Files in the result folder. */
  readonly files: {
    readonly model: "model.safetensors";
    readonly architecture: "architecture.json";
    readonly optimizer?: "optimizer.safetensors";
    readonly checkpoints?: readonly string[];
  };
}
