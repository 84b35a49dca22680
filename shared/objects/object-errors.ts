/** Errors that every kind of object store throws. */
import { messageOf } from "../error-text.js";
import { errorOf, StemmaError, type StemmaErrorDetails } from "../errors.js";
import type { ObjectKind } from "../model/model.js";
import type { Hash, TensorSource } from "../tensor/tensor.js";
import type { ChainFault } from "./chains.js";

const mismatch = errorOf("OBJECT_HASH_MISMATCH");
const corrupt = errorOf("PACK_CORRUPT");
const unknownFormat = errorOf("PACK_FORMAT_UNKNOWN");
const referenceMissing = errorOf("REFERENCE_MISSING");
const notCollected = errorOf("COLLECTION_REFUSED");
const tooLargeTensor = errorOf("TENSOR_TOO_LARGE");
const tooLarge = errorOf("SIZE_OVER_LIMIT");
const wrongBytes = errorOf("TENSOR_SIZE_MISMATCH");
const failed = errorOf("STORE_FAILED");

type StoredKind = ObjectKind | "tensor";

interface DamagedObject {
  /** The place of the object, as "the pack 0123". */
  readonly where: string;
  readonly kind: StoredKind;
}

export const neverStoredHint = "It was never stored here, or was collected when nothing needed it any more.";

export function objectMissing(id: Hash, hint: string): StemmaError {
  return new StemmaError("OBJECT_MISSING", `The object ${id} is not in this store. ${hint}`, { id });
}

/** Advises how a damaged object comes back: devices do not send what a server made itself. */
export function restoreAdvice(kind: StoredKind): string {
  switch (kind) {
    case "engine":
      return "Put it back from a backup, or add the engine again with `stemma replay engine approve FOLDER`.";
    case "evaluation":
    case "predictions":
      return "Put it back from a backup, or evaluate the model again.";
    default:
      return "Put it back from a backup, or let a device that has it send it again.";
  }
}

export function objectMismatch(id: Hash, actual: Hash, { where, kind }: DamagedObject): StemmaError {
  return mismatch(
    `The ${kind === "tensor" ? "object" : `object (${kind})`} ${id} is damaged in ${where}: its bytes have the id ${actual}. ${restoreAdvice(kind)}`,
    { id, actual, where },
  );
}

/** A tensor that is being stored has another id than announced. */
export function tensorMismatch(expected: Hash, actual: Hash): StemmaError {
  return mismatch(
    `A tensor's bytes have the id ${actual} where ${expected} was expected: they changed on the way, or their source is damaged. Nothing of it was stored; send or read it again.`,
    { expected, actual },
  );
}

/** An object that is being stored as a stream has another id than announced. */
export function streamMismatch(kind: ObjectKind, expected: Hash, actual: Hash): StemmaError {
  return mismatch(
    `The bytes of an object of the kind ${kind} have the id ${actual} where ${expected} was expected: ` +
      "they changed on the way, or their source is damaged. Nothing of it was stored; send or read it again.",
    { kind, expected, actual },
  );
}

/** A tensor that is being stored coded decodes to another id than announced. */
export function codedMismatch(expected: Hash, actual: Hash | undefined): StemmaError {
  return mismatch(
    `A coded tensor decodes to the id ${actual} where ${expected} was expected: its bytes changed on the way, or it is coded against another tensor than the one named. Nothing of it was stored; send it again, or raw.`,
    { expected, actual },
  );
}

export function kindMismatch(id: Hash, expected: StoredKind, actual: StoredKind): StemmaError {
  return new StemmaError(
    "OBJECT_KIND_MISMATCH",
    `The object ${id} is of the kind ${actual}, not ${expected}. Check where its hash came from.`,
    { id, expected, actual },
  );
}

/** The faults of a chain, each as a predicate of its tensor. */
const chainFaultTexts: Readonly<Record<ChainFault["why"], string>> = {
  missing: "is coded against a tensor that is missing",
  cyclic: "is coded against a tensor that needs it to be decoded",
  "too-long": "has a longer chain of tensors it is coded against than is ever written",
};

// Packs.
/** @param why what is wrong with the pack, as a predicate */
export const packCorrupt = (pack: string, why: string): StemmaError =>
  corrupt(
    `The pack ${pack} ${why}. \`stemma storage check\` shows what is affected. Restore the pack from a backup, or let devices that still have its objects send them again.`,
    { pack },
  );
