/**
 * Checks whether an offered version may be accepted, and determines which of its parts are missing here. Pure
 * except for reading the store.
 */
import type { LeafTable, ObjectKind, SaveRecord } from "../../shared/model/model.js";
import { decodeArchitecture, checkLeavesFit } from "../../shared/model/architecture.js";
import { decodeSaveRecord, versionIdOf } from "../../shared/model/save-record.js";
import { treeRoot } from "../../shared/model/tree.js";
import { decodeTree } from "../../shared/model/tree-object.js";
import type { ObjectReader } from "../../shared/objects/object-store.js";
import { tensorByteLength } from "../../shared/tensor/dtype.js";
import { objectId } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { verifyOffer } from "../../shared/trust/signatures.js";
import type { ObjectRef, Offer } from "../../shared/wire/messages.js";
import { modelObjectsOf } from "../../shared/model/record-objects.js";
import { leavesOfAnother, lineOfferedUnknown, recordOfAnother } from "./offer-errors.js";

/** Small objects of an offer that are in memory: those it carried and those fetched since. */
export type SmallObjects = Map<Hash, { readonly kind: ObjectKind; readonly bytes: Uint8Array }>;

/**
 * Checks an offer against the pinned key and this device's lines. Objects that it carries are identified by
 * their hashes.
 * @throws SIGNATURE_INVALID, LINE_UNKNOWN, RECORD_INVALID, OBJECT_HASH_MISMATCH
 */
export function checkOffer(
  offer: Offer,
  enrolment: Enrolment,
): { readonly record: SaveRecord; readonly carried: SmallObjects } {
  const { fleet, device, generation, serverPublicKey, lines } = enrolment;
  verifyOffer(
    serverPublicKey,
    { fleet, device, generation, line: offer.line, versionId: offer.versionId, staged: offer.staged },
    offer.signature,
  );
  if (!lines.includes(offer.line)) throw lineOfferedUnknown(offer.line, lines);
  if (versionIdOf(offer.record) !== offer.versionId) throw recordOfAnother(offer.versionId);
  const record = decodeSaveRecord(offer.record);
  const named = new Set<Hash>(modelObjectsOf(record).map(({ id }) => id));
  const carried: SmallObjects = new Map();
  for (const { kind, data } of offer.objects) {
    const id = objectId(kind, data);
    if (named.has(id)) carried.set(id, { kind, bytes: data });
  }
  return { record, carried };
}

/** The objects that are fetched beside a model's own. */
export interface OfferExtras {
  readonly optimizer: Hash | undefined;
  readonly pipeline: Hash | undefined;
}

/**
 * Objects of the model that are neither stored nor in memory; their sizes are not known. What the training used
 * (data, checkpoints) is not fetched: a device runs the model.
 * @param extras tree of the optimizer's state, where the line's training goes on from it; the input pipeline
 */
export function lackingObjects(
  record: SaveRecord,
  store: ObjectReader,
  inMemory: SmallObjects,
  { optimizer, pipeline }: OfferExtras,
): readonly ObjectRef[] {
  return objectsOfOffer(record, { optimizer, pipeline })
    .filter(({ id }) => !store.has(id) && !inMemory.has(id))
    .map(({ kind, id }) => ({ kind, id, byteLength: 0 }));
}

/** The small objects of an offered version. */
export function neededObjects(record: SaveRecord, extras: OfferExtras): readonly Hash[] {
  return objectsOfOffer(record, extras).map(({ id }) => id);
}

function objectsOfOffer(
  record: SaveRecord,
  { optimizer, pipeline }: OfferExtras,
): readonly { readonly kind: ObjectKind; readonly id: Hash }[] {
  const trees = optimizer === undefined ? [] : [{ kind: "tree" as const, id: optimizer }];
  const pipelines = pipeline === undefined ? [] : [{ kind: "pipeline" as const, id: pipeline }];
  return [...modelObjectsOf(record), ...trees, ...pipelines];
}

/**
 * The leaves of the offered version, checked against its record: root and kind, and, where there is an
 * architecture, that its layers are allowed and its weights match the leaves.
 * @throws ROOT_MISMATCH, TREE_MALFORMED, LAYER_NOT_ALLOWED, ARCHITECTURE_MISMATCH
 */
export async function leavesOfOffer(
  record: SaveRecord,
  read: (kind: ObjectKind, id: Hash) => Promise<Uint8Array>,
): Promise<LeafTable> {
  const { kind, leaves } = decodeTree(await read("tree", record.objects.tree));
  const root = treeRoot(leaves);
  if (kind !== record.kind || root !== record.root) throw leavesOfAnother(record.name, root, record.root);
  if (record.objects.architecture !== undefined)
    checkLeavesFit(decodeArchitecture(await read("architecture", record.objects.architecture)), leaves);
  return leaves;
}

/** Tensors that the store lacks, each once, with their sizes, in leaf order. */
export function lackingTensors(leaves: LeafTable, store: ObjectReader): readonly ObjectRef[] {
  const asked = new Set<Hash>();
  return leaves.flatMap((leaf) => {
    if (store.has(leaf.tensor) || asked.has(leaf.tensor)) return [];
    asked.add(leaf.tensor);
    return [
      { kind: "tensor" as const, id: leaf.tensor, byteLength: tensorByteLength(leaf.dtype, leaf.shape) },
    ];
  });
}
