/**
 * Appends facts from callers (ingest, commands) after checking them against the state. Facts that contradict
 * the state are refused here, so that reading the journal never has to refuse one.
 */
import { StemmaError } from "../../../../shared/errors.js";
import type { Fact } from "../../../../shared/journal/fact.js";
import type { DeviceCertificate } from "../../../../shared/journal/facts/device-facts.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { Draft } from "../commit-queue.js";
import type { RepositoryContext } from "../context.js";
import { checkSetting } from "../../../../shared/wire/device-settings.js";
import { numberKey } from "../../../access/identity/trusted-authority.js";
import { checkAuthorityFact, requireAuthority } from "./authority-state.js";
import { batchRefused, whyNotInBatch } from "./batch-state.js";
import { checkLabels } from "./device-labels.js";
import { checkFact } from "./fact-codec.js";
import { nextGeneration } from "./device-state.js";
import { checkHoldable, describeHold } from "./hold.js";
import { checkDeviceName, checkName, checkTag } from "./naming.js";
import { parseRetentionRule } from "../retention/retention-rules.js";
import { checkRollout, withCreated } from "./rollout-state.js";
import {
  batchExists,
  batchUnknown,
  certificateEndedHere,
  deviceUnknown,
  enrolledMeanwhile,
  neededByReplay,
  notQuarantined,
  onlyRevoked,
  onlyThroughMethods,
  tagOfAnotherName,
  versionDropped,
  versionHeld,
  versionInUse,
  versionRetired,
  versionUnknown,
} from "./state-errors.js";
import { checkSuccessor } from "./successors.js";
import { versionsIn } from "./version-table.js";
import { versionsInUse } from "./versions-in-use.js";
import type { FactOf } from "../../../../shared/journal/fact.js";
import type { FleetState } from "./state.js";
import type { VersionState } from "./version-state.js";

/**
 * A retirement is decided alone, so that it sees every assignment and hold before it; an enrolment, a declared
 * successor and what happens in a rollout, so that they see the ones before them.
 */
const exclusiveTypes: ReadonlySet<Fact["type"]> = new Set([
  "retired",
  "enrolled",
  "batch-created",
  "batch-revoked",
  "authority-added",
  "authority-removed",
  "authority-list",
  "unquarantined",
  "device-removed",
  "device-erased",
  "succeeded",
  "rollout",
  "rollout-approved",
  "rollout-phase",
  "wave",
  "measured",
  "judged",
  "switch-failed",
]);

/** The names that people give, before anything else of a fact: one of any length is refused as a name. */
function checkNames(fact: Fact): void {
  if (fact.type === "tagged") checkTag(fact.tag);
  else if (fact.type === "enrolled") checkDeviceName(fact.device);
  else if (fact.type === "batch-created") checkName("batch", fact.batch);
  else if (fact.type === "authority-added") checkName("authority", fact.authority);
  else if (fact.type === "data") checkName("dataset", fact.name);
  else if (fact.type === "query") checkName("query", fact.name);
  else if (fact.type === "retention" || fact.type === "drop-policy") checkScope(fact);
  else if (fact.type === "rollout") {
    checkName("rollout", fact.rollout);
    checkName("line", fact.line);
  }
}

/**
 * See FleetRepository.append.
 * @throws FACT_INVALID, MODEL_NOT_FOUND, MODEL_RETIRED, MODEL_HELD, MODEL_IN_USE, DEVICE_UNKNOWN,
 *   NAME_INVALID
 */
export async function appendFacts(
  context: RepositoryContext,
  facts: readonly Fact[],
): Promise<readonly number[]> {
  for (const fact of facts) checkNames(fact);
  const checked = facts.map(checkFact);
  const changed = checked.flatMap((fact) =>
    "versionId" in fact && fact.versionId !== null ? [fact.versionId] : [],
  );
  return await context.queue.submit({
    requiredObjects: [],
    isExclusive: checked.some(({ type }) => exclusiveTypes.has(type)),
    decide: ({ state, recordedHere }: Draft) => {
      let present = state;
      for (const fact of checked) {
        checkAgainst(present, recordedHere, fact);
        // A rollout may start in the append that creates it.
        if (fact.type === "rollout") present = { ...present, rollouts: withCreated(present.rollouts, fact) };
        if (fact.type === "redacted") refuseNeededByReplay(context, fact.object);
      }
      return checked;
    },
    onApplied: () => {
      context.versionsChanged(changed);
    },
  });
}

/** @throws NOT_ALLOWED where a dropped version is recovered by what is to be redacted */
function refuseNeededByReplay({ state, records }: RepositoryContext, object: Hash): void {
  for (const { versionId, name, version, retired } of versionsIn(state, state.dropped))
    if (retired === undefined && records.get(versionId)?.objects.openings === object)
      throw neededByReplay(versionId, `${name}:${version}`);
}

function requireNotRetired(
  state: FleetState,
  recordedHere: ReadonlySet<Hash>,
  versionId: Hash,
  toDo: string,
): void {
  if (recordedHere.has(versionId)) return;
  const version = requireVersionState(state, versionId);
  if (version.retired !== undefined) throw versionRetired(version, `cannot be ${toDo}`);
}

