/** Answers of a repository about its store: damage, checks, backups, counts. Types only. */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { NotLookedAt } from "../tiers/tier-port.js";
import type { ErrorCode } from "../../../../shared/errors.js";
import type { RepairedPack } from "../../../../shared/objects/pack-maintenance.js";
import type { UnreadableVersion } from "./version-answers.js";

/** Damage that is known without reading the disk. */
export interface KnownDamage {
  /** Packs whose header, trailer or index is damaged or missing, and objects that were found damaged. */
  readonly packs: readonly {
    readonly pack: string;
    readonly id: Hash | null;
    readonly code: ErrorCode;
    readonly message: string;
  }[];
  readonly versions: readonly UnreadableVersion[];
}

export interface CheckReport {
  readonly versions: number;
  readonly objects: number;
  readonly bytes: number;
  readonly problems: readonly { readonly what: string; readonly id: string; readonly message: string }[];
  /**
   * Damaged or missing objects without which versions cannot be recovered here, with these versions. Absent where
   * there are none.
   */
  readonly unrecoverable?: readonly {
    readonly id: string;
    readonly kind: string;
    readonly versions: readonly {
      readonly versionId: Hash;
      readonly name: string;
      readonly version: number;
      /** True if it has no tensors here and a replay gives it. */
      readonly isDropped: boolean;
    }[];
    /** True for an engine's archive where this build is that engine: it recovers these versions all the same. */
    readonly isThisBuild?: true;
  }[];
  /**
   * Engines that kept versions name and that are not in the store, with the number of these versions. Their
   * models are whole; their trainings cannot be replayed here.
   */
  readonly absentEngines: readonly {
    readonly engine: Hash;
    readonly versions: number;
    /** True where this build is that engine: it replays them all the same. */
    readonly isThisBuild?: true;
  }[];
  /** Versions without tensors that were replayed; absent where that was not asked for. */
  readonly replayed?: number;
  /**
   * The objects that could not be read because a tier could not be reached; no damage. Absent where there is nothing.
   */
  readonly notLookedAt?: readonly NotLookedAt[];
  /** The packs that were replaced, where a repair was asked for and something was damaged. */
  readonly repaired?: readonly RepairedPack[];
}

export interface BackupReport {
  /** Journal position up to which the backup reaches. */
  readonly position: number;
  /** Bytes copied by this backup. */
  readonly bytes: number;
  /**
   * The parts that are damaged or missing here and so in the backup, unless an earlier backup to the same folder has
   * them. Where there are any, the backup does not count as one: no device deletes anything because of it.
   */
  readonly problems: CheckReport["problems"];
}

/** Counts of the fleet's versions and objects, and their bytes on disk. */
export interface FleetStats {
  readonly versions: number;
  readonly tensors: number;
  /** Tensors that are not stored raw. */
  readonly coded: {
    readonly tensors: number;
    readonly storedBytes: number;
    /** Bytes of the decoded tensors. */
    readonly byteLength: number;
    /** The largest number of tensors that must be decoded before another one. */
    readonly deepest: number;
  };
  readonly objects: number;
  readonly packBytes: number;
  readonly journalBytes: number;
  readonly logicalBytes: number;
  readonly packs: number;
  /** Versions that replays recover, and the bytes of their tensors, which need not be stored. */
  readonly dropped: { readonly versions: number; readonly tensorBytes: number };
  /** Packs that are small enough to be merged; and what was merged since the fleet was opened. */
  readonly smallPacks: number;
  readonly merged: { readonly packs: number; readonly bytes: number };
  /** Tensors whose low-order bytes are in a tier (or next to the packs, after a restore), and these bytes. */
  readonly low: { readonly tensors: number; readonly bytes: number; readonly files: number };
  /** Packs that are damaged or missing, as far as is known. */
  readonly damagedPacks: number;
  /** Versions that the journal knows and the store cannot read. */
  readonly unreadable: readonly UnreadableVersion[];
}