export const strangeFile = (path: string, pack: string): StemmaError =>
  corrupt(`The file ${path} is not named like a pack, so Stemma did not write it. Move it elsewhere.`, {
    pack,
  });
export const packIndexDamaged = (
  pack: string,
  objects: number,
  isExact: boolean,
  cause: StemmaError,
): StemmaError =>
  corrupt(
    isExact
      ? `The header, trailer or index of the pack ${pack} is damaged. All its ${objects} objects were found and can be read. \`stemma storage check --repair\` writes them into a new pack.`
      : `The index of the pack ${pack} is damaged. ${objects} of its objects were found and can be read; others may be lost. Restore the pack from a backup, or keep what was found with \`stemma storage check --repair\`; devices then send again what they still have.`,
    { pack, objects, isExact, cause },
  );
export const packOfNewer = (pack: string, what: string, format?: number): StemmaError =>
  unknownFormat(`The pack ${pack} has ${what}. Use the Stemma that wrote it, or a newer one.`, {
    pack,
    format,
  });
export const encodingUnknown = (code: number): StemmaError =>
  unknownFormat(
    `A coded tensor has ids or an encoding code (${code}) that this Stemma does not know. Use a newer Stemma.`,
    { code },
  );
export const objectCoded = (id: Hash, code: number): StemmaError =>
  unknownFormat(
    `The object ${id} has the encoding code ${code}, which this Stemma does not know for objects of its kind. Use a newer Stemma.`,
    { id },
  );

// Objects that are damaged.
export const objectDamaged = (
  id: Hash,
  [where, why]: readonly [string, string],
  details: StemmaErrorDetails,
  advice: string,
): StemmaError => corrupt(`The object ${id} is damaged in ${where}: ${why}. ${advice}`, { id, ...details });
export const chainDamaged = (
  id: Hash,
  [where, advice]: readonly [string, string],
  { why, id: at }: ChainFault,
  details?: StemmaErrorDetails,
): StemmaError =>
  corrupt(
    `The tensor ${id} in ${where} ${chainFaultTexts[why]} (see ${at}), so it cannot be decoded. ${advice}`,
    { id, at, ...details },
  );
export const baseDamaged = (id: Hash, at: Hash, damage: StemmaError): StemmaError =>
  mismatch(
    `The tensor ${id} cannot be decoded because a tensor it is coded against is damaged. ${damage.message}`,
    { id, damaged: at, cause: damage },
  );
export const readWrongly = (id: Hash): StemmaError =>
  mismatch(
    `The tensor ${id} was read wrongly once and is intact on the disk: this machine's memory may be failing. Try again, and check the machine.`,
    { id },
  );
export const readBackShort = (id: Hash, path: string, got: number, storedBytes: number): StemmaError =>
  new StemmaError(
    "FILE_FAILED",
    `Reading ${id} back from ${path} returned ${got} of the ${storedBytes} bytes written just before. Check the disk and save again.`,
    { path },
  );

// Objects that are missing.
export const referencedMissing = (
  missing: readonly Hash[],
  count: number,
  maxReportedIds: number,
): StemmaError =>
  referenceMissing(
    `${missing.length} of ${count} objects to be referenced are not in this store; the first is ${missing[0]}. Send them and try again.`,
    { missing: missing.slice(0, maxReportedIds), count: missing.length },
  );
export const neededMissing = (missing: ReadonlySet<Hash>, first: Hash): StemmaError =>
  notCollected(
    `${missing.size === 1 ? `An object that is still needed is missing: ${first}` : `${missing.size} objects that are still needed are missing; the first is ${first}`}. Nothing was collected. Run a check to find out why before anything is deleted.`,
    { missing: [...missing].slice(0, 100), count: missing.size },
  );
export const tooFewNamed = (id: Hash, needed: number, named: number): StemmaError =>
  referenceMissing(
    `The tensor ${id} is coded against ${needed} other tensors, of which only ${named} are named. Name all of them, or send the tensor raw.`,
    { id, missing: [] },
  );

// Sizes.
export const codedTooLarge = (id: Hash, byteLength: number, maxBytes: number): StemmaError =>
  tooLargeTensor(
    `The tensor ${id} of ${byteLength} bytes is coded, which is allowed up to ${maxBytes} bytes. Send it raw.`,
    { id, byteLength },
  );
export const tensorTooLarge = (id: Hash, byteLength: number, maxBytes: number): StemmaError =>
  tooLargeTensor(
    `The tensor ${id} of ${byteLength} bytes cannot be read in one piece, which is allowed up to ${maxBytes} bytes. Read it as a stream.`,
    { id, byteLength },
  );
