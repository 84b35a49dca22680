/**
 * A fleet's state: the result of applying all its facts in journal order. Pure: the same facts give the same
 * state on every machine.
 *
 * Invariants:
 * - The version numbers of a name increase in journal order and never change.
 * - Recording the same version again changes nothing; neither does an activation that repeats the last one of
 *   its line.
 * - A claim is not among the versions until a fact `recorded` without `claim` states that its tensors are stored.
 * - `retired` and `released` are final; `stored` follows `recorded`. A fact about a version that is not
 *   recorded changes nothing and is counted in `ignoredFacts`.
 * - A fact of a type that this release does not know (written by a newer release with the same journal
 *   format) changes nothing and is counted in `unknownFacts`. The fleet can still be read, but nothing may be
 *   deleted, because such a fact may keep an object (see collection.ts).
 */
import { byOf } from "../../../shared/journal/caller.js";
import type { Fact } from "../../../shared/journal/fact.js";
import type { DropPolicy } from "../../../shared/journal/facts/version-facts.js";
import {
  applyActivated,
  applyAssigned,
  applyEnrolled,
  applyCertified,
  applySession,
  applyGiven,
  applySettings,
  applyStanding,
  generationFloor,
  lastActivations,
  type DeviceState,
} from "./device-state.js";
import { labelsAfter } from "./device-labels.js";
import type { FormerClaim } from "../claim.js";
import { applyClaimed, applyToClaim, formerClaim, measuredOf, type ClaimState } from "./claim-state.js";
import type { Dropped, Ended, Replayed } from "../fleet-repository.js";
import { addEvaluation, type EvaluationState } from "./evaluation-state.js";
import type { Hold } from "./hold.js";
import { applyBatchUse, batchOf, type BatchState } from "./batch-state.js";
import { applyRollout, pauseRestored, versionsOfRollouts, type RolloutState } from "./rollout-state.js";
import { applySucceeded, noSuccessors, type SuccessorFacts } from "./successors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";

export type FactOf<Type extends Fact["type"]> = Extract<Fact, { readonly type: Type }>;

export interface VersionState {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly position: number;
  readonly recordedAtMs: number;
  readonly tensorBytes: number;
  readonly ownBytes: number;
  /** Generation of the device that sent every byte of it; undefined where no device did. */
  readonly generation: number | undefined;
  /** Who recorded it; undefined where a device did. */
  readonly by?: string;
  storedAtMs?: number;
  released?: { readonly atMs: number; readonly because: string };
  retired?: Ended;
  held?: Hold;
  /** How its latest replay ended. */
  replayed?: Replayed;
  /** Its tensors need not be stored: it is recovered by a replay. */
  dropped?: Dropped;
  /** The stored data of its training are not kept for it. */
  dataDropped?: Ended;
  /** Engines (what trainings with them report) whose replays gave its very tensors. */
  provedBy?: ReadonlySet<Hash>;
  evaluations?: readonly EvaluationState[];
  /** The claim as which a device reported it at first. */
  readonly claim?: FormerClaim;
  readonly tags: Set<string>;
}

export interface DatasetState {
  readonly name: string;
  readonly kind: string;
  readonly location: string;
  readonly parameters: NonNullable<Extract<Fact, { type: "data" }>["parameters"]>;
  readonly hash: Hash | null;
}

/** A retention rule as it was set; retention-rules.ts parses the text of `rule`. */
export interface RetentionState {
  readonly line: string | null;
  readonly name: string | null;
  readonly rule: string;
  readonly atMs: number;
  readonly by?: string;
}

/** A policy for dropping tensors as it was set. */
export interface DropPolicyState {
  readonly line: string | null;
  readonly name: string | null;
  readonly policy: DropPolicy;
  readonly atMs: number;
  readonly by?: string;
}

/** A fact `restored`, which is at `factPosition`. */
export interface RestoreState {
  readonly factPosition: number;
  /**
   * Number of journal entries that the backup had; of a salvage, that were read before the damage; of a declared
   * restore, that are certainly not lost.
   */
  readonly position: number;
  readonly atMs: number;
  readonly isFromBackup: boolean;
  /** The owner's signature of it; absent: not signed. */
  readonly approval?: string;
}

/** A training engine that may be run here. */
export interface EngineState {
  /** The stored archive. */
  readonly engine: Hash;
  /** What trainings with it report. */
  readonly engineId: Hash;
  readonly source: "build" | "approval";
  readonly because: string;
  readonly atMs: number;
  readonly by?: string;
}

/** A fleet's own recipe that was approved. */
export interface RecipeState {
  /** The bundle. */
  readonly recipe: Hash;
  readonly name: string;
  readonly version: number;
  readonly because: string;
  readonly atMs: number;
  readonly by?: string;
  readonly revoked?: { readonly atMs: number; readonly because: string; readonly by?: string };
}

