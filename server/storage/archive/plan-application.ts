/** Parameters, report and defaults of applying a storage plan. Types and constants only. */
import type { ErrorCode } from "../../../shared/errors.js";
import type { ObjectPruner } from "../../../shared/objects/object-store.js";
import type { Clock } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import type { ArchiveCoder } from "./archive-coder.js";
import type { StaleTensor } from "./pending-work.js";

export type ApplyTarget = Pick<FleetRepository, "liveObjects" | "planCollection" | "collect"> & {
  readonly objects: Pick<
    ObjectPruner,
    "has" | "stat" | "list" | "encodingOf" | "openTensor" | "begin" | "lease" | "release"
  >;
};

export interface ApplyParts {
  readonly target: ApplyTarget;
  readonly coder: ArchiveCoder;
  readonly clock: Clock;
  /** Free bytes of the store's disk. */
  readonly freeBytes: () => Promise<number>;
}
export interface ApplyOptions {
  /** Stops after this time; no limit when absent. */
  readonly timeMs?: number | undefined;
  /** Stops where superseded copies that are not collected yet take this many bytes. */
  readonly diskBytes?: number | undefined;
  /** Bytes of one pack. */
  readonly batchBytes?: number | undefined;
  /** Bytes of new copies between two collections. */
  readonly collectBytes?: number | undefined;
  /** Pause after each pack. */
  readonly pauseMs?: number | undefined;
  readonly dryRun?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: ApplyProgress) => void) | undefined;
}

export interface ApplyProgress {
  readonly done: number;
  readonly total: number;
  readonly writtenBytes: number;
  readonly step: "writing" | "collecting";
}

export interface ApplyReport {
  readonly fleet: string;
  readonly dryRun: boolean;
  /** The reason for ending early; null where the plan was carried out completely. */
  readonly stopped: "time" | "disk" | "interrupted" | null;
  /** Tensors that were rewritten. */
  readonly rewritten: number;
  /** Tensors left for the next application. */
  readonly left: number;
  /** Tensors that were already stored as planned. */
  readonly already: number;
  /** Tensors left as they were because rewriting them would have gained nothing. */
  readonly notSmaller: number;
  /** Tensors that the plan itself keeps as they are. */
  readonly kept: number;
  /** Tensors of kept versions that were added after the plan was made. */
  readonly unplanned: number;
  readonly stale: readonly StaleTensor[];
  readonly failed: readonly { readonly tensor: Hash; readonly code: ErrorCode; readonly message: string }[];
  /**
   * Stored bytes of the planned tensors with their index entries: before, as the plan predicts, and after.
   */
  readonly bytesBefore: number;
  readonly bytesPredicted: number;
  readonly bytesReached: number;
  readonly writtenBytes: number;
  readonly packs: number;
  readonly freedBytes: number;
  readonly durationMs: number;
  /** True if kept versions come after those of the plan: they were not looked at. */
  readonly hasNext: boolean;
}

export const applyDefaults = {
  batchBytes: 32 * 1024 * 1024,
  collectBytes: 128 * 1024 * 1024,
  pauseMs: 20,
} as const;
