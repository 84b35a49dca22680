/** What a recovery returns and how its environment is judged. Types only. */
import type { Hash, TensorSource } from "../tensor/tensor.js";
import type { Architecture, LeafTable, Names, SaveRecord } from "../model/model.js";

/** Environment of a save, stored once by content (MM1). Flat: field → value. */
export type Environment = Readonly<Record<string, string>>;
export interface EnvironmentVerdict {
  /**
   * `same`: all fields equal. `compatible`: only fields differ that do not decide bits. `different`: others
   * do.
   */
  readonly verdict: "same" | "compatible" | "different";
  readonly differing: readonly {
    readonly field: string;
    readonly recorded: string | undefined;
    readonly here: string | undefined;
  }[];
}
/** What follows from the verdict. */
export type EnvironmentPolicy = "ignore" | "report" | "refuse-different" | "refuse-any";

export interface RecoverySteps {
  /** Milliseconds each. */ readonly loadMs: number;
  readonly rebuildMs: number;
  readonly checkEnvironmentMs: number;
  readonly verifyMs: number;
}

export interface RecoveredModel {
  readonly versionId: Hash;
  readonly record: SaveRecord;
  readonly architecture: Architecture | undefined;
  readonly leaves: LeafTable;
  /** Same order as `leaves`. */
  readonly sources: readonly TensorSource[];
  readonly names: Names;
  readonly environment: EnvironmentVerdict;
  readonly steps: RecoverySteps;
  readonly byteLength: number;
  /**
   * The Merkle root that was recomputed from the bytes; equal to record.root, or recovery has thrown
   * ROOT_MISMATCH.
   */
  readonly verifiedRoot: Hash;
}
