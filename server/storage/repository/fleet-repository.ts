/**
 * The repository port: one fleet's models, lineage and storage, with or without a running server. open-repository.ts
 * implements it. Commands, HTTP and ingest use this port, what it answers (answers/), and nothing below it.
 */
import type { StemmaError } from "../../../shared/errors.js";
import type { Architecture, Leaf, ModelSource, UnhashedModel } from "../../../shared/model/model.js";
import type { NearestVersion } from "./prefix-keeper.js";
import type { RowKeeper } from "./row-keeper.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { Caller } from "../../../shared/journal/caller.js";
import type { Fact } from "../../../shared/journal/fact.js";
import type { DropPolicy } from "../../../shared/journal/facts/version-facts.js";
import type { VersionQuery } from "../catalog/version-query.js";
import type { AuthorityState } from "./state/authority-state.js";
import type { BatchState } from "./state/batch-state.js";
import type { Delivery } from "./state/device-state.js";
import type { CertificateNumber } from "../../../shared/trust/certificates/verify-chain.js";
import type { ReleaseChange } from "../../../shared/trust/releases/release-change.js";
import type { StoredReleases } from "./releases.js";
import type { EvaluationState } from "./state/evaluation-state.js";
import type { RolloutState, StagedVersion } from "./state/rollout-state.js";
import type { DropGain } from "./retention/drop-gains.js";
import type { DropPolicySetting } from "./retention/drop-policies.js";
import type { FleetRetention } from "./retention/fleet-retention.js";
import type { RetentionScope } from "./retention/retention-plan.js";
import type { Collected, FleetTiers } from "./tiers/tier-port.js";
import type { DataObject, PushedData, RemovedData } from "./datasets.js";
import type { DataDropCandidates } from "./versions/drop-data.js";
import type { WeighedDrops } from "./versions/weigh-drops.js";
import type { DropCandidate, DropRequest } from "./versions/drop-version.js";
import type { EngineApproval } from "./engines.js";
import type { RecipeApproval } from "./recipes.js";
import type { DatasetState, Listing, OwnerTimeState, SavedQuery } from "./state/state.js";
import type { PreparedBundle, ReceivedBundle, RecordedBundle } from "./versions/record-bundle.js";
import type { RestoreState } from "./state/restore-state.js";
import type { FleetCheckpoints } from "./checkpoints.js";
import type { ModelLeases } from "./model-leases.js";
import type { CommonAncestor, DescendantPage } from "./state/ancestry.js";
import type { DeclaredRelation } from "./state/successors.js";
import type { LineagePage, VersionFilter } from "./state/version-table.js";
import type { Journal, JournalProofs } from "../../../shared/journal/journal.js";
import type { StoreDataOptions } from "../../../shared/data/store-data.js";
import type { CollectionPlan, LiveObjects, ObjectPruner } from "../../../shared/objects/object-store.js";
import type { MergedPacks, MergeOptions } from "../../../shared/objects/pack-merging.js";
import type { ClaimSummary } from "./claim.js";
import type { EnvironmentPolicy } from "../../../shared/model/environment.js";
import type { RecoveredPart } from "../../../shared/recover/recovered-part.js";
import type { RecoveredModel } from "../../../shared/recover/recovery.js";
import type { StoredEvaluation } from "../../../shared/provenance/stored-evaluation.js";
import type { LinePlace } from "./state/numbered-versions.js";
import type { Selection, SelectionRange } from "./state/select-versions.js";
import type { Erased, ErasurePlan } from "./erasure/erasure.js";
import type {
  VersionSummary,
  UnreadableVersion,
  VersionPage,
  ModelDiff,
  VerifiedVersion,
} from "./answers/version-answers.js";
import type { SaveOptions, SaveReport } from "./answers/save-answers.js";
import type { DeviceSummary, FleetMoment } from "./answers/device-answers.js";
import type { KnownDamage, CheckReport, BackupReport, FleetStats } from "./answers/store-answers.js";
import type { EngineSummary, KnownRecipe, RecipeSummary } from "./answers/code-answers.js";

