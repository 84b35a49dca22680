/**
 * Records a version: checks everything that its save record refers to, then appends its fact to the journal.
 * The version must not be announced or acknowledged before this is done.
 */
import { turnAfter } from "../../../../shared/concurrency/in-steps.js";
import { defined } from "../../../../shared/defined.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { Fact } from "../../../../shared/journal/fact.js";
import type { Architecture, LeafTable, SaveRecord } from "../../../../shared/model/model.js";
import { checkLeavesFit } from "../../../../shared/model/architecture.js";
import { architectureWithId } from "../../../../shared/model/kept-architectures.js";
import { decodeEnvironment } from "../../../../shared/model/environment.js";
import { decodeMetadata } from "../../../../shared/model/metadata.js";
import { decodeNames } from "../../../../shared/model/names.js";
import { decodeOwnerMap } from "../../../../shared/model/owner-map.js";
import { decodeSaveRecord, versionIdOf } from "../../../../shared/model/save-record.js";
import { treeRoot } from "../../../../shared/model/tree.js";
import { invalidProvenance } from "../../../../shared/provenance/encode-provenance.js";
import { openProvenance } from "../../../../shared/provenance/openings.js";
import { usedDataOf, type UsedData } from "../../../../shared/data/stored-data.js";
import type { ObjectReader } from "../../../../shared/objects/object-store.js";
import { mayBeAbsent, requiredReferencesOf } from "../../../../shared/objects/references.js";
import {
  DistinctLeaves,
  distinctTrees,
  type DistinctTree,
} from "../../../../shared/objects/version-trees.js";
import { tensorByteLength } from "../../../../shared/tensor/dtype.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { RepositoryContext } from "../context.js";
import { addCandidate, candidateOf } from "../prefix-candidate.js";
import type { VersionSummary } from "../answers/version-answers.js";
import { checkName, ownLine } from "../state/naming.js";
import type { VersionState } from "../state/version-state.js";
import { findVersion, indexVersion, requireVersion } from "../state/version-table.js";
import { checkDeclarations } from "./version-objects.js";

export interface CheckedVersion {
  readonly versionId: Hash;
  readonly record: SaveRecord;
  /** Leaves of all trees: model, checkpoints, optimizer. */
  readonly allLeaves: LeafTable;
  readonly tensorBytes: number;
  readonly ownBytes: number;
  /** Bytes that it added to the store; undefined where that is not known. */
  readonly storedBytes?: number | undefined;
  /** Generation of the device that sent every byte of it. */
  readonly generation?: number | undefined;
}

/** A version whose data manifests were read, too. */
export interface RecordableVersion extends CheckedVersion {
  readonly data: UsedData;
}

/**
 * Reads what a record refers to, except tensors and what streams, and checks that it is consistent: trees and
 * root, owner map, names, environment, architecture, metadata.
 * @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH, OBJECT_KIND_MISMATCH, ROOT_MISMATCH, ARCHITECTURE_MISMATCH,
 * TREE_MALFORMED where a stored tensor is not what the tree declares, and the decoders' errors
 */
export async function checkVersion(
  objects: Pick<ObjectReader, "read" | "stat">,
  recordBytes: Uint8Array,
): Promise<CheckedVersion> {
  const record = decodeSaveRecord(recordBytes);
  const versionId = versionIdOf(recordBytes);
  const architecture =
    record.objects.architecture === undefined
      ? undefined
      : architectureWithId(
          record.objects.architecture,
          await objects.read("architecture", record.objects.architecture),
        );
  const found = new DistinctLeaves();
  let model: LeafTable = [];
  for await (const tree of distinctTrees(objects, record)) {
    if (tree.references[0].part === "model") model = tree.leaves;
    checkTree({ versionId, record, architecture }, tree);
    found.add(tree.leaves);
    await turnAfter(tree.leaves);
  }
  const { indices } = decodeOwnerMap(await objects.read("owner-map", record.objects.ownerMap), model.length);
  await turnAfter(model);
  decodeNames(await objects.read("names", record.objects.names), model.length);
  await turnAfter(model);
  decodeEnvironment(await objects.read("environment", record.objects.environment));
  if (record.objects.metadata !== undefined)
    decodeMetadata(await objects.read("metadata", record.objects.metadata));
  await checkOpenings(objects, record.objects);
  const allLeaves = found.all();
  await turnAfter(allLeaves);
  checkDeclarations(objects, record, allLeaves);
  await turnAfter(allLeaves);
  let tensorBytes = 0;
  let ownBytes = 0;
  model.forEach((leaf, index) => {
    const bytes = tensorByteLength(leaf.dtype, leaf.shape);
    tensorBytes += bytes;
    if (indices[index] === 0) ownBytes += bytes;
  });
  return { versionId, record, allLeaves, tensorBytes, ownBytes };
}