export interface FleetState {
  /** Number of facts applied, which is the position of the next one. */
  length: number;
  readonly versions: Map<Hash, VersionState>;
  /** Name → its versions in journal order. */
  readonly names: Map<string, VersionState[]>;
  readonly claims: Map<Hash, ClaimState>;
  readonly successors: SuccessorFacts;
  /** Name → tag → version. */
  readonly tags: Map<string, Map<string, Hash>>;
  readonly devices: Map<string, DeviceState>;
  /** Batches of devices that enrol with one invitation. */
  readonly batches: Map<string, BatchState>;
  /** By name, oldest first. */
  readonly rollouts: Map<string, RolloutState>;
  readonly datasets: Map<string, DatasetState>;
  /** Content hash → manifest of the data set that was stored, also where no name is registered for it any more. */
  readonly dataObjects: Map<Hash, Hash>;
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
  /** The server's key by the last change of it that is a fact; undefined: it never changed. */
  serverKey: { readonly publicKey: string; readonly revoked: boolean } | undefined;
  /** Own recipes by their bundles, in the order of their approvals. */
  readonly recipes: Map<Hash, RecipeState>;
  ignoredFacts: number;
  unknownFacts: number;
}

export function emptyState(): FleetState {
  return {
    length: 0,
    versions: new Map(),
    names: new Map(),
    claims: new Map(),
    successors: noSuccessors(),
    tags: new Map(),
    devices: new Map(),
    batches: new Map(),
    rollouts: new Map(),
    datasets: new Map(),
    dataObjects: new Map(),
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
    serverKey: undefined,
    recipes: new Map(),
    ignoredFacts: 0,
    unknownFacts: 0,
  };
}

/** The number that the next version of a name gets. */
export function nextVersionNumber(state: FleetState, name: string): number {
  return (state.names.get(name)?.at(-1)?.version ?? 0) + 1;
}

/** Applies the fact at `position`. Facts must be applied in order, each once. */
export function applyFact(state: FleetState, position: number, fact: Fact): void {
  state.length = position + 1;
  state.newestMs = Math.max(state.newestMs, fact.atMs);
  switch (fact.type) {
    case "recorded":
      return fact.claim === true ? applyClaimed(state, position, fact) : applyRecorded(state, position, fact);
    case "proved":
    case "refuted":
    case "unreplayable":
      return applyToClaim(state, fact);
    case "stored":
    case "released":
    case "retired":
    case "replayed":
    case "dropped":
    case "kept":
    case "data-dropped":
    case "evaluated":
    case "held":
    case "unheld":
      return applyToVersion(state, fact);
    case "succeeded":
      return applySucceeded(state, fact);
    case "tagged":
      return applyTagged(state, fact);
    case "enrolled":
      applyEnrolled(state.devices, fact);
      changeDevice(state, fact.device, (device) => {
        applyBatchUse(state.batches, device, fact);
      });
      return;
    case "revoked":
    case "quarantined":
    case "unquarantined":
    case "device-removed":
    case "device-erased":
    case "settings":
    case "settings-reported":
    case "certified":
    case "session":
    case "given":
    case "recipe-given":
    case "assigned":
    case "labelled":
      return applyToDevice(state, fact);
    case "activated":
      changeDevice(state, fact.device, (device) => {
        const known = state.versions.get(fact.versionId) ?? state.claims.get(fact.versionId);
        applyActivated(device, { position, knownAt: known?.position }, fact);
      });
      return;
    case "rollout":
    case "rollout-approved":
    case "rollout-phase":
    case "wave":
    case "measured":
    case "judged":
    case "switch-failed":
      if (!applyRollout(state.rollouts, fact)) state.ignoredFacts++;
      return;
    case "retention":
      return applyRetention(state, fact);
    case "drop-policy":
      return applyDropPolicy(state, fact);
    case "data":
      return applyData(state, fact);
    case "redacted":
      state.redacted.add(fact.object);
      return;
    case "engine-approved": {
      const { engine, engineId, source, because, atMs } = fact;
      state.removedEngines.delete(engine);
      state.engines.set(engine, { engine, engineId, source, because, atMs, ...byOf(fact) });
      return;
    }
    case "engine-removed":
      state.engines.delete(fact.engine);
      state.removedEngines.add(fact.engine);
      return;
    case "batch-created":
      state.batches.set(fact.batch, batchOf(fact));
      return;
    case "batch-revoked":
      return applyBatchRevoked(state, fact);
    case "published":
      state.releases = fact.object;
      return;
    case "recipe-approved":
    case "recipe-revoked":
      return applyRecipe(state.recipes, fact);
    case "webhook":
      // Which there are is in the home's own files: a backup is of what was told, not of whom it is told.
      return;
    case "server-key":
      state.serverKey = { publicKey: fact.publicKey, revoked: fact.revoked };
      return;
    case "backup":
      state.backups.push({ position: fact.position, location: fact.location, atMs: fact.atMs });
      return;
    case "restored":
      state.generationFloor = Math.max(state.generationFloor, generationFloor(state.newestMs));
      pauseRestored(state.rollouts, fact.atMs);
      state.restores.push({
        factPosition: position,
        position: fact.position,
        atMs: fact.atMs,
        isFromBackup: fact.lostFrom === null,
      });
      return;
    case "restore-approved":
      return applyRestoreApproved(state, fact);
    default:
      state.unknownFacts++;
  }
}

