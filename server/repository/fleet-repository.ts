/**
 * The repository port: one fleet's models, lineage and storage, with or without a running server
 * around it. Types only; the implementation is beside it (open-repository.ts). Commands, HTTP and
 * ingest speak to this and to nothing below it.
 */
import type { Hash, TensorSource } from "../../shared/tensor/tensor.js";
import type { Leaf, ModelSource, SaveRecord } from "../../shared/model/model.js";
import type { Fact } from "../../shared/journal/fact.js";
import type { VersionQuery, VersionStateName } from "../catalog/version-query.js";
import type { Hold } from "./state/hold.js";
import type { FleetRetention } from "./retention/fleet-retention.js";
import type { DatasetState } from "./state/state.js";
import type { Journal } from "../../shared/journal/journal.js";
import type { CollectionPlan, ObjectPruner } from "../../shared/objects/object-store.js";
import type { EnvironmentPolicy } from "../../shared/model/environment.js";
import type { RecoveredModel } from "../../shared/recover/recovery.js";

/** One version as the catalog knows it. */
export interface VersionSummary {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly record: SaveRecord;
  readonly position: number;
  readonly recordedAtMs: number;
  readonly state: VersionStateName;
  readonly tags: readonly string[];
  readonly held: boolean;
  /** Who holds it and why. */
  readonly hold?: Hold;
  readonly retired?: { readonly atMs: number; readonly because: string };
  /** Bytes of all tensors, and of those that this version brought into the store. */
  readonly tensorBytes: number;
  readonly ownBytes: number;
}

export interface SaveOptions {
  readonly name: string;
  readonly device?: string;
  readonly line?: string;
  /** Version ids; the first is the one compared with. */
  readonly bases?: readonly Hash[];
  readonly successorOf?: Hash;
  readonly approach?: "snapshot" | "update";
  /** The float scheme that the tensors went through; absent: exact. */
  readonly scheme?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly measurements?: Uint8Array;
  readonly checkpoints?: Uint8Array;
  readonly provenance?: Uint8Array;
  readonly metadata?: Readonly<Record<string, string | number | boolean>>;
  readonly attachments?: readonly { readonly name: string; readonly bytes: Uint8Array }[];
}

export interface SaveReport {
  readonly summary: VersionSummary;
  readonly approach: "snapshot" | "update";
  /** record + fact + new owner map (FORMATS). */ readonly overheadBytes: number;
  readonly newTensorBytes: number;
  readonly packBytes: number;
  readonly steps: { readonly extractMs: number; readonly persistMs: number };
}

export interface ModelDiff {
  readonly a: Hash;
  readonly b: Hash;
  readonly sameArchitecture: boolean;
  /** Neither has an architecture. */
  readonly opaque: boolean;
  readonly comparisons: number;
  readonly changes: readonly {
    readonly kind: "changed" | "added" | "removed" | "renamed" | "moved" | "reshaped";
    readonly path: string;
    readonly name: string;
    readonly otherPath?: string;
    readonly otherName?: string;
    readonly a?: Leaf;
    readonly b?: Leaf;
  }[];
}

export interface DeviceSummary {
  readonly device: string;
  readonly profile: string;
  readonly lines: readonly string[];
  readonly enrolledAtMs: number;
  readonly state: "enrolled" | "revoked" | "quarantined";
  readonly session: number;
  readonly publicKey: string;
  readonly tokenHash: string;
  readonly active: Readonly<
    Record<
      string,
      {
        readonly versionId: Hash;
        readonly deviceAtMs: number;
        readonly deviceClockErrorMs: number | null;
        readonly serverAtMs: number;
      }
    >
  >;
}

/** What a device ran at a moment, or unknown (MM12). */
export interface FleetMoment {
  readonly device: string;
  readonly line: string;
  readonly versionId: Hash | "unknown";
  readonly why: string;
  readonly sinceMs?: number;
  readonly uncertainMs?: number | null;
}

/** One page of the versions that a query finds. */
export interface VersionPage {
  /** In the order that the query names. */
  readonly versions: readonly VersionSummary[];
  /** How many versions the query finds on all pages together. */
  readonly total: number;
}

export interface CheckReport {
  readonly versions: number;
  readonly objects: number;
  readonly bytes: number;
  readonly problems: readonly { readonly what: string; readonly id: string; readonly message: string }[];
}

export interface FleetRepository {
  readonly fleet: string;
  readonly home: string;
  readonly objects: ObjectPruner;
  readonly journal: Journal;