/** Salts and values must be those that the provenance commits to. @throws PROVENANCE_INVALID, OPENINGS_MISMATCH */
async function checkOpenings(
  objects: Pick<ObjectReader, "read" | "stat">,
  { provenance, openings }: SaveRecord["objects"],
): Promise<void> {
  // Openings that were redacted are not there; what has to be there is checked when the fact is appended.
  if (openings === undefined || objects.stat(openings) === undefined) return;
  if (provenance === undefined) invalidProvenance("its record names openings, but no provenance");
  openProvenance(await objects.read("provenance", provenance), await objects.read("openings", openings));
}

/**
 * A checkpoint is a model like the version's own; an optimizer's state has named tensors.
 * @throws ROOT_MISMATCH, TREE_MALFORMED, ARCHITECTURE_MISMATCH
 */
function checkTree(
  { versionId, record, architecture }: CheckedRecord,
  { references, kind, leaves }: DistinctTree,
): void {
  for (const { part, tree } of references) {
    if (part === "model") {
      checkRoot(versionId, record, { kind, leaves });
      continue;
    }
    const expected = part === "optimizer" ? "opaque" : record.kind;
    if (kind !== expected)
      throw new StemmaError(
        "TREE_MALFORMED",
        `The tree ${tree} (${part}) of ${versionId} is of kind ${kind}; it has to be ${expected}. Have the sender save the model again.`,
        { versionId, id: tree },
      );
  }
  if (architecture !== undefined && kind === "architecture") checkLeavesFit(architecture, leaves);
}

interface CheckedRecord {
  readonly versionId: Hash;
  readonly record: SaveRecord;
  readonly architecture: Architecture | undefined;
}

function checkRoot(
  versionId: Hash,
  record: Pick<SaveRecord, "kind" | "root">,
  { kind, leaves }: Pick<DistinctTree, "kind" | "leaves">,
): void {
  const root = treeRoot(leaves);
  if (kind !== record.kind || root !== record.root)
    throw new StemmaError(
      "ROOT_MISMATCH",
      `The tree of ${versionId} has the root ${root.slice(0, 16)}… of kind ${kind}; its save record states ${record.root.slice(0, 16)}… of kind ${record.kind}. Have the sender save the model again.`,
      { versionId, expected: record.root, actual: root },
    );
}

/** See FleetRepository.record. */
export async function recordVersion(
  context: RepositoryContext,
  recordBytes: Uint8Array,
  { generation, before: facts = [], writtenBytes }: RecordOptions = {},
): Promise<VersionSummary> {
  const known = findVersion(context, versionIdOf(recordBytes));
  if (known !== undefined) return known;
  const checked = { ...(await checkVersion(context.objects, recordBytes)), generation };
  const { record, versionId } = checked;
  const data = await usedDataOf(context.objects, record.uses?.data);
  requireRecordable(context, { record, versionId, data, generation });
  const ownPackBytes = await keepRecordBytes(context, versionId, recordBytes);
  const before = storedWithClaim(context, versionId);
  const isKnown = writtenBytes !== undefined && before !== undefined;
  const storedBytes = isKnown ? before + writtenBytes + ownPackBytes : undefined;
  return await appendRecorded(context, { ...checked, storedBytes, data }, recordBytes, facts);
}

/** Bytes that were stored when the version was claimed: 0 where it was not; undefined where they were not noted. */
function storedWithClaim({ state }: RepositoryContext, versionId: Hash): number | undefined {
  const claim = state.claims.get(versionId);
  return claim === undefined ? 0 : claim.storedBytes;
}

export interface RecordOptions {
  readonly generation?: number;
  /** Facts that are appended with it, before its own. */
  readonly before?: readonly Fact[];
  /** Bytes of the packs that the caller wrote for it; absent where an earlier attempt or somebody else wrote them. */
  readonly writtenBytes?: number | undefined;
}

/** @throws RECORD_INVALID, IDENTITY_FOREIGN, NAME_INVALID */
export function requireRecordable(
  context: Pick<RepositoryContext, "fleet">,
  {
    record,
    versionId,
    data,
    generation,
  }: Pick<RecordableVersion, "record" | "versionId" | "data" | "generation">,
): void {
  if (generation !== undefined) requireOwnChunks(record, data);
  if (record.fleet !== context.fleet)
    throw new StemmaError(
      "IDENTITY_FOREIGN",
      `The save record of ${versionId} belongs to the fleet ${JSON.stringify(record.fleet)} and cannot be recorded in the fleet ${JSON.stringify(context.fleet)}. To copy a model to another fleet, recover it and import it there.`,
      { fleet: record.fleet },
    );
  checkName("model", record.name);
}