function applyBatchRevoked(state: FleetState, fact: FactOf<"batch-revoked">): void {
  const batch = state.batches.get(fact.batch);
  if (batch === undefined) state.ignoredFacts++;
  else {
    const { atMs, because } = fact;
    state.batches.set(fact.batch, { ...batch, revoked: { atMs, because, ...byOf(fact) } });
  }
}

function applyRestoreApproved(state: FleetState, { restore, approval }: FactOf<"restore-approved">): void {
  const at = state.restores.findIndex(({ factPosition }) => factPosition === restore);
  const known = state.restores[at];
  if (known === undefined) state.ignoredFacts++;
  else state.restores[at] = { ...known, approval };
}

function applyToVersion(
  state: FleetState,
  fact: FactOf<
    | "stored"
    | "released"
    | "retired"
    | "replayed"
    | "dropped"
    | "kept"
    | "data-dropped"
    | "evaluated"
    | "held"
    | "unheld"
  >,
): void {
  const version = state.versions.get(fact.versionId);
  if (version === undefined) {
    // Somebody gave up a claim that nobody can prove or send.
    if (fact.type === "retired" && state.claims.delete(fact.versionId)) return;
    state.ignoredFacts++;
    return;
  }
  const { atMs } = fact;
  switch (fact.type) {
    case "stored":
      version.storedAtMs ??= atMs;
      return;
    case "released":
      version.released ??= { atMs, because: fact.because };
      return;
    case "retired":
      version.retired ??= { atMs, because: fact.because, ...byOf(fact) };
      return;
    case "replayed": {
      const { verdict, grade, engineId, because } = fact;
      version.replayed = { atMs, verdict, grade, engineId, because, ...byOf(fact), ...measuredOf(fact) };
      const others = [...(version.provedBy ?? [])].filter((id) => id !== engineId);
      version.provedBy = new Set(verdict === "proved" ? [...others, engineId] : others);
      return;
    }
    case "dropped": {
      const { because, base, engine, engineId, data, replayMs } = fact;
      version.dropped = { atMs, because, base, engine, engineId, data, replayMs, ...byOf(fact) };
      return;
    }
    case "kept":
      delete version.dropped;
      return;
    case "data-dropped":
      version.dataDropped ??= { atMs, because: fact.because, ...byOf(fact) };
      return;
    case "evaluated":
      addEvaluation(version, fact);
      return;
    case "held":
      version.held = { atMs, because: fact.because, ...byOf(fact) };
      return;
    case "unheld":
      delete version.held;
  }
}

function applyToDevice(
  state: FleetState,
  fact: FactOf<
    | "revoked"
    | "quarantined"
    | "unquarantined"
    | "device-removed"
    | "device-erased"
    | "settings"
    | "settings-reported"
    | "certified"
    | "session"
    | "given"
    | "recipe-given"
    | "assigned"
    | "labelled"
  >,
): void {
  changeDevice(state, fact.device, (device) => {
    switch (fact.type) {
      case "revoked":
      case "quarantined":
      case "unquarantined":
      case "device-removed":
      case "device-erased":
        applyStanding(device, fact);
        return;
      case "settings":
      case "settings-reported":
        applySettings(device, fact);
        return;
      case "session":
        applySession(device, fact);
        return;
      case "certified":
        applyCertified(device, fact);
        return;
      case "given":
        applyGiven(device, fact);
        return;
      case "recipe-given":
        device.recipes.add(fact.recipe);
        return;
      case "labelled":
        device.labels = labelsAfter(device.labels, fact.labels);
        return;
      case "assigned":
        applyAssigned(device, state.length - 1, fact);
        state.distributed.add(fact.versionId);
    }
  });
}

function applyData(state: FleetState, fact: FactOf<"data">): void {
  const { name, kind, location, parameters = {}, hash, object } = fact;
  if (hash !== null && object !== undefined) state.dataObjects.set(hash, object);
  if (fact.removed === true) state.datasets.delete(name);
  else state.datasets.set(name, { name, kind, location, parameters, hash });
}

function changeDevice(state: FleetState, name: string, change: (device: DeviceState) => void): void {
  const device = state.devices.get(name);
  if (device === undefined) state.ignoredFacts++;
  else change(device);
}

