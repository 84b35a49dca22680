/**
 * The state of a device: its enrolments, its session, and what its lines run. Each enrolment starts a new
 * generation of the device. Sessions count within a generation, and what a line runs is what the device of this
 * generation reported: it may be another machine than the one before (docs/formats.md, "Generations"). Pure.
 */
import { defined } from "../../../../shared/defined.js";
import { byOf } from "../../../../shared/journal/caller.js";
import type { FactOf } from "../../../../shared/journal/fact.js";
import type { DeviceCertificate } from "../../../../shared/journal/facts/device-facts.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { settingsAfter, type DeviceSettings } from "../../../../shared/wire/device-settings.js";
import type { Assignment } from "../answers/device-answers.js";
import type { Ended } from "../answers/version-answers.js";
import type { LayeredLists } from "../../index/layered-lists.js";

export interface ActivationState {
  readonly position: number;
  /** Generation of the device that reported it. */
  readonly generation: number;
  readonly versionId: Hash;
  readonly deviceAtMs: number;
  readonly deviceClockErrorMs: number | null;
  readonly serverAtMs: number;
  readonly session: number;
  /** Position in the line's history on the device; undefined: reported by an agent that does not count. */
  readonly number: number | undefined;
}

export interface DesiredSettings {
  readonly values: DeviceSettings;
  /** The time when one of them was last changed. */
  readonly atMs: number;
  readonly by?: string;
}

export interface ReportedSettings {
  readonly values: DeviceSettings;
  readonly atMs: number;
}

export interface Generation {
  readonly generation: number;
  readonly enrolledAtMs: number;
  /** The caller who enrolled it. */
  readonly by?: string;
}

export interface DeviceState {
  readonly device: string;
  /** The enrolments in journal order; the last one is the current one. */
  readonly generations: Generation[];
  profile: string;
  lines: readonly string[];
  publicKey: string;
  tokenHash: string;
  /** The last ones of this generation, oldest first; undefined: it has a token. */
  certificates: readonly DeviceCertificate[] | undefined;
  status: "enrolled" | "revoked" | "quarantined";
  /** Highest session of the current generation; 0: none. */
  session: number;
  /** The time when it last connected or reported what it runs, by the server's clock; undefined: never. */
  seenAtMs: number | undefined;
  /** Given by people, whatever the generation. */
  labels: Readonly<Record<string, string>>;
  /** Line → its last activation, of any generation. The state has all of them. */
  readonly lastActivation: Map<string, ActivationState>;
  revoked: Ended | undefined;
  /** The batch with whose invitation this generation enrolled. */
  batch: string | undefined;
  /** True if it is not served before a person accepts it; it is quarantined until then. */
  waits: boolean;
  /** The quarantine, since when and why; undefined: it has none. */
  quarantined: Ended | undefined;
  /** Revoked, and not listed any more. */
  removed: Ended | undefined;
  /** The latest erasure of what it had given until then. */
  erased: Ended | undefined;
  /** The settings that it is to have, whatever the generation; undefined: nobody has set anything. */
  settings: DesiredSettings | undefined;
  /** The settings that this generation reports; undefined: it has not reported them. */
  reportedSettings: ReportedSettings | undefined;
  /** Line → version that the server assigned to it. */
  readonly assignments: Map<string, Assignment>;
  /** Lines that did not activate what was assigned to them since; without what an enrolment assigned. */
  readonly unanswered: Set<string>;
  /**
   * Lines that were assigned what they were known to run, with the journal position of the assignment: a switch to
   * another version may have been under way.
   */
  readonly assumed: Map<string, number>;
  /** Line → rollouts in which it passed and whose version it was given last. */
  readonly passedIn: Map<string, Set<string>>;
  /** Versions that the server has sent completely to the current generation. */
  deliveredVersions: Set<Hash>;
  /** The transfers of them, oldest first; without those that nothing was measured of. */
  deliveries: Delivery[];
  /** Recipes of the fleet's own that the server has sent to the device, whatever its generation. */
  readonly recipes: Set<Hash>;
}