export const streamTooLarge = (
  kind: ObjectKind,
  id: Hash,
  byteLength: number,
  maxBytes: number,
): StemmaError =>
  tooLarge(
    `The ${kind} object ${id} has ${byteLength} bytes, more than the ${maxBytes} that are read in one piece. Read it as a stream.`,
    { id, byteLength },
  );
export const codedTooLong = (id: Hash, byteLength: number, actual: number): StemmaError =>
  wrongBytes(
    `The tensor ${id} of ${byteLength} bytes arrived as ${actual} coded bytes, more than any codec writes. Send it raw.`,
    { id, byteLength, actual },
  );
export const tensorSizeMismatch = (source: TensorSource, expected: number, actual: number): StemmaError =>
  wrongBytes(
    `A tensor ${source.dtype} [${source.shape.join(", ")}] has ${actual} bytes where its shape needs ${expected}. Check what produced it; nothing of it was stored.`,
    { expected, actual },
  );
export const rangeError = (id: Hash, byteLength: number, why: string): StemmaError =>
  tooLarge(
    `A range of the object ${id} of ${byteLength} bytes cannot be read: ${why}. Ask for bytes that it has.`,
    { id, byteLength },
  );

// Chains of coded tensors.
export const baseMissing = (tensor: Hash, id: Hash): StemmaError =>
  referenceMissing(
    `The tensor ${tensor} is coded against ${id}, which is missing or damaged in this store. Send that first, or send the tensor raw.`,
    { id: tensor, missing: [id] },
  );
export const chainCyclic = (tensor: Hash, id: Hash): StemmaError =>
  new StemmaError(
    "CHAIN_CYCLIC",
    `The tensor ${tensor} is coded against a tensor that needs it to be decoded (${id} is in the cycle). Code it against another, or store it raw.`,
    { id: tensor, at: id },
  );
export const chainTooLong = (tensor: Hash, id: Hash, maxChainDepth: number): StemmaError =>
  new StemmaError(
    "CHAIN_TOO_LONG",
    `The tensor ${tensor} would need more than ${maxChainDepth} other tensors to be decoded before it. Code it against one with a shorter chain, or store it raw.`,
    { id: tensor, at: id },
  );

// The state of the store.
export const storeStopped = (folder: string, cause: unknown): StemmaError =>
  failed(
    `The object store in ${folder} accepts no more writes because an fsync failed: what is on the disk is unknown. Check the disk and restart.`,
    { cause },
  );
export const tableDamaged = (folder: string, isWriter: boolean, cause: unknown): StemmaError =>
  failed(
    `The table of the objects in ${folder} is damaged. It is derived from the packs: ${isWriter ? "start again, and it is made anew" : "ask again"}. Models are not damaged by this; \`stemma storage check\` looks at them.`,
    { cause },
  );
export const indexBroken = (folder: string, cause: unknown): StemmaError =>
  failed(
    `The index of the objects in ${folder} could not be read while it was changed, so that nothing more is written. Start again: it is made anew from the packs. ${messageOf(cause)}`,
    { cause },
  );
export const storeDamaged = (count: number, error: StemmaError): StemmaError =>
  notCollected(
    `This store has ${count} damaged ${count === 1 ? "pack or object" : "packs or objects"}. Nothing is deleted until that is repaired; \`stemma storage check --repair\` does that. ${error.message}`,
    { cause: error, count },
  );
export const replacedWhileRead = (times: number, cause: unknown): StemmaError =>
  failed(`A tensor was replaced ${times} times while it was read. Try again when less is being recoded.`, {
    cause,
  });
export const leaseUnknown = (leaseId: string): StemmaError =>
  new StemmaError(
    "LEASE_UNKNOWN",
    `No lease ${leaseId} is held here: it was released, or it ended with an earlier run of this process. Ask for what is needed again.`,
    { leaseId },
  );
export const leaseExpired = (leaseId: string, expiredAtMs: number): StemmaError =>
  new StemmaError(
    "LEASE_EXPIRED",
    `The lease ${leaseId} has expired, so its objects may be gone. Ask for what is needed again.`,
    { leaseId, expiredAtMs },
  );
/** @param which "highest 1 to 4 byte" */
export const noSuchPlanes = (which: string, planes: number): StemmaError =>
  new StemmaError(
    "INTERNAL",
    `The ${which} planes of a tensor can be read, not ${planes}. Report this with what led to it.`,
  );
