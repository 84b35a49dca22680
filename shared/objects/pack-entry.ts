/**
 * One object's entry in the index of a pack, encoded and decoded. pack-format.ts has the table of its fields
 * and the rest of the pack. Pure.
 */
import { linksTo, listReferences, type Links } from "../delta/links.js";
import type { ObjectKind } from "../model/model.js";
import { dtypeCode, dtypeOfCode, maxRank, tensorByteLength } from "../tensor/dtype.js";
import { hashBytes, hexOf } from "../tensor/hash.js";
import type { Hash, TensorHeader } from "../tensor/tensor.js";
import { packCorrupt, packOfNewer } from "./object-errors.js";
import { decodeLowPart, encodeLowPart, lowPartBytes, type LowPart } from "./tiers/low-part.js";
import { maxCodedTensorBytes } from "./object-store.js";

/** Format 2 has epochs, references and plane checks; format 3 has tensors whose low-order bytes are elsewhere. */
export type PackFormat = 1 | 2 | 3;
export const packFormats: readonly PackFormat[] = [1, 2, 3];

/** Bytes that every entry has. */
export const entryFixedBytes = 64;
/** Bytes that every entry has in addition from format 2 on. */
const extensionBytes = 8;
const planeCheckBytes = 8;
/**
 * The largest number of checks of planes: no element is wider than 8 bytes, and all planes together are
 * checked by the tensor's id.
 */
const maxPlaneChecks = 7;
/**
 * Far more recodings than ever happen, and far fewer than the field can hold, so there is always a next
 * epoch.
 */
const maxEpoch = 2 ** 31;

/**
 * The encoding code of raw objects. Other codes are those of shared/delta (1 to 10) and of the float schemes
 * (from 16).
 */
export const rawEncodingCode = 0;

/** Numbers of the kinds in an index. They never change; new kinds get new numbers. */
const kindCodes: Readonly<Record<ObjectKind | "tensor", number>> = {
  tensor: 0,
  tree: 1,
  architecture: 2,
  names: 3,
  "owner-map": 4,
  environment: 5,
  measurements: 6,
  checkpoints: 7,
  provenance: 8,
  metadata: 9,
  attachment: 10,
  record: 11,
  engine: 12,
  recipe: 13,
  data: 14,
  openings: 15,
  evaluation: 16,
  predictions: 17,
  release: 18,
  pipeline: 19,
};
const kindOfCode = new Map(
  Object.entries(kindCodes).map(([kind, code]) => [code, kind as ObjectKind | "tensor"]),
);

/** One object in a pack. */
export interface PackEntry extends Links<Hash> {
  readonly id: Hash;
  readonly kind: ObjectKind | "tensor";
  readonly encodingCode: number;
  /**
   * The epoch of the copy: of several copies of an object, the one with the highest epoch is read. 0: a new
   * raw object. Higher: an object that was rewritten or is coded against others.
   */
  readonly epoch: number;
  /** The checks of the first 1, 2, … planes of a tensor in planes, 16 hexadecimal digits each. */
  readonly planeChecks?: readonly string[] | undefined;
  /** The type and shape of a tensor; absent for other objects. */
  readonly header?: TensorHeader | undefined;
  readonly offset: number;
  /** All its stored bytes, with those of `low`. */
  readonly storedBytes: number;
  /** The end of the stored bytes, where it is in a low file instead of the pack. */
  readonly low?: LowPart | undefined;
  /** Bytes of the object itself. */
  readonly byteLength: number;
}

/** The fields that determine an entry's size in the index and its pack's format. */
export type EntryShape = Partial<
  Pick<
    PackEntry,
    "encodingCode" | "epoch" | "header" | "base" | "previous" | "others" | "planeChecks" | "low"
  >
>;

/** The stored bytes that are in the pack itself. */
export function bytesInPack({ storedBytes, low }: Pick<PackEntry, "storedBytes" | "low">): number {
  return storedBytes - (low?.bytes ?? 0);
}

/** The oldest format that can hold these entries. */
export function packFormatOf(entries: Iterable<EntryShape>): PackFormat {
  let format: PackFormat = 1;
  for (const { encodingCode = rawEncodingCode, epoch = 0, low } of entries) {
    if (low !== undefined) return 3;
    if (encodingCode !== rawEncodingCode || epoch !== 0) format = 2;
  }
  return format;
}

/** Size of an entry in the index. */
export function indexEntryBytes(
  { header, planeChecks = [], low, ...links }: EntryShape,
  format: PackFormat,
): number {
  const dimensions = 8 * (header?.shape.length ?? 0);
  if (format === 1) return entryFixedBytes + dimensions;
  return (
    entryFixedBytes +
    extensionBytes +
    dimensions +
    32 * listReferences(links).length +
    planeCheckBytes * planeChecks.length +
    (low === undefined ? 0 : lowPartBytes)
  );
}

/** The bytes that an object takes in a pack, in each format that can hold it. */
export interface EntrySize {
  readonly inPack: number;
  /** The oldest format that can hold it. */
  readonly format: PackFormat;
  /** The bytes of the entry in an index of format 1. */
  readonly entry: number;
  /** The same in an index of a later format. */
  readonly laterEntry: number;
}

