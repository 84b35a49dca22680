/**
 * The repository port: one fleet's models, lineage and storage, with or without a running server. Types only;
 * open-repository.ts implements it. Commands, HTTP and ingest use this port and nothing below it.
 */
import type { Architecture } from "../../shared/model/model.js";
import type { NearestVersion } from "./prefix-keeper.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Leaf, LeafTable, ModelSource, SaveRecord, UnhashedModel } from "../../shared/model/model.js";
import type { DeviceSettings } from "../../shared/wire/device-settings.js";
import type { Caller } from "../../shared/journal/caller.js";
import type { Fact } from "../../shared/journal/fact.js";
import type { DeviceCertificate } from "../../shared/journal/facts/device-facts.js";
import type { DropPolicy } from "../../shared/journal/facts/version-facts.js";
import type { VersionQuery, VersionStateName } from "../catalog/version-query.js";
import type { BatchState } from "./state/batch-state.js";
import type { Delivery } from "./state/device-state.js";
import type { ReleaseChange } from "../../shared/trust/releases/release-change.js";
import type { StoredReleases } from "./releases.js";
import type { EvaluationState } from "./state/evaluation-state.js";
import type { Hold } from "./state/hold.js";
import type { RolloutState, StagedVersion } from "./state/rollout-state.js";
import type { DropPolicySetting } from "./retention/drop-policies.js";
import type { FleetRetention } from "./retention/fleet-retention.js";
import type { RetentionScope } from "./retention/retention-plan.js";
import type { Collected, FleetTiers, NotLookedAt } from "./tiers/tier-port.js";
import type { DataObject, PushedData, RemovedData } from "./datasets.js";
import type { DataDropCandidates } from "./versions/drop-data.js";
import type { DropCandidate, DropRequest } from "./versions/drop-version.js";
import type { EngineApproval } from "./engines.js";
import type { RecipeApproval } from "./recipes.js";
import type { DatasetState, EngineState } from "./state/state.js";
import type { RecipeState } from "./state/recipe-state.js";
import type { RestoreState } from "./state/restore-state.js";
import type { ModelLeases } from "./model-leases.js";
import type { CommonAncestor, DescendantPage } from "./state/ancestry.js";
import type { DeclaredRelation } from "./state/successors.js";
import type { LineagePage, VersionFilter } from "./state/version-table.js";
import type { Journal, JournalProofs } from "../../shared/journal/journal.js";
import type { StoreDataOptions } from "../../shared/data/store-data.js";
import type { CollectionPlan, ObjectPruner } from "../../shared/objects/object-store.js";
import type { MergedPacks, MergeOptions } from "../../shared/objects/pack-merging.js";
import type { ClaimSummary, FormerClaim } from "./claim.js";
import type { MeasuredReplay, ReplayGrade } from "../../shared/journal/facts/version-facts.js";
import type { ErrorCode } from "../../shared/errors.js";
import type { RepairedPack } from "../../shared/objects/pack-maintenance.js";
import type { EnvironmentPolicy } from "../../shared/model/environment.js";
import type { RecoveredPart } from "../../shared/recover/recovered-part.js";
import type { RecoveredModel } from "../../shared/recover/recovery.js";
import type { StoredEvaluation } from "../../shared/provenance/stored-evaluation.js";
import type { SaveUses } from "../../shared/save/save-uses.js";
import type { Erased, ErasurePlan } from "./erasure/erasure.js";

/** One version, as listings show it. */
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
  /** The hold, with its author, time and reason. */
  readonly hold?: Hold;
  readonly retired?: Ended;
  /** How its latest replay ended; absent where none gave a verdict. */
  readonly replayed?: Replayed;
  /** Its tensors need not be stored: it is recovered by a replay. */
  readonly dropped?: Dropped;
  /** The stored data of its training are not kept for it any more. */
  readonly dataDropped?: Ended;
  /** Engines (what trainings with them report) whose replays gave its very tensors; absent where none did. */
  readonly provedBy?: readonly Hash[];
  /** How many evaluations of it are stored; absent where none are. */
  readonly evaluations?: number;
  /** Its device reported how it was made before any tensors; absent where it sent them at first. */
  readonly claim?: FormerClaim;
  /** Who recorded it; absent where a device did, and in older journals. */
  readonly by?: string;
  /** Bytes of all tensors. */
  readonly tensorBytes: number;
  /** Bytes of the tensors that this version added, without inherited ones. */
  readonly ownBytes: number;
  /** Generation of the device that sent every byte of it; absent where no device did. */
  readonly generation?: number;
}