function applyRecorded(state: FleetState, position: number, fact: FactOf<"recorded">): void {
  if (state.versions.has(fact.versionId) || fact.version < nextVersionNumber(state, fact.name)) {
    state.ignoredFacts++;
    return;
  }
  const claim = state.claims.get(fact.versionId);
  state.claims.delete(fact.versionId);
  const version: VersionState = {
    versionId: fact.versionId,
    name: fact.name,
    version: fact.version,
    position,
    recordedAtMs: fact.atMs,
    tensorBytes: fact.tensorBytes ?? 0,
    ownBytes: fact.ownBytes ?? 0,
    generation: fact.generation,
    ...byOf(fact),
    ...(claim?.proved === undefined
      ? {}
      : { replayed: claim.proved, provedBy: new Set([claim.proved.engineId]) }),
    ...(claim === undefined ? {} : { claim: formerClaim(claim) }),
    tags: new Set(),
  };
  state.versions.set(fact.versionId, version);
  const versions = state.names.get(fact.name);
  if (versions === undefined) state.names.set(fact.name, [version]);
  else versions.push(version);
}

function applyTagged(state: FleetState, fact: FactOf<"tagged">): void {
  const target = fact.versionId === null ? undefined : state.versions.get(fact.versionId);
  // A tag of a name is on one of its versions; append-facts.ts writes no other.
  if (fact.versionId !== null && target?.name !== fact.name) {
    state.ignoredFacts++;
    return;
  }
  let tags = state.tags.get(fact.name);
  if (tags === undefined) state.tags.set(fact.name, (tags = new Map<string, Hash>()));
  const before = tags.get(fact.tag);
  if (before !== undefined) state.versions.get(before)?.tags.delete(fact.tag);
  if (target === undefined) tags.delete(fact.tag);
  else {
    tags.set(fact.tag, target.versionId);
    target.tags.add(fact.tag);
  }
}

export function retentionKey({ line, name }: Pick<RetentionState, "line" | "name">): string {
  return name !== null ? `name ${name}` : line !== null ? `line ${line}` : "fleet";
}

function applyRetention(state: FleetState, fact: FactOf<"retention">): void {
  const { line, name, rule, atMs } = fact;
  if (rule === null) state.retention.delete(retentionKey({ line, name }));
  else
    state.retention.set(retentionKey({ line, name }), {
      line,
      name,
      rule,
      atMs,
      ...byOf(fact),
    });
}

function applyDropPolicy(state: FleetState, fact: FactOf<"drop-policy">): void {
  const { line, name, policy, atMs } = fact;
  const key = retentionKey({ line, name });
  if (policy === null) state.dropPolicies.delete(key);
  else state.dropPolicies.set(key, { line, name, policy, atMs, ...byOf(fact) });
}

/** Entries before this position are in a backup. The backup that a fleet was restored from also counts. */
export function backedUpTo(state: FleetState): number {
  const restored = state.restores.filter(({ isFromBackup }) => isFromBackup);
  return [...state.backups, ...restored].reduce((most, { position }) => Math.max(most, position), 0);
}

/**
 * The versions that are assigned to, or active on, a line of a device, or that rollouts need, or from which dropped
 * versions are recovered, each with a description of the use. Revoked devices do not count.
 */
export function versionsInUse(
  state: FleetState,
  { withBasesOfDropped = true }: { readonly withBasesOfDropped?: boolean } = {},
): Map<Hash, string> {
  const inUse = new Map<Hash, string>();
  for (const { name, version, dropped, retired } of state.versions.values())
    if (withBasesOfDropped && dropped?.base != null && retired === undefined)
      inUse.set(dropped.base, `needed to recover ${name}:${version}, which has no tensors here,`);
  for (const [versionId, use] of versionsOfRollouts(state.rollouts, state.devices)) inUse.set(versionId, use);
  for (const device of state.devices.values()) {
    if (device.status === "revoked") continue;
    for (const [line, { versionId }] of device.assignments)
      inUse.set(versionId, `assigned to ${device.device}/${line}`);
    for (const [line, versionId] of lastActivations(device))
      inUse.set(versionId, `active on ${device.device}/${line}`);
  }
  return inUse;
}

function applyRecipe(
  recipes: FleetState["recipes"],
  fact: FactOf<"recipe-approved"> | FactOf<"recipe-revoked">,
): void {
  const { recipe, because, atMs } = fact;
  const known = recipes.get(recipe);
  // Again at the end: of several of one name the last approved is meant.
  if (fact.type === "recipe-approved") {
    recipes.delete(recipe);
    recipes.set(recipe, { recipe, name: fact.name, version: fact.version, because, atMs, ...byOf(fact) });
  } else if (known !== undefined)
    recipes.set(recipe, { ...known, revoked: { atMs, because, ...byOf(fact) } });
}
