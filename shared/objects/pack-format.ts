/**
 * The bytes of a pack (formats 1 and 2). Pure: encodes and decodes, and does not access files.
 *
 * header 32 bytes: "STEMPACK", format u32, zeros
 * objects their stored bytes, one after the other
 * index one entry per object: kind u8, encoding code u8, dtype u8, rank u8, zeros u32, id, offset u64,
 *          stored bytes u64, bytes u64, dimensions u64 × rank
 *          Format 2: an epoch u32 in place of the zeros; before the dimensions: references u8 (1: base,
 *          3: base and previous), number of plane checks u8, zeros (6 bytes); after the dimensions:
 *          base id, previous id, plane checks of 8 bytes each: the first bytes of the SHA-256 over the
 *          stored bytes that hold the first 1, 2, … byte planes
 * trailer 64 bytes: index offset u64, index bytes u64, entries u32, format u32, SHA-256 of the index,
 * "STEMPEND"
 *
 * A pack's name is the SHA-256 of its index, a dot and 16 random hexadecimal digits. The hash identifies the
 * pack's objects and their offsets. The digits distinguish a pack that is being deleted from a new one with
 * the same objects. A pack whose objects are all raw and of epoch 0 has format 1, which every Stemma reads.
 * (docs/formats.md, "Pack")
 */
import { StemmaError } from "../errors.js";
import type { ObjectKind } from "../model/model.js";
import { dtypeCode, dtypeOfCode, maxRank, tensorByteLength } from "../tensor/dtype.js";
import { hashBytes, hexOf, sha256 } from "../tensor/hash.js";
import type { Hash, TensorHeader } from "../tensor/tensor.js";
import { maxCodedTensorBytes } from "./object-store.js";

export const packHeaderBytes = 32;
export const packTrailerBytes = 64;
const entryFixedBytes = 64;
const extensionBytes = 8;
const planeCheckBytes = 8;
/** No element is wider than 8 bytes, and all planes together are checked by the tensor's id. */
const maxPlaneChecks = 7;
/**
 * Far more recodings than ever happen, and far fewer than the field can hold, so there is always a next
 * epoch.
 */
const maxEpoch = 2 ** 31;

export type PackFormat = 1 | 2;
/** Largest index that is read: more than a million objects. */
export const maxIndexBytes = 256 * 1024 * 1024;

/**
 * The encoding code of raw objects. Other codes are those of shared/delta (1 to 6) and of the float schemes
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
  dataset: 14,
};
const kindOfCode = new Map(
  Object.entries(kindCodes).map(([kind, code]) => [code, kind as ObjectKind | "tensor"]),
);

const namePattern = /^[0-9a-f]{64}\.[0-9a-f]{16}$/;
export function isPackName(name: string): boolean {
  return namePattern.test(name);
}
/** `unique`: 8 random bytes. */
export function packName(index: Uint8Array, unique: Uint8Array): string {
  return `${sha256(index)}.${Buffer.from(unique).toString("hex")}`;
}

/** One object in a pack. */
export interface PackEntry {
  readonly id: Hash;
  readonly kind: ObjectKind | "tensor";
  readonly encodingCode: number;
  /**
   * Of several copies of an object the one with the highest epoch is read. 0: a new raw object. Higher: an
   * object that was rewritten or is coded against others.
   */
  readonly epoch: number;
  /** What a tensor is coded against. */
  readonly base?: Hash | undefined;
  readonly previous?: Hash | undefined;
  /** Of tensors in planes: checks of their first 1, 2, … planes, 16 hexadecimal digits each. */
  readonly planeChecks?: readonly string[] | undefined;
  /** Of tensors. */
  readonly header?: TensorHeader | undefined;
  readonly offset: number;
  readonly storedBytes: number;
  /** Bytes of the object itself. */
  readonly byteLength: number;
}

export interface PackIndex {
  readonly name: string;
  /** Size of the pack file. */
  readonly bytes: number;
  readonly entries: readonly PackEntry[];
}

