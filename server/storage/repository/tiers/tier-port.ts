/** Defines what a fleet's repository offers about storage tiers. Types only; fleet-tiers.ts implements it. */
import type {
  MovedLowBytes,
  MoveOptions,
  RemovedLowFiles,
} from "../../../../shared/objects/tiers/low-bytes-moves.js";
import type { LowPart } from "../../../../shared/objects/tiers/low-part.js";
import type { CollectionPlan } from "../../../../shared/objects/object-store.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

/** Objects that a check could not read because of one tier. */
export interface NotLookedAt {
  readonly tier: string;
  readonly objects: number;
  readonly message: string;
}

/** A version whose low-order bytes may go to a tier, with the tensors that no version at hand needs. */
export interface MovableVersion {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly tensors: readonly Hash[];
}

export interface TierChoice {
  readonly versions: readonly MovableVersion[];
  /** Versions whose tensors stay in this home. */
  readonly nearVersions: number;
  /** The tensors of all movable versions. */
  readonly tensors: ReadonlySet<Hash>;
}

/** A plan with what a collection by it also removes in tiers; absent where there is none. */
export interface PlannedCollection extends CollectionPlan {
  readonly tiers?: RemovedLowFiles;
}

export interface Collected {
  readonly freedBytes: number;
  /** The low files that were removed from tiers; absent where there is none. */
  readonly tiers?: RemovedLowFiles;
}

/** Moves low-order bytes of a fleet's tensors to the tiers of its home. */
export interface FleetTiers {
  /** @param busy the versions that running work needs */
  choose(busy: () => ReadonlyMap<Hash, string>): Promise<TierChoice>;
  /** Returns where a tensor's low-order bytes are that are not in its pack. */
  lowPartOf(tensor: Hash): LowPart | undefined;
  /** @throws NOT_FOUND, and as LowBytesMoves.move */
  move(tier: string, tensors: ReadonlySet<Hash>, options?: MoveOptions): Promise<MovedLowBytes>;
  bytesToBringBack(tier: string): Promise<number>;
  /** @throws NOT_FOUND, and as LowBytesMoves.bringBack */
  bringBack(tier: string, options?: MoveOptions): Promise<MovedLowBytes>;
  removeUnused(): Promise<RemovedLowFiles>;
  /** Adds to a plan what a collection by it also removes in tiers. */
  withTiers(plan: CollectionPlan): Promise<PlannedCollection>;
}