/** A version whose tensors need not be stored, and what its replay needs. */
export interface Dropped extends Ended {
  /** What its training began from; null: nothing. */
  readonly base: Hash | null;
  /** The stored archive of the engine that gave its very tensors here, and what trainings with it report. */
  readonly engine: Hash;
  readonly engineId: Hash;
  /** Manifest of the stored data; null: a generator makes them. */
  readonly data: Hash | null;
  /** Milliseconds that its training took on this server. */
  readonly replayMs: number;
}

/** How a replay of a version ended, when, and who began it. */
export interface Replayed extends MeasuredReplay {
  readonly atMs: number;
  readonly verdict: "proved" | "refuted";
  readonly grade: ReplayGrade;
  readonly engineId: Hash;
  readonly because: string;
  readonly by?: string;
}

/** A version that the journal knows and that cannot be read, since its save record is missing or damaged. */
export interface UnreadableVersion {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly code: ErrorCode;
  readonly message: string;
}

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

export interface SaveOptions {
  readonly name: string;
  readonly device?: string;
  readonly line?: string;
  /** Version ids; the model is compared with the first. */
  readonly bases?: readonly Hash[];
  readonly successorOf?: Hash;
  /** A lease on the first base, which may be retired meanwhile. */
  readonly lease?: string;
  readonly approach?: "snapshot" | "update";
  /** The float scheme that reduced the tensors; absent for an exact model. */
  readonly scheme?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly measurements?: Uint8Array;
  readonly checkpoints?: Uint8Array;
  readonly provenance?: Uint8Array;
  readonly metadata?: Readonly<Record<string, string | number | boolean>>;
  /** Salts and values of the provenance's commitments. */
  readonly openings?: Uint8Array;
  readonly attachments?: readonly { readonly name: string; readonly bytes: Uint8Array }[];
  /** Engine, recipe and data, the optimizer's state and checkpoints. */
  readonly uses?: SaveUses;
}

export interface SaveReport {
  readonly summary: VersionSummary;
  /** The model's leaves. */
  readonly leaves: LeafTable;
  /** How many of them differ from the base, or are new. */
  readonly changed: number;
  readonly approach: "snapshot" | "update";
  /** Bytes of the record, its fact and the new owner map (docs/formats.md). */
  readonly overheadBytes: number;
  readonly newTensorBytes: number;
  readonly packBytes: number;
  readonly steps: { readonly extractMs: number; readonly persistMs: number };
}

export interface ModelDiff {
  readonly a: Hash;
  readonly b: Hash;
  readonly sameArchitecture: boolean;
  /** Whether neither model has an architecture. */
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
    /** How `b` follows from `a` by content, such as "a cast to BF16"; absent where nothing was found. */
    readonly relation?: string;
  }[];
}

/** When, why and by whom something was ended; `by` is absent where a rule or the server did. */
export interface Ended {
  readonly atMs: number;
  readonly because: string;
  readonly by?: string;
}

export interface DeviceSummary {
  readonly device: string;
  readonly profile: string;
  readonly lines: readonly string[];
  /** Counts the enrolments of this name, from 1. */
  readonly generation: number;
  /** When this generation was enrolled. */
  readonly enrolledAtMs: number;
  readonly enrolledBy?: string;
  /** The batch with whose invitation it enrolled. */
  readonly batch?: string;
  /** Quarantined until a person accepts it. */
  readonly waits?: true;
  readonly revoked?: Ended;
  readonly quarantined?: Ended;
  /** Revoked, and not listed any more. */
  readonly removed?: Ended;
  readonly erased?: Ended;
  /** Absent: nobody has set anything on it. */
  readonly settings?: SettingsSummary;
  /** The version that each line was given last, where it was given one. */
  readonly assigned?: Readonly<Record<string, Assignment>>;
  readonly state: "enrolled" | "revoked" | "quarantined";
  /** Given by people, by key; absent: none. */
  readonly labels?: Readonly<Record<string, string>>;
  /** When it last connected or reported what it runs, milliseconds since 1970; absent: never. */
  readonly seenAtMs?: number;
  /** Highest session of this generation; 0: none. */
  readonly session: number;
  readonly publicKey: string;
  readonly tokenHash: string;
  /** Those that open its connection, oldest first; absent: its token does. */
  readonly certificates?: readonly DeviceCertificate[];
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

/** What a device is to have, and what it says it has. */
export interface SettingsSummary {
  readonly desired: DeviceSettings;
  /** When it was changed last. */
  readonly desiredAtMs?: number;
  readonly by?: string;
  /** Null: this generation has not said. */
  readonly reported: DeviceSettings | null;
  readonly reportedAtMs?: number;
}

/** A version that was given to a line of a device. */
export interface Assignment {
  readonly versionId: Hash;
  readonly atMs: number;
  /** The rollout that assigned it, or took it back. */
  readonly rollout?: string;
  readonly by?: string;
}

/** The version that a device ran at a moment, or unknown (MM12). */
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
  /** On the first page: versions that no query can find, because the store cannot read their records. */
  readonly unreadable: readonly UnreadableVersion[];
}