/** The bytes and the time of a version's transfer to a device. */
export interface Delivery {
  readonly versionId: Hash;
  readonly atMs: number;
  readonly bytes: number;
  readonly durationMs: number;
}

/** Max deliveries of a device that are kept. */
const maxDeliveries = 64;

export function applyGiven(device: DeviceState, fact: FactOf<"given">): void {
  const { generation, versionId, atMs, bytes, durationMs } = fact;
  if (generation !== currentGeneration(device).generation) return;
  device.deliveredVersions.add(versionId);
  if (bytes === undefined || durationMs === undefined) return;
  device.deliveries.push({ versionId, atMs, bytes, durationMs });
  if (device.deliveries.length > maxDeliveries) device.deliveries.shift();
}

const noGeneration: Generation = { generation: 0, enrolledAtMs: 0 };

export function currentGeneration(device: Pick<DeviceState, "generations">): Generation {
  return device.generations.at(-1) ?? noGeneration;
}

/**
 * The generation that the next enrolment of a device starts.
 * @param floor of the fleet, see generationFloor
 */
export function nextGeneration(device: Pick<DeviceState, "generations"> | undefined, floor: number): number {
  const counted = device === undefined ? 1 : currentGeneration(device).generation + 1;
  return Math.max(counted, floor);
}

const floorStartMs = Date.UTC(2020, 0, 1);
const maxFloor = 2 ** 31;

/**
 * The lowest generation of enrolments after a restore: the seconds since 2020 at the newest time in the journal.
 * So none is the number of an enrolment that was lost: those counted on from 1, or from the time of an earlier
 * restore, and no device is enrolled once a second.
 * @param newestMs newest time of a fact in the journal, the restore's included: the clock may have been set back
 */
export function generationFloor(newestMs: number): number {
  const seconds = Math.floor((newestMs - floorStartMs) / 1000);
  return Math.min(Math.max(seconds, 1), maxFloor);
}

export function applyEnrolled(devices: Map<string, DeviceState>, fact: FactOf<"enrolled">): void {
  const known = devices.get(fact.device);
  const generation = {
    // Journals of early releases name no generation; restores did not change how they count.
    generation: fact.generation ?? nextGeneration(known, 1),
    enrolledAtMs: fact.atMs,
    ...byOf(fact),
  };
  const fields = {
    profile: fact.profile,
    lines: fact.lines,
    publicKey: fact.publicKey,
    tokenHash: fact.tokenHash,
    certificates: fact.certificate && [fact.certificate],
    status: "enrolled" as const,
    revoked: undefined,
    quarantined: undefined,
    batch: fact.batch,
    waits: false,
    removed: undefined,
    erased: known?.erased,
    reportedSettings: undefined,
    session: 0,
    deliveredVersions: new Set<Hash>(),
    deliveries: [],
  };
  if (known !== undefined) {
    Object.assign(known, fields);
    known.generations.push(generation);
    return;
  }
  devices.set(fact.device, {
    device: fact.device,
    generations: [generation],
    lastActivation: new Map(),
    assignments: new Map(),
    unanswered: new Set(),
    assumed: new Map(),
    passedIn: new Map(),
    recipes: new Set(),
    seenAtMs: undefined,
    labels: {},
    settings: undefined,
    ...fields,
  });
}

/**
 * A device that was cut off between its renewal and its receipt still has the certificate before, and asks again with
 * that one.
 */
const keptCertificates = 2;
/**
 * The largest number of certificates that are kept of an owner's authority, which may give one for a day: all
 * that are good at the same time are known.
 */
const keptOfOwner = 16;

export function applyCertified(device: DeviceState, fact: FactOf<"certified">): void {
  if (fact.generation !== currentGeneration(device).generation) return;
  const kept = fact.certificate.authority === undefined ? keptCertificates : keptOfOwner;
  device.certificates = [...(device.certificates ?? []), fact.certificate].slice(-kept);
}

