/** Defines a fleet's state, which apply-fact.ts makes from the journal. Types, and the state before the first fact. */
import type { FactOf } from "../../../../shared/journal/fact.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { LayeredLists } from "../../index/layered-lists.js";
import { LayeredSet } from "../../index/layered-set.js";
import type { SavedRows } from "../../index/layers.js";
import type { AuthorityState } from "./authority-state.js";
import type { BatchState } from "./batch-state.js";
import type { ClaimState } from "./claim-state.js";
import type { ActivationState, DeviceState } from "./device-state.js";
import type { RecipeState } from "./recipe-state.js";
import type { RestoreState } from "./restore-state.js";
import type { RetentionState, DropPolicyState } from "./retention-state.js";
import type { RolloutState } from "./rollout-state.js";
import { noSuccessors, type SuccessorFacts } from "./successors.js";
import { serialized, stateTables, versionLists, type VersionLists } from "./state-tables.js";
import { versionStates, type VersionStates } from "./version-states.js";

export interface DatasetState {
  readonly name: string;
  readonly kind: string;
  readonly location: string;
  readonly parameters: NonNullable<FactOf<"data">["parameters"]>;
  readonly hash: Hash | null;
  readonly files?: NonNullable<FactOf<"data">["files"]>;
}

/** The statement about a version when it was published here, or pulled. */
export interface Listing {
  readonly versionId: Hash;
  /** SPDX expression. */
  readonly license?: string;
  readonly task?: string;
  readonly atMs: number;
  readonly by?: string;
}

/** A query that has a name, by which other queries begin from it. */
export interface SavedQuery {
  readonly name: string;
  readonly text: string;
  readonly atMs: number;
  readonly by?: string;
}

/** A training engine that may be run here. */
export interface EngineState {
  /** The stored archive. */
  readonly engine: Hash;
  /** The id that trainings with it report. */
  readonly engineId: Hash;
  readonly source: "build" | "approval";
  readonly because: string;
  readonly atMs: number;
  readonly by?: string;
}

/** Totals of the versions that are not retired. */
export interface LiveTotals {
  /** Bytes of all their tensors. */
  tensorBytes: number;
  /** The number of versions without tensors, and the bytes that these would take. */
  dropped: { versions: number; tensorBytes: number };
}

export interface FleetState {
  /** Number of facts applied, which is the position of the next one. */
  length: number;
  readonly versions: VersionStates;
  /** Name → its versions by their numbers. */
  readonly names: VersionLists;
  /** The number of versions that are retired. */
  retiredCount: number;
  readonly live: LiveTotals;
  /** Positions of versions that are neither released nor retired. */
  readonly unsettled: LayeredSet;
  /** Positions of versions that were evaluated. */
  readonly evaluated: LayeredSet;
  /** Positions of versions that were replayed. */
  readonly replayed: LayeredSet;
  /** Versions without tensors: those of which a fact `dropped` is the last word. */
  readonly dropped: Set<Hash>;
  /** Line of a device (see lineKey) → its activations, of all generations, by their positions in the journal. */
  readonly activations: LayeredLists<ActivationState>;
  /** Devices and rollouts that facts have changed since the index was written last. */
  readonly changed: { readonly devices: Set<string>; readonly rollouts: Set<string> };
  readonly claims: Map<Hash, ClaimState>;
  readonly successors: SuccessorFacts;
  /** Name → tag → version. */
  readonly tags: Map<string, Map<string, Hash>>;
  readonly devices: Map<string, DeviceState>;
  /** Batches of devices that enrol with one invitation. */
  readonly batches: Map<string, BatchState>;
  /** Authorities of the fleet's owner by name, removed ones too. */
  readonly authorities: Map<string, AuthorityState>;
  /** Certificates of owners' authorities whose devices were revoked (numberKey): they are not taken again. */
  readonly endedCertificates: Set<string>;
  /** The rollouts by name, oldest first. */
  readonly rollouts: Map<string, RolloutState>;
  readonly datasets: Map<string, DatasetState>;
  readonly queries: Map<string, SavedQuery>;
  /** Versions that were published here, or pulled, oldest first. */
  readonly listings: Map<Hash, Listing>;
  /** Content hash → manifest of the data set that was stored, also where no name is registered for it any more. */
  readonly dataObjects: Map<Hash, Hash>;
  /** Content hash → what readers said of the data set when it was stored, each time that it was another description. */
  readonly dataDescriptions: Map<Hash, readonly Hash[]>;
  /** Objects that a fact states to be redacted. Their absence is not damage. */
  readonly redacted: Set<Hash>;
  /** Versions that were ever assigned to a device. */
  readonly distributed: Set<Hash>;
  /** Scope (see retentionKey) → its rule. */
  readonly retention: Map<string, RetentionState>;
  /** Scope (see retentionKey) → its policy for dropping tensors. */
  readonly dropPolicies: Map<string, DropPolicyState>;
  readonly backups: { readonly position: number; readonly location: string; readonly atMs: number }[];
  /** Oldest first. */
  readonly restores: RestoreState[];
  /** Newest time of a fact, in ms of the server's clock. */
  newestMs: number;
  /** Lowest generation of the next enrolments. */
  generationFloor: number;
  /** Engines that may be run here, by the id of the stored archive. */
  readonly engines: Map<Hash, EngineState>;
  readonly removedEngines: Set<Hash>;
  /** Object of the owner's signed releases; undefined: none were published. */
  releases: Hash | undefined;
  /** The owner's newest statement of the time. */
  ownerTime: OwnerTimeState | undefined;
  /** The server's key by the last change of it that is a fact; undefined: it never changed. */
  serverKey: { readonly publicKey: string; readonly revoked: boolean } | undefined;
  /** Own recipes by their bundles, in the order of their approvals. */
  readonly recipes: Map<Hash, RecipeState>;
  ignoredFacts: number;
  unknownFacts: number;
}

/** `statement`: JSON with the signatures. */
export interface OwnerTimeState {
  readonly number: number;
  readonly statement: string;
}

/** @param saved the rows that hold the versions of earlier facts, with their number; absent: there are none */
export function emptyState(saved: SavedRows = { rows: undefined, commits: 0 }, versions = 0): FleetState {
  return {
    length: 0,
    versions: versionStates(saved, versions),
    names: versionLists(stateTables.names, saved),
    retiredCount: 0,
    live: { tensorBytes: 0, dropped: { versions: 0, tensorBytes: 0 } },
    unsettled: new LayeredSet(stateTables.unsettled, saved),
    evaluated: new LayeredSet(stateTables.evaluated, saved),
    replayed: new LayeredSet(stateTables.replayed, saved),
    dropped: new Set(),
    activations: new LayeredLists(stateTables.activations, serialized<ActivationState>(), saved),
    changed: { devices: new Set(), rollouts: new Set() },
    claims: new Map(),
    successors: noSuccessors(),
    tags: new Map(),
    devices: new Map(),
    batches: new Map(),
    authorities: new Map(),
    endedCertificates: new Set(),
    rollouts: new Map(),
    datasets: new Map(),
    queries: new Map(),
    listings: new Map(),
    dataObjects: new Map(),
    dataDescriptions: new Map(),
    redacted: new Set(),
    distributed: new Set(),
    retention: new Map(),
    dropPolicies: new Map(),
    backups: [],
    restores: [],
    newestMs: 0,
    generationFloor: 1,
    engines: new Map(),
    removedEngines: new Set(),
    releases: undefined,
    ownerTime: undefined,
    serverKey: undefined,
    recipes: new Map(),
    ignoredFacts: 0,
    unknownFacts: 0,
  };
}