export interface FleetRepository {
  readonly fleet: string;
  readonly home: string;
  readonly objects: ObjectPruner;
  readonly journal: Journal & JournalProofs;
  /** Resolves once journal or object store take nothing more, after a failed fsync: they have to be opened again. */
  readonly failed: Promise<StemmaError>;
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
  /** The number of versions that are not retired. */
  versionCount(): number;
  /** Goes through the versions of which something is true. They may change meanwhile: look at each. */
  select(selection: Selection, range?: SelectionRange): Iterable<VersionSummary>;
  /** The version that has this number of a device's line; of several the one that was recorded last. */
  numbered(place: LinePlace, sequence: number): VersionSummary | undefined;
  /** The version with the highest number of a line that this generation of the device sent. */
  headOfLine(place: LinePlace, generation: number | undefined): VersionSummary | undefined;
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
  /** A stored architecture, decoded; its callers share it. @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH */
  architecture(id: Hash): Promise<Architecture>;
  /**
   * The version that has the most layers in common with an architecture, of equal ones the newest (EV1).
   * @param except a version that is not looked at
   * @returns also how many versions there were to choose from
   */
  nearest(
    architecture: Architecture,
    except?: Hash,
  ): Promise<{ readonly nearest: NearestVersion | undefined; readonly indexed: number }>;
  /** The version with layers in common that weights such as prefix=1,quality=0.5 rank first. */
  rankedSource(
    architecture: Architecture,
    weights: string,
    except?: Hash,
  ): Promise<NearestVersion | undefined>;
  /** Versions as short rows, and who came from whom, for queries that look at many of them. */
  rows(): Promise<Pick<RowKeeper, "find" | "basesOf" | "childrenOf">>;
  /** @param lease on the version: it may be retired meanwhile */
  leaves(versionId: Hash, lease?: string): Promise<readonly Leaf[]>;