export function entrySize(entry: EntryShape & Pick<PackEntry, "storedBytes">): EntrySize {
  return {
    inPack: bytesInPack(entry),
    format: packFormatOf([entry]),
    entry: indexEntryBytes(entry, 1),
    laterEntry: indexEntryBytes(entry, 2),
  };
}
/** The same of the encoded entry at `at`, which was decoded before; undefined: it has to be decoded again. */
export function encodedEntrySize(index: Buffer, at: number, format: PackFormat): EntrySize | undefined {
  if (format !== 1 || index[at + 1] !== rawEncodingCode) return undefined;
  const entry = entryBytesAt(index, at, format);
  const inPack = index.readUInt32LE(at + 48) + 2 ** 32 * index.readUInt32LE(at + 52);
  return { inPack, format, entry, laterEntry: entry + extensionBytes };
}

/** Size of the encoded entry at `at`, which was decoded before. */
export function entryBytesAt(index: Uint8Array, at: number, format: PackFormat): number {
  const dimensions = 8 * (index[at + 3] as number);
  if (format === 1) return entryFixedBytes + dimensions;
  const [flags = 0, checks = 0, hasLow = 0] = index.subarray(at + entryFixedBytes, at + entryFixedBytes + 3);
  return (
    entryFixedBytes +
    extensionBytes +
    dimensions +
    32 * Math.log2(flags + 1) +
    planeCheckBytes * checks +
    (format !== 3 || hasLow === 0 ? 0 : lowPartBytes)
  );
}
/** True if the encoded entry at `at`, of format 2 or later, names tensors that it is coded against. */
export function hasReferencesAt(index: Uint8Array, at: number): boolean {
  return index[at + entryFixedBytes] !== 0;
}
/** True if the encoded entry at `at`, of format 3, has a low part. */
export function hasLowPartAt(index: Uint8Array, at: number): boolean {
  return index[at + entryFixedBytes + 2] !== 0;
}

/** Writes an entry at `start`. It takes `indexEntryBytes`. */
export function encodeEntry(bytes: Uint8Array, start: number, entry: PackEntry, format: PackFormat): void {
  const { planeChecks = [], header, low } = entry;
  const references = listReferences(entry);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  bytes[start] = kindCodes[entry.kind];
  bytes[start + 1] = entry.encodingCode;
  if (header !== undefined) {
    bytes[start + 2] = dtypeCode(header.dtype);
    bytes[start + 3] = header.shape.length;
  }
  view.setUint32(start + 4, entry.epoch, true);
  bytes.set(hashBytes(entry.id), start + 8);
  view.setBigUint64(start + 40, BigInt(entry.offset), true);
  view.setBigUint64(start + 48, BigInt(entry.storedBytes), true);
  view.setBigUint64(start + 56, BigInt(entry.byteLength), true);
  let at = start + entryFixedBytes;
  if (format !== 1) {
    // One bit for each reference, from the lowest: releases that knew two references refuse more.
    bytes[at] = 2 ** references.length - 1;
    bytes[at + 1] = planeChecks.length;
    bytes[at + 2] = low === undefined ? 0 : 1;
    at += extensionBytes;
  }
  for (const dimension of header?.shape ?? []) {
    view.setBigUint64(at, BigInt(dimension), true);
    at += 8;
  }
  for (const part of [...references, ...planeChecks]) {
    bytes.set(Buffer.from(part, "hex"), at);
    at += part.length / 2;
  }
  if (low !== undefined) encodeLowPart(bytes, at, low);
}

/** The pack that an index belongs to. */
export interface IndexOrigin {
  readonly pack: string;
  readonly format: PackFormat;
  /** The objects are stored from this offset in the pack to `objectsEnd`, which is not included. */
  readonly objectsStart: number;
  readonly objectsEnd: number;
}