/** Devices are given only what is at hand. @throws MODEL_DROPPED */
function requireTensors(state: FleetState, versionId: Hash): void {
  const version = state.versions.get(versionId);
  if (version?.dropped === undefined) return;
  const name = `${version.name}:${version.version}`;
  throw versionDropped(versionId, name);
}

function requireVersionState(state: FleetState, versionId: Hash): VersionState {
  const version = state.versions.get(versionId);
  if (version === undefined) throw versionUnknown(versionId);
  return version;
}

function requireDevice(state: FleetState, device: string): void {
  if (!state.devices.has(device)) throw deviceUnknown(device);
}

/** A device leaves quarantine only from there, and is removed only after it was revoked. @throws NOT_ALLOWED */
function requireStatus(
  state: FleetState,
  { type, device }: FactOf<"unquarantined" | "device-removed" | "device-erased">,
): void {
  const { status } = state.devices.get(device) ?? {};
  const needed = type === "unquarantined" ? "quarantined" : "revoked";
  if (status === needed) return;
  if (type === "unquarantined") throw notQuarantined(device, status);
  throw onlyRevoked(device, status, type === "device-removed" ? "removed" : "erased");
}

/** The state that a fact is checked against: the state, and the versions that the same commit records. */
interface Present {
  readonly state: FleetState;
  readonly recordedHere: ReadonlySet<Hash>;
}

type FactChecks = {
  readonly [Type in Fact["type"]]: (present: Present, fact: FactOf<Type>) => void;
};

function unchecked(): void {
  // Nothing in the state can contradict it.
}

function refuseDirect(): never {
  throw onlyThroughMethods();
}

function checkRecorded({ state, recordedHere }: Present, { versionId }: { readonly versionId: Hash }): void {
  if (!recordedHere.has(versionId)) requireVersionState(state, versionId);
}

function checkKnownDevice({ state }: Present, { device }: { readonly device: string }): void {
  requireDevice(state, device);
}

function checkRolloutStep({ state }: Present, fact: FactOf<"rollout-approved" | "rollout-phase">): void {
  checkRollout(state.rollouts, fact);
}

function checkDeviceInRollout(
  { state }: Present,
  fact: FactOf<"measured" | "judged" | "switch-failed">,
): void {
  requireDevice(state, fact.device);
  checkRollout(state.rollouts, fact);
}

function checkStatus(
  { state }: Present,
  fact: FactOf<"unquarantined" | "device-removed" | "device-erased">,
): void {
  requireDevice(state, fact.device);
  requireStatus(state, fact);
}

function checkAuthority(
  { state }: Present,
  fact: FactOf<"authority-added" | "authority-removed" | "authority-list">,
): void {
  checkAuthorityFact(state.authorities, fact);
}

function checkTagged({ state, recordedHere }: Present, { name, versionId }: FactOf<"tagged">): void {
  if (versionId === null) return;
  requireNotRetired(state, recordedHere, versionId, "tagged");
  const known = state.versions.get(versionId)?.name;
  if (known !== undefined && known !== name) throw tagOfAnotherName(name, known);
}

