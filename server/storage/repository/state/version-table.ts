/**
 * Looks up versions by id, reference, filter or lineage, from the fleet's state and the save records in
 * memory. Pure.
 */
import { defined } from "../../../../shared/defined.js";
import { messageOf } from "../../../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import { isHash } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { SavedRows } from "../../index/layers.js";
import type { UnreadableVersion, VersionSummary } from "../answers/version-answers.js";
import { currentGeneration } from "./device-state.js";
import { erasedError } from "./erased.js";
import { isIdPrefix, parseModelReference } from "./naming.js";
import { numberedVersions, numberVersion, type NumberedVersions } from "./numbered-versions.js";
import { allRetired, modelNotFound, recordMissing } from "./state-errors.js";
import type { FleetState } from "./state.js";
import { stateTables, versionLists, type VersionLists } from "./state-tables.js";
import type { VersionState } from "./version-state.js";
import type { VersionStates } from "./version-states.js";
import { makerOf } from "./version-state.js";

export interface VersionTable {
  readonly state: FleetState;
  readonly records: SaveRecords;
  /** Device → its versions in journal order. */
  readonly byDevice: Pick<VersionLists, "of" | "reversed">;
  /** Version → the versions that were derived directly from it, in journal order. */
  readonly byBase: Pick<VersionLists, "of">;
  /** Version → the versions whose save record declares them its successors, in journal order. */
  readonly bySuccessorOf: Pick<VersionLists, "of">;
  readonly bySequence: Pick<NumberedVersions, "get">;
  readonly lineHeads: Pick<NumberedVersions, "get">;
  /** Versions whose record could not be read when the store was opened, and why. */
  readonly damaged: ReadonlyMap<Hash, unknown>;
}

export function stateName(version: VersionState): VersionSummary["state"] {
  if (version.retired !== undefined) return "retired";
  if (version.released !== undefined) return "released";
  return version.storedAtMs === undefined ? "recorded" : "stored";
}

export function summaryOf(version: VersionState, record: SaveRecord): VersionSummary {
  return {
    versionId: version.versionId,
    name: version.name,
    version: version.version,
    record,
    position: version.position,
    recordedAtMs: version.recordedAtMs,
    state: stateName(version),
    tags: [...version.tags],
    held: version.hold !== undefined,
    ...defined({
      hold: version.hold,
      retired: version.retired,
      replayed: version.replayed,
      spotCheck: version.spotCheck,
      dropped: version.dropped,
      dataDropped: version.dataDropped,
    }),
    ...((version.provedBy?.size ?? 0) === 0 ? {} : { provedBy: [...(version.provedBy ?? [])] }),
    ...defined({ evaluations: version.evaluations?.length, claim: version.claim, by: version.by }),
    tensorBytes: version.tensorBytes,
    ownBytes: version.ownBytes,
    ...defined({
      storedBytes: version.storedBytes,
      generation: version.generation,
      received: version.received,
    }),
  };
}

/** @throws the error with which reading the version's record failed */
export function findVersion(table: VersionTable, versionId: Hash): VersionSummary | undefined {
  const version = table.state.versions.get(versionId);
  if (version === undefined) return undefined;
  const record = table.records.get(versionId);
  if (record === undefined) {
    const damage = table.damaged.get(versionId);
    if (damage instanceof Error) throw damage;
    throw recordMissing(versionId);
  }
  return summaryOf(version, record);
}

/** Versions that the journal knows and whose save record the store lacks or cannot read, in journal order. */
export function unreadableVersions({ state, records, damaged }: VersionTable): readonly UnreadableVersion[] {
  const found: (UnreadableVersion & { readonly position: number })[] = [];
  for (const [versionId, error] of damaged) {
    const version = state.versions.get(versionId);
    if (version === undefined || records.has(versionId)) continue;
    found.push({
      versionId,
      name: version.name,
      version: version.version,
      code: isStemmaError(error) ? error.code : "INTERNAL",
      message: messageOf(error),
      position: version.position,
    });
  }
  return found
    .toSorted((a, b) => a.position - b.position)
    .map(({ position: _, ...unreadable }) => unreadable);
}

