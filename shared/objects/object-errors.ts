/** Errors that every kind of object store throws. */
import { StemmaError } from "../errors.js";
import type { ObjectKind } from "../model/model.js";
import type { Hash } from "../tensor/tensor.js";
import type { ChainFault } from "./chains.js";

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
  return new StemmaError(
    "OBJECT_HASH_MISMATCH",
    `The ${kind === "tensor" ? "object" : `object (${kind})`} ${id} is damaged in ${where}: its bytes have the id ${actual}. ${restoreAdvice(kind)}`,
    { id, actual, where },
  );
}

/** A tensor that is being stored has another id than announced. */
export function tensorMismatch(expected: Hash, actual: Hash): StemmaError {
  return new StemmaError(
    "OBJECT_HASH_MISMATCH",
    `A tensor's bytes have the id ${actual} where ${expected} was expected: they changed on the way, or their source is damaged. Nothing of it was stored; send or read it again.`,
    { expected, actual },
  );
}

/** An object that is being stored as a stream has another id than announced. */
export function streamMismatch(kind: ObjectKind, expected: Hash, actual: Hash): StemmaError {
  return new StemmaError(
    "OBJECT_HASH_MISMATCH",
    `The bytes of an object of the kind ${kind} have the id ${actual} where ${expected} was expected: ` +
      "they changed on the way, or their source is damaged. Nothing of it was stored; send or read it " +
      "again.",
    { kind, expected, actual },
  );
}

/** A tensor that is being stored coded decodes to another id than announced. */
export function codedMismatch(expected: Hash, actual: Hash | undefined): StemmaError {
  return new StemmaError(
    "OBJECT_HASH_MISMATCH",
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
export const chainFaultTexts: Readonly<Record<ChainFault["why"], string>> = {
  missing: "is coded against a tensor that is missing",
  cyclic: "is coded against a tensor that needs it to be decoded",
  "too-long": "has a longer chain of tensors it is coded against than is ever written",
};