const factChecks: FactChecks = {
  recorded: refuseDirect,
  proved: refuseDirect,
  refuted: refuseDirect,
  unreplayable: refuseDirect,
  evaluated: refuseDirect,
  listed: refuseDirect,
  dropped: refuseDirect,
  kept: refuseDirect,
  "data-dropped": refuseDirect,
  published: refuseDirect,
  stored: checkRecorded,
  released: checkRecorded,
  held: ({ state, recordedHere }, { versionId }) => {
    if (recordedHere.has(versionId)) return;
    const version = requireVersionState(state, versionId);
    checkHoldable({ ...version, hold: version.hold });
  },
  replayed: ({ state }, { versionId }) => {
    requireVersionState(state, versionId);
  },
  "spot-checked": ({ state }, { versionId }) => {
    requireVersionState(state, versionId);
  },
  unheld: ({ state }, { versionId }) => {
    requireVersionState(state, versionId);
  },
  retired: ({ state }, { versionId }) => {
    checkRetirable(state, versionId);
  },
  succeeded: (present, fact) => {
    checkRecorded(present, fact);
    checkRecorded(present, { versionId: fact.successor });
    checkSuccessor(present.state.successors, fact);
  },
  tagged: checkTagged,
  enrolled: ({ state }, fact) => {
    checkEnrolled(state, fact);
  },
  assigned: ({ state, recordedHere }, { device, versionId }) => {
    requireDevice(state, device);
    requireNotRetired(state, recordedHere, versionId, "assigned");
    requireTensors(state, versionId);
  },
  rollout: ({ state, recordedHere }, fact) => {
    requireNotRetired(state, recordedHere, fact.versionId, "rolled out");
    requireTensors(state, fact.versionId);
    checkRollout(state.rollouts, fact);
  },
  "rollout-approved": checkRolloutStep,
  "rollout-phase": checkRolloutStep,
  wave: ({ state }, fact) => {
    for (const device of fact.devices) requireDevice(state, device);
    checkRollout(state.rollouts, fact);
  },
  measured: checkDeviceInRollout,
  judged: checkDeviceInRollout,
  "switch-failed": checkDeviceInRollout,
  unquarantined: checkStatus,
  "device-removed": checkStatus,
  "device-erased": checkStatus,
  settings: ({ state }, { device, settings }) => {
    requireDevice(state, device);
    for (const [key, value] of Object.entries(settings)) if (value !== null) checkSetting(key, value);
  },
  labelled: ({ state }, fact) => {
    requireDevice(state, fact.device);
    checkLabels(state.devices.get(fact.device)?.labels ?? {}, fact);
  },
  revoked: checkKnownDevice,
  quarantined: checkKnownDevice,
  "settings-reported": checkKnownDevice,
  session: checkKnownDevice,
  given: checkKnownDevice,
  "recipe-given": checkKnownDevice,
  // A device may report an activation before its version is recorded here, so the version is not checked.
  activated: checkKnownDevice,
  certified: ({ state }, { device, certificate }) => {
    requireDevice(state, device);
    checkCertificate(state, certificate);
  },
  "batch-created": ({ state }, fact) => {
    checkBatch(state, fact);
  },
  "batch-revoked": ({ state }, { batch }) => {
    requireOpenBatch(state, batch);
  },
  "authority-added": checkAuthority,
  "authority-removed": checkAuthority,
  "authority-list": checkAuthority,
  retention: (_, fact) => {
    // Parsed before it is written, because a rule in the journal must be readable when it is applied.
    if (fact.rule !== null) parseRetentionRule(fact.rule);
  },
  "drop-policy": unchecked,
  data: unchecked,
  query: unchecked,
  "engine-approved": unchecked,
  "engine-removed": unchecked,
  "recipe-approved": unchecked,
  "recipe-revoked": unchecked,
  "server-key": unchecked,
  redacted: unchecked,
  webhook: unchecked,
  backup: unchecked,
  restored: unchecked,
  "restore-approved": unchecked,
  "time-stated": unchecked,
};

function checkAgainst<Type extends Fact["type"]>(
  state: FleetState,
  recordedHere: ReadonlySet<Hash>,
  fact: FactOf<Type>,
): void {
  const check: FactChecks[Type] = factChecks[fact.type];
  check({ state, recordedHere }, fact);
}

/** Decided with the journal, so that no device enrols or goes on with an authority that was removed meanwhile. */
function checkCertificate(state: FleetState, certificate: DeviceCertificate | undefined): void {
  const { authority, issuer, serial } = certificate ?? {};
  if (authority === undefined || issuer === undefined || serial === undefined) return;
  requireAuthority(state.authorities, authority);
  if (state.endedCertificates.has(numberKey({ issuer, serial }))) throw certificateEndedHere(serial);
}

function checkEnrolled(
  state: FleetState,
  { device, generation, batch, atMs, certificate }: FactOf<"enrolled">,
): void {
  checkCertificate(state, certificate);
  if (batch !== undefined) {
    const known = state.devices.get(device);
    const present = known?.removed === undefined ? known : undefined;
    const why = whyNotInBatch(state.batches.get(batch), { device, atMs, known: present });
    if (why !== undefined) throw batchRefused(device, why);
  }
  const next = nextGeneration(state.devices.get(device), state.generationFloor);
  if (generation !== undefined && generation !== next) throw enrolledMeanwhile(device, next, generation);
}

function checkBatch(state: FleetState, { batch, labels = {}, authority }: FactOf<"batch-created">): void {
  if (authority !== undefined) requireAuthority(state.authorities, authority);
  checkLabels({}, { device: `the batch ${batch}`, labels });
  if (state.batches.has(batch)) throw batchExists(batch);
}

function requireOpenBatch(state: FleetState, name: string): void {
  const batch = state.batches.get(name);
  if (batch === undefined) throw batchUnknown(name);
  if (batch.revoked !== undefined)
    throw new StemmaError("NOT_ALLOWED", `The batch ${name} is revoked already. Nothing was changed.`);
}

function checkScope({ line, name }: FactOf<"retention" | "drop-policy">): void {
  if (line !== null && name !== null)
    throw new StemmaError(
      "FACT_INVALID",
      "A rule or policy is of a line or of a name, not of both. Name one of them.",
      { line, name },
    );
  if (line !== null) checkName("line", line);
  if (name !== null) checkName("model", name);
}

/**
 * @param inUse result of versionsInUse, for callers that check many versions
 * @throws MODEL_NOT_FOUND, MODEL_HELD, MODEL_IN_USE
 */
export function checkRetirable(
  state: FleetState,
  versionId: Hash,
  inUse: ReadonlyMap<Hash, string> = versionsInUse(state),
): void {
  const version = requireVersionState(state, versionId);
  const name = `${version.name}:${version.version}`;
  if (version.hold !== undefined) throw versionHeld(version, describeHold(version.hold), "cannot be retired");
  const use = inUse.get(versionId);
  if (use !== undefined) throw versionInUse(versionId, name, use);
}