const utf8 = new TextEncoder();
const headerMagic = utf8.encode("STEMPACK");
const trailerMagic = utf8.encode("STEMPEND");
const startsWith = (bytes: Uint8Array, magic: Uint8Array, at: number): boolean =>
  magic.every((byte, i) => bytes[at + i] === byte);

/** The fields that determine an entry's size in the index and its pack's format. */
export type EntryShape = Partial<
  Pick<PackEntry, "encodingCode" | "epoch" | "header" | "base" | "previous" | "planeChecks">
>;

/** The oldest format that can hold these entries. */
export function packFormatOf(entries: Iterable<EntryShape>): PackFormat {
  for (const { encodingCode = rawEncodingCode, epoch = 0 } of entries)
    if (encodingCode !== rawEncodingCode || epoch !== 0) return 2;
  return 1;
}

export function encodePackHeader(packFormat: PackFormat): Uint8Array {
  const bytes = new Uint8Array(packHeaderBytes);
  bytes.set(headerMagic, 0);
  new DataView(bytes.buffer).setUint32(8, packFormat, true);
  return bytes;
}

export function indexEntryBytes(
  { header, base, previous, planeChecks = [] }: EntryShape,
  format: PackFormat,
): number {
  const dimensions = 8 * (header?.shape.length ?? 0);
  if (format === 1) return entryFixedBytes + dimensions;
  return (
    entryFixedBytes +
    extensionBytes +
    dimensions +
    (base === undefined ? 0 : 32) +
    (previous === undefined ? 0 : 32) +
    planeCheckBytes * planeChecks.length
  );
}

/** Size of a pack that holds these objects and nothing else. */
export function packBytes(entries: readonly (EntryShape & Pick<PackEntry, "storedBytes">)[]): number {
  const format = packFormatOf(entries);
  return entries.reduce(
    (sum, entry) => sum + entry.storedBytes + indexEntryBytes(entry, format),
    packHeaderBytes + packTrailerBytes,
  );
}

/** Encodes entries in the format that `packFormatOf` returns for them. */
export function encodePackIndex(entries: readonly PackEntry[]): Uint8Array {
  const format = packFormatOf(entries);
  const bytes = new Uint8Array(entries.reduce((sum, entry) => sum + indexEntryBytes(entry, format), 0));
  let at = 0;
  for (const entry of entries) {
    encodeEntry(bytes, at, entry, format);
    at += indexEntryBytes(entry, format);
  }
  return bytes;
}

function encodeEntry(bytes: Uint8Array, start: number, entry: PackEntry, format: PackFormat): void {
  const { base, previous, planeChecks = [], header } = entry;
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
  if (format === 2) {
    bytes[at] = (base === undefined ? 0 : 1) + (previous === undefined ? 0 : 2);
    bytes[at + 1] = planeChecks.length;
    at += extensionBytes;
  }
  for (const dimension of header?.shape ?? []) {
    view.setBigUint64(at, BigInt(dimension), true);
    at += 8;
  }
  for (const part of [base, previous, ...planeChecks])
    if (part !== undefined) {
      bytes.set(Buffer.from(part, "hex"), at);
      at += part.length / 2;
    }
}

export function encodePackTrailer(
  packFormat: PackFormat,
  indexOffset: number,
  index: Uint8Array,
  entries: number,
): Uint8Array {
  const bytes = new Uint8Array(packTrailerBytes);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(indexOffset), true);
  view.setBigUint64(8, BigInt(index.length), true);
  view.setUint32(16, entries, true);
  view.setUint32(20, packFormat, true);
  bytes.set(hashBytes(sha256(index)), 24);
  bytes.set(trailerMagic, 56);
  return bytes;
}

export interface PackTrailer {
  readonly format: PackFormat;
  readonly indexOffset: number;
  readonly indexBytes: number;
  readonly entries: number;
  readonly indexHash: Hash;
}

function corrupt(pack: string, why: string): StemmaError {
  return new StemmaError(
    "PACK_CORRUPT",
    `The pack ${pack} ${why}. Put it back from a backup, or let devices that still have its objects send them again. Run a check to see what is affected.`,
    { pack },
  );
}