/** See FleetRepository.hasSent. */
export function hasSent({ state, records }: VersionTable, name: string, versionId: Hash): boolean {
  const device = state.devices.get(name);
  return (
    device !== undefined &&
    records.get(versionId)?.device === name &&
    state.versions.get(versionId)?.generation === currentGeneration(device).generation
  );
}

/** See FleetRepository.hasHad. */
export function hasHad(table: VersionTable, name: string, versionId: Hash): boolean {
  return (
    table.state.devices.get(name)?.deliveredVersions.has(versionId) === true ||
    hasSent(table, name, versionId)
  );
}

/** @throws MODEL_NOT_FOUND */
export function requireVersion(table: VersionTable, versionId: Hash): VersionSummary {
  const found = findVersion(table, versionId);
  if (found === undefined) throw modelNotFound(versionId);
  return found;
}

/** Makes the error for the id of a claim, which is not a version yet. */
function claimedOf({ state }: VersionTable, reference: string): StemmaError | undefined {
  const claims = isIdPrefix(reference)
    ? [...state.claims.values()].filter(({ versionId }) => versionId.startsWith(reference))
    : [];
  const [claim] = claims;
  if (claim === undefined || claims.length > 1) return undefined;
  const { versionId, name, ended } = claim;
  const how = ended === undefined ? "waits for its replay." : `is ${ended.verdict}: ${ended.because}`;
  return new StemmaError(
    "MODEL_CLAIMED",
    `${versionId.slice(0, 12)} of ${JSON.stringify(name)} was reported without its parameters, and ${how} ` +
      "`stemma replay list` shows what becomes of it.",
    { versionId },
  );
}

/**
 * Resolves a reference: names first, then ids. A name may itself look like an id.
 * @throws MODEL_NOT_FOUND, MODEL_AMBIGUOUS, MODEL_RETIRED, MODEL_CLAIMED
 */
export function resolveReference(table: VersionTable, reference: string): VersionSummary {
  const byName = resolveByName(table, reference);
  const byId = isIdPrefix(reference) ? idsWith(table.state.versions, reference) : [];
  const found = new Set(byName === undefined ? byId : [byName, ...byId]);
  if (found.size > 1) {
    throw new StemmaError(
      "MODEL_AMBIGUOUS",
      `${JSON.stringify(reference)} can be ${found.size} models: ${[...found]
        .slice(0, 4)
        .map((id) => id.slice(0, 16))
        .join(", ")}${found.size > 4 ? ", …" : ""}. Give more digits of the id, or name:version.`,
      { reference, found: [...found].slice(0, 16) },
    );
  }
  const [only] = found;
  if (only === undefined) throw claimedOf(table, reference) ?? modelNotFound(reference);
  return requireVersion(table, only);
}

/** The ids that begin so. A whole id is looked up, so that it costs the same in every fleet. */
function idsWith(versions: VersionStates, prefix: string): readonly Hash[] {
  if (isHash(prefix)) return versions.has(prefix) ? [prefix] : [];
  return versions.idsWith(prefix);
}

function resolveByName(table: VersionTable, reference: string): Hash | undefined {
  const { state } = table;
  const parsed = parseModelReference(reference);
  if (!state.names.has(parsed.name)) return undefined;
  if (parsed.kind === "tag") return state.tags.get(parsed.name)?.get(parsed.tag);
  if (parsed.kind === "version") return state.names.at(parsed.name, parsed.version);
  let count = 0;
  let erased: StemmaError | undefined;
  for (const versionId of state.names.reversed(parsed.name)) {
    if (state.versions.get(versionId)?.retired === undefined) return versionId;
    erased ??= erasedError(table, versionId);
    count++;
  }
  throw erased ?? allRetired(parsed.name, count);
}

/** The save records of versions, by the versions' ids. */
export type SaveRecords = Pick<ReadonlyMap<Hash, SaveRecord>, "get" | "has">;

/** Lists by which versions are found without a look at all of them. */
export interface VersionIndexes {
  readonly byDevice: VersionLists;
  readonly byBase: VersionLists;
  readonly bySuccessorOf: VersionLists;
  /** Line of a device and sequence number → the version that was recorded last with it. */
  readonly bySequence: NumberedVersions;
  /** Line and generation of a device → the version with the highest number. */
  readonly lineHeads: NumberedVersions;
}