  /**
   * Model references: name, name:version, name:tag, version id or prefix of ≥ 8 hex digits. @throws
   * MODEL_NOT_FOUND, MODEL_AMBIGUOUS
   */
  resolve(reference: string): VersionSummary;
  get(versionId: Hash): VersionSummary | undefined;
  versions(filter?: {
    readonly name?: string;
    readonly device?: string;
    readonly line?: string;
    readonly includeRetired?: boolean;
  }): readonly VersionSummary[];
  /** From the version back through its bases, newest first; first base first. */
  lineage(versionId: Hash): readonly VersionSummary[];
  leaves(versionId: Hash): Promise<readonly Leaf[]>;

  save(model: ModelSource, options: SaveOptions): Promise<SaveReport>;
  /**
   * The other door, used by ingest: the objects are in the store, the record bytes are as received
   * (best put in the same pack as kind "record"; a pack of its own is written when the store lacks them).
   * Appends the fact under the collection lock; the same record again is answered by the same summary.
   * @throws RECORD_INVALID, IDENTITY_FOREIGN, NAME_INVALID, REFERENCE_MISSING, ROOT_MISMATCH
   */
  record(recordBytes: Uint8Array): Promise<VersionSummary>;
  /** Decodes the model from disk and compares roots; appends `stored`. */
  confirmStored(versionId: Hash): Promise<VersionSummary>;
  release(versionId: Hash, because: string): Promise<VersionSummary>;

  recover(
    versionId: Hash,
    options?: { readonly environment?: EnvironmentPolicy; readonly here?: Readonly<Record<string, string>> },
  ): Promise<RecoveredModel>;
  diff(a: Hash, b: Hash): Promise<ModelDiff>;
  asOf(atMs: number): readonly FleetMoment[];
  /**
   * One page of the versions that the query finds, through the catalog (an index, rebuilt from the journal).
   * @throws HTTP_REQUEST_INVALID
   */
  list(query: VersionQuery): Promise<VersionPage>;

  tag(name: string, tag: string, versionId: Hash | null): Promise<void>;
  /** @throws MODEL_HELD, MODEL_IN_USE (assigned to or active on a device) */
  retire(versionId: Hash, because: string): Promise<void>;
  /** What `retire` would refuse now. @throws MODEL_NOT_FOUND, MODEL_HELD, MODEL_IN_USE */
  checkRetirable(versionId: Hash): void;
  /** `by`: who, as they name themselves. @throws MODEL_HELD where it is held already, MODEL_RETIRED */
  hold(versionId: Hash, because: string, by?: string): Promise<void>;
  unhold(versionId: Hash, because: string, by?: string): Promise<void>;
  /** Rules by which versions are retired as they grow old. */
  readonly retention: FleetRetention;
  /** Journal position up to which a backup exists (entries before it are in it); 0 without one. */
  backedUpTo(): number;
  /** Where this store was restored to, when its last start of history was a restore; null otherwise. */
  restoredTo(): { readonly position: number; readonly atMs: number } | null;
  devices(): readonly DeviceSummary[];
  device(device: string): DeviceSummary | undefined;
  assignment(device: string, line: string): Hash | undefined;
  /** Whether the version was ever assigned to the device: it may have it, whatever it runs now. */
  wasAssigned(device: string, versionId: Hash): boolean;
  datasets(): readonly DatasetState[];
  /** Appends any other fact and applies it to the state. */
  append(...facts: readonly Fact[]): Promise<readonly number[]>;

  /** Ids of every object that must stay (owner maps, records, leases, holds …). */
  liveObjects(): Promise<ReadonlySet<Hash>>;
  planCollection(): Promise<CollectionPlan>;
  collect(plan: CollectionPlan): Promise<{ readonly freedBytes: number }>;
  check(options?: { readonly sample?: number }): Promise<CheckReport>;
  reindex(): Promise<{ readonly versions: number }>;
  /**
   * `coded`: tensors that do not lie raw, their bytes on disk and in full, and how many others the deepest of
   * them needs one after the other.
   */
  stats(): Promise<{
    readonly versions: number;
    readonly tensors: number;
    readonly coded: {
      readonly tensors: number;
      readonly storedBytes: number;
      readonly byteLength: number;
      readonly deepest: number;
    };
    readonly objects: number;
    readonly packBytes: number;
    readonly journalBytes: number;
    readonly logicalBytes: number;
    readonly packs: number;
  }>;
  backup(folder: string): Promise<{ readonly position: number; readonly bytes: number }>;
  close(): Promise<void>;
}

export type { TensorSource };