/** The entry at `start`. @throws PACK_CORRUPT, PACK_FORMAT_UNKNOWN, DTYPE_UNKNOWN, SHAPE_INVALID */
export function decodeEntry(bytes: Uint8Array, start: number, origin: IndexOrigin): PackEntry {
  const { pack, format, objectsStart, objectsEnd } = origin;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const kind = kindOfCode.get(bytes[start] as number);
  const rank = bytes[start + 3] as number;
  if (kind === undefined)
    throw packOfNewer(pack, `an object of kind ${bytes[start]}, which this Stemma does not know`);
  const dimensionsStart = start + entryFixedBytes + (format === 1 ? 0 : extensionBytes);
  if (rank > maxRank || (kind !== "tensor" && rank > 0) || dimensionsStart + 8 * rank > bytes.length)
    throw packCorrupt(pack, "has an invalid index entry");
  const encodingCode = bytes[start + 1] as number;
  const id = hexOf(bytes.subarray(start + 8, start + 40));
  const [offset, storedBytes, byteLength] = [40, 48, 56].map((field) =>
    Number(view.getBigUint64(start + field, true)),
  ) as [number, number, number];
  const low = format === 3 ? lowPartAt(bytes, start, { pack, id }) : undefined;
  const inPack = bytesInPack({ storedBytes, low });
  const isInside =
    inPack >= 0 &&
    offset >= objectsStart &&
    offset + inPack <= objectsEnd &&
    Number.isSafeInteger(storedBytes) &&
    Number.isSafeInteger(byteLength);
  if (!isInside || (encodingCode === rawEncodingCode && storedBytes !== byteLength))
    throw packCorrupt(pack, `declares an offset or a size of the object ${id} that does not fit the pack`);
  const epoch = format === 1 ? 0 : view.getUint32(start + 4, true);
  if (epoch > maxEpoch)
    throw packCorrupt(
      pack,
      `declares the epoch ${epoch} of the object ${id}, above the maximum of ${maxEpoch}`,
    );
  const stored = { encodingCode, epoch, offset, storedBytes, byteLength };
  if (kind !== "tensor") {
    if (format !== 1) refuseExtension(bytes, start, { pack, id });
    return { id, kind, ...stored };
  }
  const shape = Array.from({ length: rank }, (_, i) =>
    Number(view.getBigUint64(dimensionsStart + 8 * i, true)),
  );
  const header: TensorHeader = { dtype: dtypeOfCode(bytes[start + 2] as number), shape };
  if (tensorByteLength(header.dtype, shape) !== byteLength)
    throw packCorrupt(pack, `declares a shape of the tensor ${id} that does not fit its bytes`);
  if (encodingCode !== rawEncodingCode && byteLength > maxCodedTensorBytes)
    throw packCorrupt(
      pack,
      `declares that the tensor ${id} of ${byteLength} bytes is coded; tensors above ${maxCodedTensorBytes} bytes are always stored raw`,
    );
  return {
    id,
    kind,
    ...stored,
    header,
    ...(low === undefined ? {} : { low }),
    ...(format === 1
      ? {}
      : decodeReferences(bytes, start + entryFixedBytes, dimensionsStart + 8 * rank, {
          id,
          encodingCode,
          pack,
        })),
  };
}

/** @throws PACK_CORRUPT where an entry has references or plane checks */
function refuseExtension(
  bytes: Uint8Array,
  start: number,
  { pack, id }: { readonly pack: string; readonly id: Hash },
): void {
  const extension = bytes.subarray(start + entryFixedBytes, start + entryFixedBytes + 3);
  if (extension.some((byte) => byte !== 0))
    throw packCorrupt(
      pack,
      `declares references or plane checks of the object ${id}, which only tensors have`,
    );
}

/**
 * The low part of the entry at `start`, which follows its plane checks; undefined where it has none.
 * @throws PACK_CORRUPT
 */
function lowPartAt(
  bytes: Uint8Array,
  start: number,
  { pack, id }: Pick<IndexOrigin, "pack"> & Pick<PackEntry, "id">,
): LowPart | undefined {
  const extension = start + entryFixedBytes;
  const [flags = 0, checks = 0, hasLow = 0] = bytes.subarray(extension, extension + 3);
  if (hasLow === 0) return undefined;
  const rank = bytes[start + 3] as number;
  const references = Math.log2(flags + 1);
  const at = extension + extensionBytes + 8 * rank + 32 * references + planeCheckBytes * checks;
  const low = Number.isInteger(references) ? decodeLowPart(bytes, at) : undefined;
  if (low === undefined || hasLow !== 1 || checks === 0)
    throw packCorrupt(pack, `declares invalid low-order bytes of the tensor ${id}`);
  return low;
}

/** `extension`: offset of the fields that format 1 lacks. `start`: offset of what follows the dimensions. */
function decodeReferences(
  bytes: Uint8Array,
  extension: number,
  start: number,
  { id, encodingCode, pack }: Pick<PackEntry, "id" | "encodingCode"> & Pick<IndexOrigin, "pack">,
): Links<Hash> & Pick<PackEntry, "planeChecks"> {
  const flags = bytes[extension] as number;
  const checks = bytes[extension + 1] as number;
  const count = Math.log2(flags + 1);
  if (
    !Number.isInteger(count) ||
    checks > maxPlaneChecks ||
    (encodingCode === rawEncodingCode && flags !== 0)
  )
    throw packCorrupt(pack, `declares invalid references or plane checks of the tensor ${id}`);
  const end = start + 32 * count + planeCheckBytes * checks;
  if (end > bytes.length) throw packCorrupt(pack, "has an index that ends in the middle of an entry");
  const references = Array.from({ length: count }, (_, i) =>
    hexOf(bytes.subarray(start + 32 * i, start + 32 * i + 32)),
  );
  if (count > 2 && new Set([id, ...references]).size <= count)
    throw packCorrupt(
      pack,
      `declares that the tensor ${id} is coded against itself or twice against another`,
    );
  const planeChecks = Array.from({ length: checks }, (_, i) =>
    Buffer.from(
      bytes.subarray(end - planeCheckBytes * (checks - i), end - planeCheckBytes * (checks - i - 1)),
    ).toString("hex"),
  );
  return {
    ...linksTo(references),
    ...(checks === 0 ? {} : { planeChecks }),
  };
}