/** @param saved the rows that hold the versions of earlier facts; absent: there are none */
export function versionIndexes(saved: SavedRows = { rows: undefined, commits: 0 }): VersionIndexes {
  return {
    byDevice: versionLists(stateTables.byDevice, saved),
    byBase: versionLists(stateTables.byBase, saved),
    bySuccessorOf: versionLists(stateTables.bySuccessorOf, saved),
    bySequence: numberedVersions(stateTables.bySequence, saved),
    lineHeads: numberedVersions(stateTables.lineHeads, saved),
  };
}

/** Adds a version to the lists of its device, bases and predecessor. Call in journal order. */
export function indexVersion(indexes: VersionIndexes, version: VersionState, record: SaveRecord): void {
  const { byDevice, byBase, bySuccessorOf } = indexes;
  const { versionId, position } = version;
  // A version of another repository has the names of its own devices.
  if (version.received !== true) {
    numberVersion(indexes, version, record);
    byDevice.add(record.device, position, versionId);
  }
  for (const base of new Set(record.bases)) byBase.add(base, position, versionId);
  if (record.successorOf !== undefined) bySuccessorOf.add(record.successorOf, position, versionId);
}

export interface VersionFilter {
  readonly name?: string;
  readonly device?: string;
  readonly line?: string;
  /** Finds the versions that were derived directly from this one. */
  readonly base?: Hash;
  readonly includeRetired?: boolean;
}

/** Lists versions in journal order, oldest first. */
export function listVersions(
  { state, records, byDevice, byBase }: VersionTable,
  { name, device, line, base, includeRetired = false }: VersionFilter = {},
): readonly VersionSummary[] {
  const from =
    base !== undefined
      ? versionsIn(state, byBase.of(base))
      : name !== undefined
        ? versionsIn(state, state.names.of(name))
        : device !== undefined
          ? versionsIn(state, byDevice.of(device))
          : state.versions.values();
  const found: VersionSummary[] = [];
  for (const version of from) {
    const record = records.get(version.versionId);
    if (record === undefined || (!includeRetired && version.retired !== undefined)) continue;
    if (
      (device === undefined || makerOf(version, record) === device) &&
      (name === undefined || version.name === name) &&
      (line === undefined || record.line === line)
    )
      found.push(summaryOf(version, record));
  }
  return found;
}

/** The number of versions whose records can be read; without `includeRetired` only those that are not retired. */
export function countVersions(
  { state, damaged }: Pick<VersionTable, "state" | "damaged">,
  includeRetired = false,
): number {
  let count = state.versions.size - (includeRetired ? 0 : state.retiredCount);
  for (const version of versionsIn(state, damaged.keys()))
    if (includeRetired || version.retired === undefined) count--;
  return count;
}

/** The versions with these ids. */
export function* versionsIn(
  { versions }: Pick<FleetState, "versions">,
  versionIds: Iterable<Hash>,
): Iterable<VersionState> {
  for (const versionId of versionIds) {
    const version = versions.get(versionId);
    if (version !== undefined) yield version;
  }
}

/** Part of a list: what comes after the first `offset`, at most `limit`; absent: all. */
export interface LineagePage {
  readonly offset?: number | undefined;
  readonly limit?: number | undefined;
}

/**
 * The version and its known ancestors, each once. The ancestors through a first base come before those
 * through later bases.
 */
export function lineageOf(
  table: VersionTable,
  versionId: Hash,
  { offset = 0, limit = Infinity }: LineagePage = {},
): readonly VersionSummary[] {
  const found: VersionSummary[] = [];
  const seen = new Set<Hash>();
  const waiting: Hash[] = [versionId];
  requireVersion(table, versionId);
  let passed = 0;
  while (waiting.length > 0 && found.length < limit) {
    const next = waiting.pop() as Hash;
    if (seen.has(next)) continue;
    seen.add(next);
    const version = table.state.versions.get(next);
    const record = table.records.get(next);
    if (version === undefined || record === undefined) continue;
    if (passed++ >= offset) found.push(summaryOf(version, record));
    waiting.push(...record.bases.toReversed());
  }
  return found;
}