export function applySession(device: DeviceState, { session, atMs }: FactOf<"session">): void {
  device.session = Math.max(device.session, session);
  device.seenAtMs = Math.max(device.seenAtMs ?? atMs, atMs);
}

type StandingFact = FactOf<"revoked" | "quarantined" | "unquarantined" | "device-removed" | "device-erased">;

/** Applies a fact that decides whether the device is served, and why not. */
export function applyStanding(device: DeviceState, fact: StandingFact): void {
  const ended = { atMs: fact.atMs, because: fact.because, ...byOf(fact) };
  switch (fact.type) {
    case "revoked":
      device.status = "revoked";
      device.waits = false;
      device.revoked = ended;
      return;
    case "quarantined":
      if (device.status !== "enrolled") return;
      device.status = "quarantined";
      device.quarantined = ended;
      return;
    case "unquarantined":
      if (device.status !== "quarantined") return;
      device.status = "enrolled";
      device.waits = false;
      device.quarantined = undefined;
      return;
    case "device-erased":
      device.erased = ended;
      device.labels = {};
      device.settings = undefined;
      device.reportedSettings = undefined;
      return;
    case "device-removed":
      if (device.status !== "revoked") return;
      device.removed = ended;
      device.labels = {};
      device.settings = undefined;
      device.recipes.clear();
  }
}

export function applySettings(device: DeviceState, fact: FactOf<"settings" | "settings-reported">): void {
  const { atMs } = fact;
  if (fact.type === "settings")
    device.settings = {
      values: settingsAfter(device.settings?.values ?? {}, fact.settings),
      atMs,
      ...byOf(fact),
    };
  else if (fact.generation === currentGeneration(device).generation)
    device.reportedSettings = { values: fact.settings, atMs };
}

export function applyAssigned(device: DeviceState, position: number, fact: FactOf<"assigned">): void {
  const { line, versionId, atMs, rollout } = fact;
  device.assignments.set(line, {
    versionId,
    atMs,
    ...defined({ rollout }),
    ...byOf(fact),
  });
  const isOfEnrolment = currentGeneration(device).enrolledAtMs === atMs;
  const runs = activeOn(device, line)?.versionId === versionId;
  if (isOfEnrolment || runs) device.unanswered.delete(line);
  else device.unanswered.add(line);
  if (runs) device.assumed.set(line, position);
  else device.assumed.delete(line);
}

/** True if the enrolment of the current generation assigned what a line is to run. */
export function isAssignedByEnrolment(device: DeviceState, line: string): boolean {
  return device.assignments.get(line)?.atMs === currentGeneration(device).enrolledAtMs;
}

/** @param knownAt journal position at which the activated version was recorded; undefined: it was not */
export function applyActivated(
  device: DeviceState,
  {
    position,
    knownAt,
    activations,
  }: {
    readonly position: number;
    readonly knownAt: number | undefined;
    readonly activations: LayeredLists<ActivationState>;
  },
  fact: FactOf<"activated">,
): void {
  const assumedAt = device.assumed.get(fact.line);
  device.assumed.delete(fact.line);
  if (device.assignments.get(fact.line)?.versionId === fact.versionId) device.unanswered.delete(fact.line);
  // The line had switched away before the assignment, which it therefore still has to follow. What was recorded after
  // the assignment may have been trained from it.
  else if (assumedAt !== undefined && knownAt !== undefined && knownAt < assumedAt)
    device.unanswered.add(fact.line);
  device.seenAtMs = Math.max(device.seenAtMs ?? fact.atMs, fact.atMs);
  const { generation } = currentGeneration(device);
  // An exact repetition of the last activation is ignored, and nothing else. An older time does not mean a
  // repetition: the device's clock may have been set back.
  const key = lineKey(device.device, fact.line);
  const last = activations.last(key)?.value;
  if (
    last !== undefined &&
    last.generation === generation &&
    last.session === fact.session &&
    last.versionId === fact.versionId &&
    last.deviceAtMs === fact.deviceAtMs &&
    last.number === fact.number
  )
    return;
  const activation: ActivationState = {
    position,
    generation,
    versionId: fact.versionId,
    deviceAtMs: fact.deviceAtMs,
    deviceClockErrorMs: fact.deviceClockErrorMs,
    serverAtMs: fact.atMs,
    session: fact.session,
    number: fact.number,
  };
  activations.add(key, position, activation);
  const newest = device.lastActivation.get(fact.line);
  if (newest === undefined || !isEarlier(activation, newest))
    device.lastActivation.set(fact.line, activation);
}

