/** Errors of transfers, sorted by the side that is at fault. */
import { errorOf, StemmaError } from "../../errors.js";
import type { Hash } from "../../tensor/tensor.js";
import type { ObjectRef } from "../messages.js";

const invalidManifest = errorOf("TRANSFER_MANIFEST_INVALID");
const tooLarge = errorOf("SIZE_OVER_LIMIT");
const wrongSize = errorOf("BLOCK_SIZE_MISMATCH");

const announceAgain = "The transfer ends; announce the version again.";
const senderDamaged =
  "The sender's copy is damaged: check the sender's disk, then announce the version again.";
const cutShort = "Its copy on this disk is damaged: check the disk, then start the transfer again.";

// The sender's side.
export const manifestInvalid = (
  transfer: string,
  why: string,
  details: Record<string, unknown> = {},
): StemmaError =>
  invalidManifest(`The manifest of transfer ${transfer} ${why}. ${announceAgain}`, { transfer, ...details });
export const transferTooLarge = (transfer: string, byteLength: number, most: number): StemmaError =>
  tooLarge(
    `Transfer ${transfer} declares ${byteLength} bytes; at most ${most} are allowed here. Send less, or raise the limit.`,
    { transfer, byteLength, most },
  );
export const blockSizeMismatch = (
  transfer: string,
  index: number,
  actual: number,
  expected: number,
): StemmaError =>
  wrongSize(
    `Block ${index} of transfer ${transfer} has ${actual} bytes instead of ${expected}. ${announceAgain}`,
    { transfer, index },
  );
export const objectTooLarge = (ref: ObjectRef, maxBytes: number): StemmaError =>
  tooLarge(
    `An object of kind ${ref.kind} has ${ref.byteLength} bytes, more than the ${maxBytes} allowed. Make it smaller, or attach it as a tensor.`,
    { id: ref.id },
  );
export const blockHashMismatch = (
  transfer: string,
  index: number,
  wrong: number,
  hashes: { readonly expected: Hash; readonly actual: Hash },
): StemmaError =>
  new StemmaError(
    "BLOCK_HASH_MISMATCH",
    `Block ${index} of transfer ${transfer} arrived ${wrong} times with another hash than its manifest has. ${senderDamaged}`,
    { transfer, index, ...hashes },
  );
export const receivedMismatch = (ref: ObjectRef, actual: Hash): StemmaError =>
  new StemmaError(
    "OBJECT_HASH_MISMATCH",
    `A received ${ref.kind} has the id ${actual} instead of ${ref.id}. ${senderDamaged}`,
    { kind: ref.kind, expected: ref.id, actual },
  );
export const transferStalled = (transfer: string, maxStalls: number, progress: object): StemmaError =>
  new StemmaError(
    "TRANSFER_STALLED",
    `Transfer ${transfer} got no block in ${maxStalls} tries. It resumes from the blocks it has when the sender is back.`,
    { transfer, ...progress },
  );

// The copy on the own disk.
export const bitmapMismatch = (bytes: number, size: number): StemmaError =>
  invalidManifest(`A bitmap of ${bytes} bytes does not fit ${size} blocks. ${cutShort}`, { size, bytes });
export const objectSizeMismatch = (object: number, byteLength: number, what: string): StemmaError =>
  new StemmaError(
    "TENSOR_SIZE_MISMATCH",
    `Object ${object} of a transfer gives ${what} bytes than the ${byteLength} it declares. ${cutShort}`,
    { object },
  );
export const streamCutShort = (at: number, offset: number, byteLength: number): StemmaError =>
  wrongSize(
    `A received stream ends at byte ${at}, but an object in it ends at byte ${offset + byteLength}. ${cutShort}`,
    { offset, byteLength },
  );