  save(model: ModelSource | UnhashedModel, options: SaveOptions): Promise<SaveReport>;
  /**
   * Records a version whose objects are in the store already; used by ingest. The record bytes are stored as
   * received. Callers should write them into the version's pack as kind "record"; otherwise they get a pack
   * of their own. Appends the fact under the collection lock. Recording the same version again returns the
   * same summary. `generation`: of the device that sent every byte of it; `writtenBytes`: of the packs that the
   * caller wrote for it, where it knows.
   * @throws RECORD_INVALID, IDENTITY_FOREIGN, NAME_INVALID, REFERENCE_MISSING, ROOT_MISMATCH
   */
  record(
    recordBytes: Uint8Array,
    options?: { readonly generation?: number; readonly writtenBytes?: number | undefined },
  ): Promise<VersionSummary>;
  /**
   * Records that a device claims a version: everything but its tensors is in the store. A version that is recorded
   * already is returned as it is.
   * @throws as `record`
   */
  recordClaim(
    recordBytes: Uint8Array,
    options: { readonly generation: number; readonly writtenBytes?: number | undefined },
  ): Promise<ClaimSummary | VersionSummary>;
  /**
   * Reads and checks what came from another repository: every version, what belongs to it, and its parents.
   * Changes nothing. @throws BUNDLE_INVALID and as `record`, but not IDENTITY_FOREIGN
   */
  prepareBundle(bundle: ReceivedBundle): Promise<PreparedBundle>;
  /** Records all that was prepared in one append, or nothing. @throws REFERENCE_MISSING */
  recordBundle(prepared: PreparedBundle): Promise<RecordedBundle>;
  /** Versions that were published here, or pulled, oldest first. */
  listings(): Iterable<Listing>;
  listing(versionId: Hash): Listing | undefined;
  claim(versionId: Hash): ClaimSummary | undefined;
  /** Lists claims in journal order. */
  claims(): readonly ClaimSummary[];
  /**
   * Records a claimed version whose tensors, of the recorded root, a replay has written into the store, in packs of
   * `writtenBytes`.
   * @throws MODEL_NOT_FOUND, REFERENCE_MISSING
   */
  proveClaim(
    proof: Omit<Extract<Fact, { readonly type: "proved" }>, "type" | "atMs">,
    writtenBytes?: number,
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
      /** The layers to recover: only their tensors; see shared/recover/selected-leaves.ts. */
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
  /** Plans the erasure of these devices (erasure/erase-devices.ts). */
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
  /** The gain of each of these drops, if all are made. @throws COLLECTION_REFUSED */
  weighDrops(drops: WeighedDrops): Promise<ReadonlyMap<Hash, DropGain>>;
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
  readonly leases: Pick<ModelLeases, "grant" | "require" | "renew" | "covers" | "end" | "list">;
  /** The newest backup has the journal entries before this position; 0 where there is no backup. */
  backedUpTo(): number;
  /** The restores of this fleet, oldest first; empty where it was never restored. */
  restores(): readonly Readonly<RestoreState>[];
  /** The journal's checkpoints, and what witnesses cosigned. */
  readonly checkpoints: FleetCheckpoints;
  /** Lists devices without those that were removed. */
  devices(): readonly DeviceSummary[];
  /** Names of the lines that devices, batches of them or recorded versions have. */
  lines(): ReadonlySet<string>;
  /** Versions that devices run on a line of this name, or were given for it. */
  versionsOnLine(line: string): ReadonlySet<Hash>;
  device(device: string): DeviceSummary | undefined;
  /** Batches of devices that enrol with one invitation, oldest first. */
  batches(): readonly BatchState[];
  /** Authorities of the fleet's owner, without those that were removed. */
  authorities(): readonly AuthorityState[];
  /** True if the fleet ever had an owner's authority. */
  hasHadAuthority(): boolean;
  /** Returns an authority; undefined where there is none of this name, or it was removed. */
  authority(name: string): AuthorityState | undefined;
  /** True if the certificate was of a device that was revoked. */
  isEndedCertificate(certificate: CertificateNumber): boolean;
  /** The generation that the next enrolment of this device name has; no enrolment that was lost had it. */
  nextGeneration(device: string): number;
  /** Returns the versions that the line ran, as devices of this name reported it, oldest first. */
  ran(device: string, line: string): readonly Hash[];
  /** Oldest first. */
  rollouts(): readonly RolloutState[];
  /** @throws ROLLOUT_UNKNOWN */
  rollout(name: string): RolloutState;
  /** Returns the versions that rollouts give the device to keep, beside what its lines run. */
  stagedFor(device: string): readonly StagedVersion[];
  assignment(device: string, line: string): Hash | undefined;
  /** True if the line activated its assigned version since the assignment; or an enrolment assigned it. */
  isAssignmentAnswered(device: string, line: string): boolean;
  /**
   * True if the line is assigned the version and has activated it since. What an enrolment assigned need not be
   * activated by a device that was enrolled again: true if it runs that or a descendant.
   */
  hasSwitched(device: string, line: string, versionId: Hash): boolean;
  /** True if the device passed in the rollout and its line was given no other version since. */
  isStillGiven(device: string, rollout: Pick<RolloutState, "name" | "line">): boolean;
  /**
   * True if this generation of the device sent the version, with everything that its record uses (but for an
   * engine) or after it had provably had that.
   */
  hasSent(device: string, versionId: Hash): boolean;
  /**
   * True if the device provably had every byte of the model: this generation of the device sent it, or the
   * server sent it to this generation completely. What a device claims to have does not count. A device that
   * was given a model was not given what the training used.
   */
  hasHad(device: string, versionId: Hash): boolean;
  /** Returns the bytes and time of each version's transfer to this generation of the device, oldest first. */
  deliveries(device: string): readonly Delivery[];
  /** True if this generation of the device reported this lately (among the last activations of the line). */
  hasActivation(
    device: string,
    activation: {
      readonly line: string;
      readonly versionId: Hash;
      readonly deviceAtMs: number;
      readonly number: number | undefined;
    },
  ): boolean;
  /** True if a fact states that an object is redacted: it must not be shown, even while it is still stored. */
  isRedacted(object: Hash): boolean;
  datasets(): readonly DatasetState[];
  /** Queries that have names, in the order of these. */
  savedQueries(): readonly SavedQuery[];
  /** @throws NAME_INVALID, QUOTA_EXCEEDED */
  saveQuery(name: string, text: string): Promise<void>;
  /** @throws NOT_FOUND */
  deleteQuery(name: string): Promise<void>;
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
  /** The owner's newest statement of the time; undefined: none was published. */
  ownerTime(): OwnerTimeState | undefined;
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

  /** The objects that a collection must keep. */
  liveObjects(): Promise<LiveObjects>;
  planCollection(): Promise<CollectionPlan>;
  /**
   * Collects by a plan, and removes low files that nothing needs from the tiers; those that could not be
   * looked at are named.
   */
  collect(plan: CollectionPlan): Promise<Collected>;
  /** One round of merging small packs; undefined where there is nothing to merge now. @throws as PackMerging */
  mergePacks(options?: MergeOptions): Promise<MergedPacks | undefined>;
  check(options?: { readonly sample?: number; readonly repair?: boolean }): Promise<CheckReport>;
  /** Rebuilds the catalog from the journal; `unreadable` versions are left out of it. */
  reindex(): Promise<{ readonly versions: number; readonly unreadable: readonly UnreadableVersion[] }>;
  /** Damage found so far, without reading the disk. */
  knownDamage(): KnownDamage;
  stats(): Promise<FleetStats>;
  /** @param passphrase encrypts the server's key in the backup; absent: it is not encrypted */
  backup(folder: string, passphrase?: string): Promise<BackupReport>;
  close(): Promise<void>;
}