export interface CheckReport {
  readonly versions: number;
  readonly objects: number;
  readonly bytes: number;
  readonly problems: readonly { readonly what: string; readonly id: string; readonly message: string }[];
  /**
   * Engines that kept versions name and that are not in the store, with the number of these versions. Their
   * models are whole; their trainings cannot be replayed here.
   */
  readonly absentEngines: readonly { readonly engine: Hash; readonly versions: number }[];
  /** Versions without tensors that were replayed; absent where that was not asked for. */
  readonly replayed?: number;
  /** What could not be read because a tier could not be reached; no damage. Absent where there is nothing. */
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
   * What is damaged or missing here and so in the backup, unless an earlier backup to the same folder has it.
   * Where there are any, the backup does not count as one: no device deletes anything because of it.
   */
  readonly problems: CheckReport["problems"];
}

/** A version that was read back completely. */
export interface VerifiedVersion {
  readonly model: RecoveredModel;
  /** Every part that was proven, the model first. */
  readonly parts: readonly string[];
}

/** A training engine that may be run here. */
export interface EngineSummary extends EngineState {
  /** Kept versions that were trained by it. */
  readonly versions: number;
  /** False: the store lost it; approve it again. */
  readonly isStored: boolean;
}

/** A fleet's own recipe that was approved. */
export interface KnownRecipe extends RecipeState {
  /** False: the store lost it; approve it again. */
  readonly isStored: boolean;
}

export interface RecipeSummary extends KnownRecipe {
  /** Kept versions that were trained by it. */
  readonly versions: number;
  /** Devices that were given it. */
  readonly devices: number;
}

export interface FleetRepository {
  readonly fleet: string;
  readonly home: string;
  readonly objects: ObjectPruner;
  readonly journal: Journal & JournalProofs;
  /** The same open repository; the facts that are appended through it are caused by `caller`, with `request`. */
  as(caller: Caller, request?: string): FleetRepository;

  /**
   * Finds a version by reference: name, name:version, name:tag, version id or a prefix of ≥ 8 hex digits.
   * @throws MODEL_NOT_FOUND, MODEL_AMBIGUOUS, MODEL_RETIRED
   */
  resolve(reference: string): VersionSummary;
  get(versionId: Hash): VersionSummary | undefined;
  /** Finds versions without the catalog, in journal order. */
  versions(filter?: VersionFilter): readonly VersionSummary[];
  /**
   * The version and its ancestors through its bases; of several bases, the first one's ancestors come first.
   */
  lineage(versionId: Hash, page?: LineagePage): readonly VersionSummary[];
  /** The versions that descend from this one, children first. @throws MODEL_NOT_FOUND */
  descendants(versionId: Hash, page?: { readonly offset?: number; readonly limit?: number }): DescendantPage;
  /** The newest version from which both descend, or that is one of them. @throws MODEL_NOT_FOUND */
  commonAncestor(a: Hash, b: Hash): CommonAncestor | undefined;
  /** Every known ancestor, with the trainings between; the version itself has 0. */
  generations(versionId: Hash): ReadonlyMap<Hash, number>;
  /** The versions that were declared to come after this one (MH15), and before it. */
  successors(versionId: Hash): readonly DeclaredRelation[];
  predecessors(versionId: Hash): readonly DeclaredRelation[];
  /**
   * The version that has the most layers in common with an architecture, of equal ones the newest (EV1).
   * @param except a version that is not looked at
   * @returns also how many versions there were to choose from
   */
  nearest(
    architecture: Architecture,
    except?: Hash,
  ): Promise<{ readonly nearest: NearestVersion | undefined; readonly indexed: number }>;
  leaves(versionId: Hash): Promise<readonly Leaf[]>;