/** The format in a pack's header. @throws PACK_CORRUPT, PACK_FORMAT_UNKNOWN */
export function checkPackHeader(bytes: Uint8Array, pack: string): PackFormat {
  if (bytes.length < packHeaderBytes || !startsWith(bytes, headerMagic, 0))
    throw corrupt(pack, "does not start like a pack");
  return checkFormat(new DataView(bytes.buffer, bytes.byteOffset).getUint32(8, true), pack);
}

function checkFormat(format: number, pack: string): PackFormat {
  if (format !== 1 && format !== 2)
    throw new StemmaError(
      "PACK_FORMAT_UNKNOWN",
      `The pack ${pack} has format ${format}; this Stemma reads the formats 1 and 2. Use the Stemma that wrote it, or a newer one.`,
      { pack, format },
    );
  return format;
}

/**
 * Reads a trailer and checks that it fits a file of `fileBytes`. @throws PACK_CORRUPT,
 * PACK_FORMAT_UNKNOWN
 */
export function decodePackTrailer(bytes: Uint8Array, fileBytes: number, pack: string): PackTrailer {
  if (bytes.length !== packTrailerBytes || !startsWith(bytes, trailerMagic, 56))
    throw corrupt(pack, "does not end like a pack");
  const view = new DataView(bytes.buffer, bytes.byteOffset, packTrailerBytes);
  const format = checkFormat(view.getUint32(20, true), pack);
  const indexOffset = Number(view.getBigUint64(0, true));
  const indexBytes = Number(view.getBigUint64(8, true));
  const entries = view.getUint32(16, true);
  const fits =
    indexOffset >= packHeaderBytes &&
    indexOffset + indexBytes + packTrailerBytes === fileBytes &&
    indexBytes <= maxIndexBytes &&
    entries * entryFixedBytes <= indexBytes;
  if (!fits)
    throw corrupt(
      pack,
      `declares an index of ${indexBytes} bytes at ${indexOffset}, which does not fit its ${fileBytes} bytes`,
    );
  return { format, indexOffset, indexBytes, entries, indexHash: hexOf(bytes.subarray(24, 56)) };
}

/** The pack that an index belongs to. */
interface IndexOrigin {
  readonly pack: string;
  readonly format: PackFormat;
  /** Where the index begins in the pack. */
  readonly indexOffset: number;
}

function decodeEntry(bytes: Uint8Array, at: number, { pack, format, indexOffset }: IndexOrigin): PackEntry {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const kind = kindOfCode.get(bytes[at] as number);
  const rank = bytes[at + 3] as number;
  if (kind === undefined)
    throw new StemmaError(
      "PACK_FORMAT_UNKNOWN",
      `The pack ${pack} has an object of kind ${bytes[at]}, which this Stemma does not know. Use the Stemma that wrote it, or a newer one.`,
      { pack },
    );
  const dimensionsAt = at + entryFixedBytes + (format === 1 ? 0 : extensionBytes);
  if (rank > maxRank || (kind !== "tensor" && rank > 0) || dimensionsAt + 8 * rank > bytes.length)
    throw corrupt(pack, "has an invalid index entry");
  const encodingCode = bytes[at + 1] as number;
  const id = hexOf(bytes.subarray(at + 8, at + 40));
  const [offset, storedBytes, byteLength] = [40, 48, 56].map((field) =>
    Number(view.getBigUint64(at + field, true)),
  ) as [number, number, number];
  const isInside =
    offset >= packHeaderBytes && offset + storedBytes <= indexOffset && Number.isSafeInteger(byteLength);
  if (!isInside || (encodingCode === rawEncodingCode && storedBytes !== byteLength))
    throw corrupt(pack, `declares an invalid place or size of the object ${id}`);
  const epoch = format === 1 ? 0 : view.getUint32(at + 4, true);
  if (epoch > maxEpoch)
    throw corrupt(pack, `declares an epoch of the object ${id} above any that is written`);
  const place = { encodingCode, epoch, offset, storedBytes, byteLength };
  if (kind !== "tensor") {
    if (format === 2 && (bytes[at + entryFixedBytes] !== 0 || bytes[at + entryFixedBytes + 1] !== 0))
      throw corrupt(pack, `declares references or plane checks of the object ${id}, which only tensors have`);
    return { id, kind, ...place };
  }
  const shape = Array.from({ length: rank }, (_, i) => Number(view.getBigUint64(dimensionsAt + 8 * i, true)));
  const header: TensorHeader = { dtype: dtypeOfCode(bytes[at + 2] as number), shape };
  if (tensorByteLength(header.dtype, shape) !== byteLength)
    throw corrupt(pack, `declares a shape of the tensor ${id} that does not fit its bytes`);
  if (encodingCode !== rawEncodingCode && byteLength > maxCodedTensorBytes)
    throw corrupt(
      pack,
      `declares that the tensor ${id} of ${byteLength} bytes is coded, which no tensor of this size is`,
    );
  return {
    id,
    kind,
    ...place,
    header,
    ...(format === 1
      ? {}
      : decodeReferences(bytes, at + entryFixedBytes, dimensionsAt + 8 * rank, { id, encodingCode, pack })),
  };
}

