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
import { defined } from "../../../../shared/defined.js";
import { byOf } from "../../../../shared/journal/caller.js";
import type { Fact, FactOf } from "../../../../shared/journal/fact.js";
import { numberKey } from "../../../access/identity/trusted-authority.js";
import { applyAuthorityAdded, applyAuthorityList, applyAuthorityRemoved } from "./authority-state.js";
import { applyBatchUse, batchOf } from "./batch-state.js";
import { applyClaimed, applyToClaim } from "./claim-state.js";
import { labelsAfter } from "./device-labels.js";
import {
  applyActivated,
  applyAssigned,
  applyEnrolled,
  applyCertified,
  applySession,
  applyGiven,
  applySettings,
  applyStanding,
  type DeviceState,
} from "./device-state.js";
import { applyRecorded, applyTagged, applyToVersion } from "./apply-version.js";
import { applyRecipe } from "./recipe-state.js";
import { applyRestored, applyRestoreApproved } from "./restore-state.js";
import { applyRetention, applyDropPolicy } from "./retention-state.js";
import { applyRollout } from "./rollout-state.js";
import { activatedInRollouts, assignedInRollouts, judgedInRollout } from "./rollout-switches.js";
import type { FleetState } from "./state.js";
import { applySucceeded } from "./successors.js";

/** Applies the fact at `position`. Facts must be applied in order, each once. */
// eslint-disable-next-line max-lines-per-function -- a case for each type of fact
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
    case "spot-checked":
    case "dropped":
    case "kept":
    case "data-dropped":
    case "evaluated":
    case "held":
    case "unheld":
      return applyToVersion(state, fact);
    case "succeeded":
      return applySucceeded(state.successors, fact);
    case "listed": {
      const { versionId, license, task, atMs } = fact;
      state.listings.delete(versionId);
      state.listings.set(versionId, { versionId, ...defined({ license, task }), atMs, ...byOf(fact) });
      return;
    }
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
        const wasAnswered = !device.unanswered.has(fact.line);
        const { activations } = state;
        applyActivated(device, { position, knownAt: known?.position, activations }, fact);
        noteRolloutsOf(state, device, fact.line);
        activatedInRollouts(state.rollouts, device, { line: fact.line, wasAnswered });
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
      else {
        state.changed.rollouts.add(fact.rollout);
        if (fact.type === "judged") applyJudged(state, fact);
      }
      return;
    case "retention":
      return applyRetention(state.retention, fact);
    case "drop-policy":
      return applyDropPolicy(state.dropPolicies, fact);
    case "data":
      return applyData(state, fact);
    case "query":
      if (fact.text === undefined) state.queries.delete(fact.name);
      else state.queries.set(fact.name, { name: fact.name, text: fact.text, atMs: fact.atMs, ...byOf(fact) });
      return;
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
    case "authority-added":
      return applyAuthorityAdded(state.authorities, fact);
    case "authority-removed":
      if (!applyAuthorityRemoved(state.authorities, fact)) state.ignoredFacts++;
      return;
    case "authority-list":
      if (!applyAuthorityList(state.authorities, fact)) state.ignoredFacts++;
      return;
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
      return applyRestored(state, position, fact);
    case "restore-approved":
      return applyRestoreApproved(state, fact);
    case "time-stated":
      // Devices take the highest number, whichever came last.
      if (fact.number > (state.ownerTime?.number ?? 0))
        state.ownerTime = { number: fact.number, statement: fact.statement };
      return;
    default:
      state.unknownFacts++;
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
        if (fact.type === "revoked") endCertificates(state, device);
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
        noteRolloutsOf(state, device, fact.line);
        assignedInRollouts(state.rollouts, device, fact);
        state.distributed.add(fact.versionId);
    }
  });
}

function changeDevice(state: FleetState, name: string, change: (device: DeviceState) => void): void {
  const device = state.devices.get(name);
  if (device === undefined) state.ignoredFacts++;
  else {
    state.changed.devices.add(name);
    change(device);
  }
}

function applyJudged(state: FleetState, fact: FactOf<"judged">): void {
  const device = state.devices.get(fact.device);
  judgedInRollout(state.rollouts, device, fact);
  if (device === undefined) return;
  state.changed.devices.add(fact.device);
  for (const line of device.passedIn.keys()) noteRolloutsOf(state, device, line);
}

/** The rollouts in which a line passed change with what it is given or runs. */
function noteRolloutsOf(state: FleetState, device: DeviceState, line: string): void {
  for (const rollout of device.passedIn.get(line) ?? []) state.changed.rollouts.add(rollout);
}

/** A certificate of an owner's authority names no enrolment, so it would be good for the next one, too. */
function endCertificates({ endedCertificates }: FleetState, { certificates = [] }: DeviceState): void {
  for (const { issuer, serial } of certificates)
    if (issuer !== undefined) endedCertificates.add(numberKey({ issuer, serial }));
}

function applyBatchRevoked(state: FleetState, fact: FactOf<"batch-revoked">): void {
  const batch = state.batches.get(fact.batch);
  if (batch === undefined) state.ignoredFacts++;
  else {
    const { atMs, because } = fact;
    state.batches.set(fact.batch, { ...batch, revoked: { atMs, because, ...byOf(fact) } });
  }
}

function applyData(state: FleetState, fact: FactOf<"data">): void {
  const { name, kind, location, parameters = {}, hash, files, object, description } = fact;
  if (hash !== null && object !== undefined) state.dataObjects.set(hash, object);
  if (hash !== null && description !== undefined) {
    const known = state.dataDescriptions.get(hash) ?? [];
    state.dataDescriptions.set(hash, [...known.filter((each) => each !== description), description]);
  }
  if (fact.removed === true) state.datasets.delete(name);
  else state.datasets.set(name, { name, kind, location, parameters, hash, ...(files && { files }) });
}
