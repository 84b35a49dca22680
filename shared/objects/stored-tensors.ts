/**
 * The port through which tensor-reading.ts reads tensors. The packs on files, the store in memory, and a pack
 * that is being written implement it. Also functions that need only this port.
 */
import { linksOf } from "../delta/links.js";
import type { StemmaError } from "../errors.js";
import type { Hash, TensorHeader } from "../tensor/tensor.js";
import { isFault, type ChainFault, type ChainState } from "./chains.js";
import { kindMismatch, tensorTooLarge } from "./object-errors.js";
import type { ObjectIndex } from "./object-index.js";
import { maxCodedTensorBytes, type CodedTensor, type TensorEncoding } from "./object-store.js";
import type { PackEntry } from "./pack-entry.js";

export type TensorEntry = PackEntry & { readonly header: TensorHeader };

/** @throws OBJECT_KIND_MISMATCH for an object that is not a tensor */
export function tensorEntryOf(entry: PackEntry): TensorEntry {
  const { header } = entry;
  if (header === undefined) throw kindMismatch(entry.id, "tensor", entry.kind);
  return { ...entry, header };
}

/** The finding instead of a tensor: the id of the bytes, where they could be decoded. */
export interface FoundDamage {
  readonly actual?: Hash | undefined;
  readonly cause?: unknown;
  /** The known fault, as the end of a sentence. */
  readonly why?: string;
}

export interface StoredTensors {
  /** The copy of a tensor that is read. @throws OBJECT_MISSING, OBJECT_KIND_MISMATCH */
  entry(id: Hash): TensorEntry;
  state(id: Hash): ChainState;
  /**
   * The first `length` stored bytes (default: all) of the copy that is read; the copy is looked up before the
   * call returns. The caller may write to the bytes where they fill their buffer, not where they are a view
   * of a larger one.
   */
  stored(id: Hash, length?: number): Promise<Uint8Array>;
  /** True if another tensor is coded against it, so that it may be needed again. */
  isReferenced(id: Hash): boolean;
  /** Notes that a copy is damaged. Returns the error to throw. */
  damaged(id: Hash, entry: PackEntry, found: FoundDamage): StemmaError;
  /** The error to throw for a tensor whose chain has a fault. */
  unreadable(id: Hash, fault: ChainFault): StemmaError;
}

/** @throws TENSOR_TOO_LARGE beyond maxCodedTensorBytes */
export function refuseLarge(id: Hash, byteLength: number): void {
  if (byteLength > maxCodedTensorBytes) throw tensorTooLarge(id, byteLength, maxCodedTensorBytes);
}

/** See ObjectReader.encodingOf. */
export function encodingIn(index: ObjectIndex, id: Hash): TensorEncoding | undefined {
  const entry = index.locate(id)?.entry;
  const depth = index.state(id);
  if (entry?.header === undefined || isFault(depth)) return undefined;
  const { encodingCode: code, storedBytes } = entry;
  const low = index.needsLowFile(id) ? { needsLowFile: true as const } : {};
  return { code, depth, storedBytes, ...linksOf(entry), ...low };
}

/** See ObjectReader.readCoded. */
export async function readCodedFrom(
  tensors: Pick<StoredTensors, "entry" | "stored">,
  id: Hash,
): Promise<CodedTensor> {
  const entry = tensors.entry(id);
  const { header, encodingCode: code, byteLength } = entry;
  refuseLarge(id, byteLength);
  const bytes = await tensors.stored(id);
  return { id, header, code, bytes: bytes.slice(), ...linksOf(entry) };
}