function decodeReferences(
  bytes: Uint8Array,
  extension: number,
  start: number,
  { id, encodingCode, pack }: Pick<PackEntry, "id" | "encodingCode"> & Pick<IndexOrigin, "pack">,
): Pick<PackEntry, "base" | "previous" | "planeChecks"> {
  const flags = bytes[extension] as number;
  const checks = bytes[extension + 1] as number;
  const references = flags === 3 ? 2 : flags;
  if (
    references > 2 ||
    flags === 2 ||
    checks > maxPlaneChecks ||
    (encodingCode === rawEncodingCode && flags !== 0)
  )
    throw corrupt(pack, `declares invalid references or plane checks of the tensor ${id}`);
  const end = start + 32 * references + planeCheckBytes * checks;
  if (end > bytes.length) throw corrupt(pack, "has an index that ends in the middle of an entry");
  const base = references > 0 ? hexOf(bytes.subarray(start, start + 32)) : undefined;
  const previous = references > 1 ? hexOf(bytes.subarray(start + 32, start + 64)) : undefined;
  const planeChecks = Array.from({ length: checks }, (_, i) =>
    Buffer.from(
      bytes.subarray(end - planeCheckBytes * (checks - i), end - planeCheckBytes * (checks - i - 1)),
    ).toString("hex"),
  );
  return {
    ...(base === undefined ? {} : { base }),
    ...(previous === undefined ? {} : { previous }),
    ...(checks === 0 ? {} : { planeChecks }),
  };
}

/**
 * The entries of an index whose hash was compared with the trailer. `indexOffset` is where the index begins
 * in the pack. @throws PACK_CORRUPT, PACK_FORMAT_UNKNOWN, DTYPE_UNKNOWN, SHAPE_INVALID
 */
export function decodePackIndex(
  index: Uint8Array,
  indexOffset: number,
  pack: string,
  format: PackFormat,
): PackEntry[] {
  const entries: PackEntry[] = [];
  for (let at = 0; at < index.length;) {
    if (at + entryFixedBytes > index.length)
      throw corrupt(pack, "has an index that ends in the middle of an entry");
    const entry = decodeEntry(index, at, { pack, format, indexOffset });
    entries.push(entry);
    at += indexEntryBytes(entry, format);
  }
  return entries;
}

/** Compares an index with its pack's name and trailer, then decodes it. @throws as decodePackIndex */
export function readPackIndex(
  index: Uint8Array,
  trailer: Pick<PackTrailer, "format" | "indexOffset" | "entries" | "indexHash">,
  pack: string,
): PackEntry[] {
  const hash = sha256(index);
  if (hash !== trailer.indexHash || hash !== pack.slice(0, 64)) throw corrupt(pack, "has a damaged index");
  const entries = decodePackIndex(index, trailer.indexOffset, pack, trailer.format);
  if (entries.length !== trailer.entries)
    throw corrupt(pack, `has ${entries.length} index entries where its trailer declares ${trailer.entries}`);
  return entries;
}
