/** Defines the result of a recovery. Types only. */
import type { Hash, TensorSource } from "../tensor/tensor.js";
import type { Architecture, LeafTable, Names, SaveRecord } from "../model/model.js";

import type { EnvironmentVerdict } from "../model/environment.js";

export interface RecoverySteps {
  readonly loadMs: number;
  readonly rebuildMs: number;
  readonly checkEnvironmentMs: number;
  readonly verifyMs: number;
}

export interface RecoveredModel {
  readonly versionId: Hash;
  readonly record: SaveRecord;
  readonly architecture: Architecture | undefined;
  readonly leaves: LeafTable;
  /** The sources in the same order as `leaves`. */
  readonly sources: readonly TensorSource[];
  readonly names: Names;
  readonly environment: EnvironmentVerdict;
  readonly steps: RecoverySteps;
  readonly byteLength: number;
  /** The number of the model's tensors, where only some layers were recovered. `leaves` and `names` are theirs. */
  readonly partOf?: number;
  /**
   * The Merkle root recomputed from the bytes. Always that of the recorded tree, and of a model
   * `record.root`: else recovery throws ROOT_MISMATCH.
   */
  readonly verifiedRoot: Hash;
}