/** Max activations of a line that a new one is compared with. */
const maxComparedActivations = 256;

/** See FleetRepository.hasActivation. */
export function hasActivation(
  device: DeviceState,
  activations: LayeredLists<ActivationState>,
  {
    line,
    versionId,
    deviceAtMs,
    number,
  }: Pick<ActivationState, "versionId" | "deviceAtMs" | "number"> & { readonly line: string },
): boolean {
  const { generation } = currentGeneration(device);
  let compared = 0;
  for (const one of activations.reversed(lineKey(device.device, line))) {
    if (
      one.generation === generation &&
      one.versionId === versionId &&
      one.deviceAtMs === deviceAtMs &&
      (one.number === undefined || number === undefined || one.number === number)
    )
      return true;
    if (++compared === maxComparedActivations) return false;
  }
  return false;
}

/** The key of a device's line in lists of activations. */
export function lineKey(device: string, line: string): string {
  return `${device}\0${line}`;
}

/**
 * Returns the version that a line runs, as the device of the current generation reported it; undefined: it did not yet.
 */
export function activeOn(device: DeviceState, line: string): ActivationState | undefined {
  const last = device.lastActivation.get(line);
  return last?.generation === currentGeneration(device).generation ? last : undefined;
}

/**
 * The last version that each line reported, also from before the device was enrolled again: until the device
 * reports, it may be the same machine and still run that version. Lines that the device no longer has are left
 * out.
 */
export function* lastActivations(device: DeviceState): Iterable<readonly [string, Hash]> {
  for (const [line, { generation, versionId }] of device.lastActivation)
    if (generation === currentGeneration(device).generation || device.lines.includes(line))
      yield [line, versionId];
}

/**
 * The interval in which an activation can have happened, in ms of the server's clock. It follows from the
 * device's clock, the error of this clock, and the time at which the server received the activation.
 */
export function activationInterval(activation: ActivationState): {
  readonly from: number;
  readonly until: number;
} {
  const { deviceAtMs, deviceClockErrorMs, serverAtMs } = activation;
  if (deviceClockErrorMs === null) return { from: -Infinity, until: serverAtMs };
  const until = Math.min(deviceAtMs + deviceClockErrorMs, serverAtMs);
  // Only the server's time counts where the device's clock is certainly ahead of the server's.
  const from = deviceAtMs - deviceClockErrorMs;
  return from > serverAtMs ? { from: -Infinity, until: serverAtMs } : { from, until };
}

/** Less than 0: a line activated `a` before `b` in the same session, by the device's own count; 0: not known. */
export function orderByNumber(
  a: Pick<ActivationState, "number">,
  b: Pick<ActivationState, "number">,
): number {
  return a.number === undefined || b.number === undefined ? 0 : a.number - b.number;
}

/** True if `next`, which is later in the journal, happened before `newest`. */
function isEarlier(next: ActivationState, newest: ActivationState): boolean {
  if (next.generation !== newest.generation) return next.generation < newest.generation;
  if (next.session !== newest.session) return next.session < newest.session;
  const order = orderByNumber(next, newest);
  if (order !== 0) return order < 0;
  return activationInterval(next).until < activationInterval(newest).from;
}