  save(model: ModelSource | UnhashedModel, options: SaveOptions): Promise<SaveReport>;
  /**
   * Records a version whose objects are in the store already; used by ingest. The record bytes are stored as
   * received. Callers should write them into the version's pack as kind "record"; otherwise they get a pack
   * of their own. Appends the fact under the collection lock. Recording the same version again returns the
   * same summary. `generation`: of the device that sent every byte of it.
   * @throws RECORD_INVALID, IDENTITY_FOREIGN, NAME_INVALID, REFERENCE_MISSING, ROOT_MISMATCH
   */
  record(recordBytes: Uint8Array, sentBy?: { readonly generation: number }): Promise<VersionSummary>;
  /**
   * Records that a device claims a version: everything but its tensors is in the store. A version that is recorded
   * already is returned as it is.
   * @throws as `record`
   */
  recordClaim(
    recordBytes: Uint8Array,
    sentBy: { readonly generation: number },
  ): Promise<ClaimSummary | VersionSummary>;
  claim(versionId: Hash): ClaimSummary | undefined;
  /** In journal order. */
  claims(): readonly ClaimSummary[];
  /**
   * Records a claimed version whose tensors, of the recorded root, a replay has written into the store.
   * @throws MODEL_NOT_FOUND, REFERENCE_MISSING
   */
  proveClaim(
    proof: Omit<Extract<Fact, { readonly type: "proved" }>, "type" | "atMs">,
  ): Promise<VersionSummary>;
  /** States that a claim was not proved; undefined where it is a version meanwhile. */
  endClaim(
    fact: Extract<Fact, { readonly type: "refuted" | "unreplayable" }>,
  ): Promise<ClaimSummary | undefined>;
  /** Appends the fact `retired` of a claim, which is none any more then. @throws MODEL_NOT_FOUND */
  giveUpClaim(versionId: Hash, because: string): Promise<void>;
  /** Reads the model back from disk, compares the roots and appends the fact `stored`. */
  confirmStored(versionId: Hash): Promise<VersionSummary>;
  /** Appends the fact `released`: the device may delete its copy. @throws NOT_ALLOWED before it is stored */
  release(versionId: Hash, because: string): Promise<VersionSummary>;

  recover(
    versionId: Hash,
    options?: {
      /** Default: the model. */
      readonly part?: RecoveredPart;
      /** Only the tensors of these layers; see shared/recover/selected-leaves.ts. */
      readonly layers?: readonly string[] | undefined;
      /** A lease on the version: it may be retired meanwhile. */
      readonly lease?: string | undefined;
      readonly environment?: EnvironmentPolicy;
      readonly here?: Readonly<Record<string, string>>;
    },
  ): Promise<RecoveredModel>;
  /**
   * Reads the model, its checkpoints, the optimizer's state and what the record names and uses back from the disk.
   * @param options `here`: the environment to report on
   * @throws MODEL_NOT_FOUND, MODEL_RETIRED; the error of the first damaged part, naming all
   */
  verify(
    versionId: Hash,
    options?: { readonly here?: Readonly<Record<string, string>> },
  ): Promise<VerifiedVersion>;
  diff(a: Hash, b: Hash): Promise<ModelDiff>;
  asOf(atMs: number): readonly FleetMoment[];
  /**
   * Finds one page of versions through the catalog.
   * @throws HTTP_REQUEST_INVALID
   */
  list(query: VersionQuery): Promise<VersionPage>;