/**
 * A device names the chunks of its data next to their manifest, so that it sends them itself: a manifest alone could
 * name those of another device.
 * @throws RECORD_INVALID
 */
function requireOwnChunks({ uses }: SaveRecord, { chunks }: UsedData): void {
  const named = new Set(uses?.data);
  const foreign = chunks.find((id) => !named.has(id));
  if (foreign !== undefined)
    throw new StemmaError(
      "RECORD_INVALID",
      `A data manifest of the record lists the chunk ${foreign.slice(0, 16)}, which the record does not name. ` +
        "Have the device name every chunk of its data.",
      { id: foreign },
    );
}

/** The fact that records a version. It does not name packs, because packs are rewritten. */
export function recordedFact(
  atMs: number,
  { versionId, record, tensorBytes, ownBytes, storedBytes, generation }: Omit<CheckedVersion, "allLeaves">,
  version: number,
): Fact & { readonly type: "recorded" } {
  return {
    type: "recorded",
    atMs,
    versionId,
    name: record.name,
    version,
    ...(tensorBytes === 0 ? {} : { tensorBytes }),
    ...(ownBytes === 0 ? {} : { ownBytes }),
    ...defined({ storedBytes, generation }),
  };
}

/**
 * Appends the fact of a version that was checked or was saved by this process, after the facts `before` that go with
 * it. @throws REFERENCE_MISSING,
 * TREE_MALFORMED, OBJECT_KIND_MISMATCH
 */
export async function appendRecorded(
  context: RepositoryContext,
  checked: RecordableVersion,
  recordBytes: Uint8Array,
  before: readonly Fact[] = [],
): Promise<VersionSummary> {
  const { versionId, record, allLeaves: leaves, data } = checked;
  const version = { state: "kept", versionId, record, leaves, dataChunks: data.chunks } as const;
  const candidate = await candidateOf(context, versionId, record);
  await context.queue.submit({
    requiredObjects: [...requiredReferencesOf(version, mayBeAbsent(context.state.redacted))],
    decide: (draft) => {
      if (draft.state.versions.has(versionId) || draft.recordedHere.has(versionId)) return [];
      // Now everything is in the store, including what was missing when the version was checked.
      checkDeclarations(context.objects, record, leaves);
      return [...before, recordedFact(context.clock.now(), checked, draft.takeVersion(record.name))];
    },
    onApplied: (positions) => {
      if (positions.length === 0) return;
      noteRecorded(context, { versionId, record, recordBytes, candidate });
      context.references.add(versionId, { record, leaves, data });
      noteSequence(context.lastSequences, record);
      context.versionsChanged([versionId]);
    },
  });
  return requireVersion(context, versionId);
}

/** Adds a version to the indexes in memory, once its fact was applied. */
export function noteRecorded(
  context: RepositoryContext,
  {
    versionId,
    record,
    recordBytes,
    candidate,
  }: Pick<CheckedVersion, "versionId" | "record"> & {
    readonly recordBytes: Uint8Array;
    readonly candidate: Awaited<ReturnType<typeof candidateOf>>;
  },
): void {
  // As it is read later, with the same order of members.
  context.index.addRecord(versionId, decodeSaveRecord(recordBytes), recordBytes);
  context.claimRecords.delete(versionId);
  const recorded = context.state.versions.get(versionId) as VersionState;
  indexVersion(context, recorded, record);
  addCandidate(context, recorded, candidate);
  context.recordCache.add(recordBytes);
}

/** Stores the record where it is not stored yet. Returns the bytes of the pack. */
async function keepRecordBytes(
  { objects }: RepositoryContext,
  versionId: Hash,
  recordBytes: Uint8Array,
): Promise<number> {
  if (objects.has(versionId)) return 0;
  const writer = await objects.begin();
  try {
    await writer.put("record", recordBytes);
    return (await writer.commit()).bytes;
  } catch (error) {
    await writer.abort();
    throw error;
  }
}

export function sequenceKey({ device, line }: { readonly device: string; readonly line: string }): string {
  return `${device}\0${line}`;
}

/** See FleetRepository.lines. */
export function linesOf({
  lastSequences,
  state,
}: Pick<RepositoryContext, "lastSequences" | "state">): ReadonlySet<string> {
  const lines = new Set<string>();
  for (const key of lastSequences.keys()) lines.add(key.slice(key.indexOf("\0") + 1));
  for (const { lines: own } of [...state.devices.values(), ...state.batches.values()])
    for (const line of own) lines.add(line);
  lines.delete(ownLine);
  return lines;
}

/** Notes a record's sequence number. The next save of its line continues after the highest number. */
export function noteSequence(sequences: Map<string, number>, record: SaveRecord): void {
  const key = sequenceKey(record);
  sequences.set(key, Math.max(sequences.get(key) ?? 0, record.sequence));
}
