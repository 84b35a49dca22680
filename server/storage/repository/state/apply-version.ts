/** Facts about versions, applied to a fleet's state: the number of each, its tags, and what became of it. Pure. */
import { defined } from "../../../../shared/defined.js";
import { byOf } from "../../../../shared/journal/caller.js";
import type { FactOf } from "../../../../shared/journal/fact.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { formerClaim, measuredOf } from "./claim-state.js";
import { addEvaluation } from "./evaluation-state.js";
import type { FleetState } from "./state.js";
import type { ChangingVersion, VersionState } from "./version-state.js";

/** The number that the next version of a name gets. */
export function nextVersionNumber(state: FleetState, name: string): number {
  return (state.names.last(name)?.order ?? 0) + 1;
}

export function applyRecorded(state: FleetState, position: number, fact: FactOf<"recorded">): void {
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
    ...defined({ storedBytes: fact.storedBytes }),
    generation: fact.generation,
    ...defined({ received: fact.received }),
    ...byOf(fact),
    ...(claim?.proved === undefined
      ? {}
      : { replayed: claim.proved, provedBy: new Set([claim.proved.engineId]) }),
    ...defined({ claim: claim && formerClaim(claim) }),
    tags: new Set(),
  };
  state.versions.add(version);
  state.live.tensorBytes += version.tensorBytes;
  state.unsettled.add(position);
  if (version.replayed !== undefined) state.replayed.add(position);
  state.names.add(fact.name, fact.version, fact.versionId);
}

export function applyTagged(state: FleetState, fact: FactOf<"tagged">): void {
  const target = fact.versionId === null ? undefined : state.versions.get(fact.versionId);
  // A tag of a name is on one of its versions; append-facts.ts writes no other.
  if (fact.versionId !== null && target?.name !== fact.name) {
    state.ignoredFacts++;
    return;
  }
  let tags = state.tags.get(fact.name);
  if (tags === undefined) state.tags.set(fact.name, (tags = new Map<string, Hash>()));
  const before = tags.get(fact.tag);
  if (before !== undefined)
    state.versions.change(before, (version: ChangingVersion) => {
      version.tags = new Set([...version.tags].filter((tag) => tag !== fact.tag));
    });
  if (target === undefined) tags.delete(fact.tag);
  else {
    tags.set(fact.tag, target.versionId);
    state.versions.change(target.versionId, (version: ChangingVersion) => {
      version.tags = new Set([...version.tags, fact.tag]);
    });
  }
}

type VersionFact = FactOf<
  | "stored"
  | "released"
  | "retired"
  | "replayed"
  | "spot-checked"
  | "dropped"
  | "kept"
  | "data-dropped"
  | "evaluated"
  | "held"
  | "unheld"
>;

export function applyToVersion(state: FleetState, fact: VersionFact): void {
  const isKnown = state.versions.change(fact.versionId, (version: ChangingVersion) => {
    if (fact.type === "retired" && version.retired === undefined) state.retiredCount++;
    countLive(state, version, -1);
    changeVersion(version, fact);
    countLive(state, version, 1);
    if (fact.type === "released" || fact.type === "retired") state.unsettled.delete(version.position);
    else if (fact.type === "evaluated" || fact.type === "replayed") state[fact.type].add(version.position);
  });
  if (isKnown) {
    if (fact.type === "dropped") state.dropped.add(fact.versionId);
    else if (fact.type === "kept") state.dropped.delete(fact.versionId);
    return;
  }
  // Somebody gave up a claim that nobody can prove or send.
  if (fact.type !== "retired" || !state.claims.delete(fact.versionId)) state.ignoredFacts++;
}

/** Adds a version to what is live, or takes it away, as it is now. */
function countLive({ live }: FleetState, { retired, dropped, tensorBytes }: VersionState, by: 1 | -1): void {
  if (retired !== undefined) return;
  live.tensorBytes += by * tensorBytes;
  if (dropped === undefined) return;
  live.dropped.versions += by;
  live.dropped.tensorBytes += by * tensorBytes;
}

function changeVersion(version: ChangingVersion, fact: VersionFact): void {
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
    case "spot-checked": {
      // A device cannot take a refutation back by not answering the next time.
      if (version.spotCheck?.outcome === "refuted") return;
      const { outcome, segments, of, engineId, because } = fact;
      version.spotCheck = { atMs, outcome, segments, of, engineId, because, ...byOf(fact) };
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
      version.hold = { atMs, because: fact.because, ...byOf(fact) };
      return;
    case "unheld":
      delete version.hold;
  }
}