  /** Moves the tag of a name to a version, or removes it where `versionId` is null. */
  tag(name: string, tag: string, versionId: Hash | null): Promise<void>;
  /** @throws MODEL_HELD, MODEL_IN_USE where the version is assigned to, or active on, a device */
  retire(versionId: Hash, because: string): Promise<void>;
  /** What an erasure of these devices would do (erasure/erase-devices.ts). */
  planErasure(devices: readonly string[]): Promise<ErasurePlan>;
  /** Erases what revoked devices gave; again, for any device or none, to go on after a kill. */
  eraseDevices(devices: readonly string[], because: string): Promise<Erased>;
  /** Throws the error that `retire` would throw now. @throws MODEL_NOT_FOUND, MODEL_HELD, MODEL_IN_USE */
  checkRetirable(versionId: Hash): void;
  /**
   * Makes sure that the tensors of a version whose tensors were dropped are in the store, for an hour from now. Methods
   * that read tensors do that themselves; call this before reading the store directly.
   * @throws REBUILD_FAILED, ROOT_MISMATCH, MODEL_DROPPED, TRAINING_STOPPED when aborted
   */
  ensureTensors(versionId: Hash, signal?: AbortSignal): Promise<void>;
  /** States that a replay stands for the tensors of a version. @throws DROP_REFUSED, REFERENCE_MISSING */
  dropTensors(request: DropRequest): Promise<VersionSummary>;
  /** States that the tensors of a version, which are in the store now, stay. @throws REFERENCE_MISSING */
  keepTensors(versionId: Hash, because: string): Promise<VersionSummary>;
  /** All kept versions in journal order, with what decides whether their tensors may be dropped. */
  dropCandidates(busy?: () => ReadonlyMap<Hash, string>): readonly DropCandidate[];
  /** All kept versions with stored data in journal order, with what decides whether these may be dropped. */
  dataDropCandidates(): Promise<DataDropCandidates>;
  /** States that the stored data of a version need not be kept for it. @throws DROP_REFUSED */
  dropData(versionId: Hash, because: string): Promise<VersionSummary>;
  /** @throws MODEL_HELD where it is held already, MODEL_RETIRED */
  hold(versionId: Hash, because: string): Promise<void>;
  unhold(versionId: Hash, because: string): Promise<void>;
  /** Rules that retire versions by age. */
  readonly retention: FleetRetention;
  /** The fleet's first, then of lines, then of names. */
  dropPolicies(): readonly DropPolicySetting[];
  /** Sets a scope's policy, or removes it (null). @throws NAME_INVALID, NOT_FOUND where there is none to remove */
  setDropPolicy(scope: RetentionScope, policy: DropPolicy | null): Promise<readonly DropPolicySetting[]>;
  readonly tiers: FleetTiers;
  /** Leases on ancestors; `recover` reads under them, `save` derives under them. */
  readonly leases: Pick<ModelLeases, "grant" | "require" | "end">;
  /** The newest backup has the journal entries before this position; 0 where there is no backup. */
  backedUpTo(): number;
  /** The restores of this fleet, oldest first; empty where it was never restored. */
  restores(): readonly Readonly<RestoreState>[];
  /** Without those that were removed. */
  devices(): readonly DeviceSummary[];
  device(device: string): DeviceSummary | undefined;
  /** Batches of devices that enrol with one invitation, oldest first. */
  batches(): readonly BatchState[];
  /** The generation that the next enrolment of this device name has; no enrolment that was lost had it. */
  nextGeneration(device: string): number;
  /** What the line ran, as devices of this name reported it, oldest first. */
  ran(device: string, line: string): readonly Hash[];
  /** Oldest first. */
  rollouts(): readonly RolloutState[];
  /** @throws ROLLOUT_UNKNOWN */
  rollout(name: string): RolloutState;
  /** What rollouts give the device to keep, beside what its lines run. */
  stagedFor(device: string): readonly StagedVersion[];
  assignment(device: string, line: string): Hash | undefined;
  /** Whether the line activated its assigned version since the assignment; or an enrolment assigned it. */
  isAssignmentAnswered(device: string, line: string): boolean;
  /**
   * Whether this generation of the device sent the version, with everything that its record uses (but for an
   * engine) or after it had provably had that.
   */
  hasSent(device: string, versionId: Hash): boolean;
  /**
   * Whether the device provably had every byte of the model: this generation of the device sent it, or the
   * server sent it to this generation completely. What a device claims to have does not count. A device that
   * was given a model was not given what the training used.
   */
  hasHad(device: string, versionId: Hash): boolean;
  /** What it took to send versions to this generation of the device, oldest first. */
  deliveries(device: string): readonly Delivery[];
  /** Whether this generation of the device reported this lately (among the last activations of the line). */
  hasActivation(
    device: string,
    activation: { readonly line: string; readonly versionId: Hash; readonly deviceAtMs: number },
  ): boolean;
  /** Whether a fact states that an object is redacted: it must not be shown, even while it is still stored. */
  isRedacted(object: Hash): boolean;
  datasets(): readonly DatasetState[];
  /** The stored data set with this content; undefined where the store does not have it. @throws OBJECT_HASH_MISMATCH */
  dataObject(content: Hash): Promise<DataObject | undefined>;
  /** Kept versions that name data of this content. */
  versionsWithData(content: Hash): readonly VersionSummary[];
  /**
   * Stores the samples of registered data as chunks; `pieces` are their canonical bytes.
   * @throws DATASET_UNKNOWN, DATASET_MALFORMED, DISK_FULL
   */
  pushDataset(name: string, pieces: Iterable<Uint8Array>, options?: StoreDataOptions): Promise<PushedData>;
  /** Forgets a registration. @throws DATASET_UNKNOWN, DATASET_IN_USE */
  removeDataset(name: string, options: { readonly evenIfUsed: boolean }): Promise<RemovedData>;
  /**
   * Stores an evaluation of a version, with its predictions; the latest 100 of a version are kept.
   * @throws MODEL_NOT_FOUND, MODEL_RETIRED, SIZE_OVER_LIMIT, DISK_FULL
   */
  storeEvaluation(evaluation: StoredEvaluation, predictions?: Uint8Array): Promise<EvaluationState>;
  /** Stored evaluations of versions, oldest first; none of versions without any, or whose objects are not kept. */
  evaluations(versionIds: Iterable<Hash>): ReadonlyMap<Hash, readonly EvaluationState[]>;
  /** The owner's signed releases; undefined: none were published. @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH */
  releases(): Promise<StoredReleases | undefined>;
  /**
   * Checks a signed change of the releases as a device would, and publishes it.
   * @throws RELEASE_METADATA_INVALID, RELEASE_ROLLED_BACK, RELEASE_EXPIRED, RELEASE_MISMATCH, MODEL_NOT_FOUND
   */
  publishReleases(change: ReleaseChange): Promise<StoredReleases>;
  /** Training engines that may be run here, oldest first. */
  engines(): readonly EngineSummary[];
  /** Stores an engine's archive and states that it may be run here. @throws ENGINE_INVALID */
  storeEngine(archive: Uint8Array, approval: EngineApproval): Promise<EngineSummary>;
  /** @throws NOT_FOUND, ENGINE_IN_USE where a kept version names it */
  removeEngine(engine: Hash, because: string): Promise<void>;
  /** The fleet's own recipes, in the order of their approvals; revoked ones too. */
  recipes(): readonly RecipeSummary[];
  /** The same without what has to be counted. */
  knownRecipes(): readonly KnownRecipe[];
  /** Stores a bundle and states that it may be run. */
  approveRecipe(bundle: Uint8Array, approval: RecipeApproval): Promise<KnownRecipe>;
  /** @throws RECIPE_NOT_APPROVED where it is not approved */
  revokeRecipe(recipe: Hash, because: string): Promise<void>;
  /** The bytes of a recipe that may be run. @throws RECIPE_NOT_APPROVED */
  readRecipe(recipe: Hash): Promise<Uint8Array>;
  /** States that a device is sent a recipe. @throws RECIPE_NOT_APPROVED */
  giveRecipe(device: string, recipe: Hash): Promise<void>;
  wasGivenRecipe(device: string, recipe: Hash): boolean;
  /** Appends facts for which there is no method of their own, and applies them to the state. */
  append(...facts: readonly Fact[]): Promise<readonly number[]>;

  /** Ids of all objects that a collection must keep. */
  liveObjects(): Promise<ReadonlySet<Hash>>;
  planCollection(): Promise<CollectionPlan>;
  /** Also removes low files that nothing needs from the tiers; those that could not be looked at are named. */
  collect(plan: CollectionPlan): Promise<Collected>;
  /** One round of merging small packs; undefined where there is nothing to merge now. @throws as PackMerging */
  mergePacks(options?: MergeOptions): Promise<MergedPacks | undefined>;
  check(options?: { readonly sample?: number; readonly repair?: boolean }): Promise<CheckReport>;
  /** Rebuilds the catalog from the journal; `unreadable` versions are left out of it. */
  reindex(): Promise<{ readonly versions: number; readonly unreadable: readonly UnreadableVersion[] }>;
  /** Damage found so far, without reading the disk. */
  knownDamage(): KnownDamage;
  /** Counts of the fleet's versions and objects, and their bytes on disk. */
  stats(): Promise<{
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
  }>;
  /** @param passphrase encrypts the server's key in the backup; absent: it is not encrypted */
  backup(folder: string, passphrase?: string): Promise<BackupReport>;
  close(): Promise<void>;
}
