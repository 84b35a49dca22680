/**
 * The bytes of a pack (format 1). Pure: encode and decode side by side; knows no files.
 *
 * header   32 bytes: "STEMPACK", format u32, zeros
 * objects  their stored bytes, one after the other
 * index    an entry each: kind u8, representation u8, dtype u8, rank u8, zeros u32, id, offset u64,
 *          stored bytes u64, bytes u64, dimensions u64 × rank
 * trailer  64 bytes: index offset u64, index bytes u64, entries u32, format u32, SHA-256 of the index, "STEMPEND"
 *
 * A pack is called by the SHA-256 of its index, a dot and 16 random hexadecimal digits. The hash says
 * exactly what is inside and where; the digits keep a pack that is just being deleted apart from one
 * with the same objects that is just being written.
 */
import { StemmaError } from "../errors.js";
import type { ObjectKind } from "../model/model.js";
import { dtypeCode, dtypeOfCode, maxRank, tensorByteLength } from "../tensor/dtype.js";
import { hashBytes, hexOf, sha256 } from "../tensor/hash.js";
import type { Hash, TensorHeader } from "../tensor/tensor.js";

export const packHeaderBytes = 32;
export const packTrailerBytes = 64;
const entryFixedBytes = 64;
const packFormat = 1;
/** Largest index that is read: a million objects and more. */
export const maxIndexBytes = 256 * 1024 * 1024;

/** How an object's bytes lie in its pack. 0 is raw; codecs get the numbers after it. */
export const rawRepresentation = 0;

/** Numbers of the kinds in an index; fixed for ever, new kinds get new numbers. */
const kindCodes: Readonly<Record<ObjectKind | "tensor", number>> = {
  tensor: 0, tree: 1, architecture: 2, names: 3, "owner-map": 4, environment: 5, measurements: 6, checkpoints: 7,
  provenance: 8, metadata: 9, attachment: 10, record: 11, engine: 12, recipe: 13, dataset: 14,
};
const kindOfCode = new Map(Object.entries(kindCodes).map(([kind, code]) => [code, kind as ObjectKind | "tensor"]));

const namePattern = /^[0-9a-f]{64}\.[0-9a-f]{16}$/;
export function isPackName(name: string): boolean { return namePattern.test(name); }
/** `unique`: 8 random bytes. */
export function packName(index: Uint8Array, unique: Uint8Array): string { return `${sha256(index)}.${Buffer.from(unique).toString("hex")}`; }

/** One object in a pack. */
export interface PackEntry {
  readonly id: Hash;
  readonly kind: ObjectKind | "tensor";
  readonly representation: number;
  /** Of tensors. */
  readonly header?: TensorHeader;
  readonly offset: number;
  readonly storedBytes: number;
  /** Of the object itself. */
  readonly byteLength: number;
}

export interface PackIndex { readonly name: string; /** Size of the whole pack file. */ readonly bytes: number; readonly entries: readonly PackEntry[] }

const utf8 = new TextEncoder();
const headerMagic = utf8.encode("STEMPACK");
const trailerMagic = utf8.encode("STEMPEND");
const startsWith = (bytes: Uint8Array, magic: Uint8Array, at: number): boolean => magic.every((byte, i) => bytes[at + i] === byte);

export function encodePackHeader(): Uint8Array {
  const bytes = new Uint8Array(packHeaderBytes);
  bytes.set(headerMagic, 0);
  new DataView(bytes.buffer).setUint32(8, packFormat, true);
  return bytes;
}

export function indexEntryBytes(entry: { readonly header?: TensorHeader | undefined }): number { return entryFixedBytes + 8 * (entry.header?.shape.length ?? 0); }

/** Size of a pack that holds these objects and nothing else. */
export function packBytes(entries: Iterable<Pick<PackEntry, "storedBytes" | "header">>): number {
  let bytes = packHeaderBytes + packTrailerBytes;
  for (const entry of entries) bytes += entry.storedBytes + indexEntryBytes(entry);
  return bytes;
}

export function encodePackIndex(entries: readonly PackEntry[]): Uint8Array {
  const bytes = new Uint8Array(entries.reduce((sum, entry) => sum + indexEntryBytes(entry), 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const entry of entries) {
    bytes[at] = kindCodes[entry.kind];
    bytes[at + 1] = entry.representation;
    if (entry.header !== undefined) { bytes[at + 2] = dtypeCode(entry.header.dtype); bytes[at + 3] = entry.header.shape.length; }
    bytes.set(hashBytes(entry.id), at + 8);
    view.setBigUint64(at + 40, BigInt(entry.offset), true);
    view.setBigUint64(at + 48, BigInt(entry.storedBytes), true);
    view.setBigUint64(at + 56, BigInt(entry.byteLength), true);
    at += entryFixedBytes;
    for (const dimension of entry.header?.shape ?? []) { view.setBigUint64(at, BigInt(dimension), true); at += 8; }
  }
  return bytes;
}

export function encodePackTrailer(indexOffset: number, index: Uint8Array, entries: number): Uint8Array {
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

export interface PackTrailer { readonly indexOffset: number; readonly indexBytes: number; readonly entries: number; readonly indexHash: Hash }

function corrupt(pack: string, why: string): StemmaError {
  return new StemmaError("PACK_CORRUPT", `The pack ${pack} ${why}. What it holds can be put back from a backup or sent again by the devices that still have it; run a check to see what is affected.`, { pack });
}

/** @throws PACK_CORRUPT, PACK_FORMAT_UNKNOWN */
export function checkPackHeader(bytes: Uint8Array, pack: string): void {
  if (bytes.length < packHeaderBytes || !startsWith(bytes, headerMagic, 0)) throw corrupt(pack, "does not begin as a pack does");
  checkFormat(new DataView(bytes.buffer, bytes.byteOffset).getUint32(8, true), pack);
}

function checkFormat(format: number, pack: string): void {
  if (format !== packFormat) throw new StemmaError("PACK_FORMAT_UNKNOWN", `The pack ${pack} has format ${format}; this Stemma reads format ${packFormat}. Use the Stemma that wrote it, or a newer one.`, { pack, format });
}

/** Reads a trailer and checks that what it says fits a file of `fileBytes`. @throws PACK_CORRUPT, PACK_FORMAT_UNKNOWN */
export function decodePackTrailer(bytes: Uint8Array, fileBytes: number, pack: string): PackTrailer {
  if (bytes.length !== packTrailerBytes || !startsWith(bytes, trailerMagic, 56)) throw corrupt(pack, "does not end as a pack does");
  const view = new DataView(bytes.buffer, bytes.byteOffset, packTrailerBytes);
  checkFormat(view.getUint32(20, true), pack);
  const indexOffset = Number(view.getBigUint64(0, true));
  const indexBytes = Number(view.getBigUint64(8, true));
  const entries = view.getUint32(16, true);
  const fits = indexOffset >= packHeaderBytes && indexOffset + indexBytes + packTrailerBytes === fileBytes && indexBytes <= maxIndexBytes && entries * entryFixedBytes <= indexBytes;
  if (!fits) throw corrupt(pack, `says it has an index of ${indexBytes} bytes at ${indexOffset}, which does not fit its ${fileBytes} bytes`);
  return { indexOffset, indexBytes, entries, indexHash: hexOf(bytes.subarray(24, 56)) };
}

function decodeEntry(bytes: Uint8Array, at: number, indexOffset: number, pack: string): PackEntry {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const kind = kindOfCode.get(bytes[at] as number);
  const rank = bytes[at + 3] as number;
  if (kind === undefined) throw new StemmaError("PACK_FORMAT_UNKNOWN", `The pack ${pack} holds an object of the kind number ${bytes[at]}, which this Stemma does not know. Use the Stemma that wrote it, or a newer one.`, { pack });
  if (rank > maxRank || (kind !== "tensor" && rank > 0) || at + entryFixedBytes + 8 * rank > bytes.length) throw corrupt(pack, "has an index entry that cannot be");
  const representation = bytes[at + 1] as number;
  const id = hexOf(bytes.subarray(at + 8, at + 40));
  const [offset, storedBytes, byteLength] = [40, 48, 56].map((field) => Number(view.getBigUint64(at + field, true))) as [number, number, number];
  const inside = offset >= packHeaderBytes && offset + storedBytes <= indexOffset && Number.isSafeInteger(byteLength);
  if (!inside || (representation === rawRepresentation && storedBytes !== byteLength)) throw corrupt(pack, `places the object ${id} where it cannot be`);
  if (kind !== "tensor") return { id, kind, representation, offset, storedBytes, byteLength };
  const shape = Array.from({ length: rank }, (_, i) => Number(view.getBigUint64(at + entryFixedBytes + 8 * i, true)));
  const header: TensorHeader = { dtype: dtypeOfCode(bytes[at + 2] as number), shape };
  if (tensorByteLength(header.dtype, shape) !== byteLength) throw corrupt(pack, `gives the tensor ${id} a shape that does not fit its bytes`);
  return { id, kind, representation, header, offset, storedBytes, byteLength };
}

/** Entries of an index whose hash has been compared with the trailer. `indexOffset` is where the index begins in the pack. @throws PACK_CORRUPT, PACK_FORMAT_UNKNOWN, DTYPE_UNKNOWN, SHAPE_INVALID */
export function decodePackIndex(index: Uint8Array, indexOffset: number, pack: string): PackEntry[] {
  const entries: PackEntry[] = [];
  for (let at = 0; at < index.length;) {
    if (at + entryFixedBytes > index.length) throw corrupt(pack, "has an index that ends in the middle of an entry");
    const entry = decodeEntry(index, at, indexOffset, pack);
    entries.push(entry);
    at += indexEntryBytes(entry);
  }
  return entries;
}

/** Checks an index against what its pack is called and what the trailer says, then reads it. */
export function readPackIndex(index: Uint8Array, trailer: Pick<PackTrailer, "indexOffset" | "entries" | "indexHash">, pack: string): PackEntry[] {
  const hash = sha256(index);
  if (hash !== trailer.indexHash || hash !== pack.slice(0, 64)) throw corrupt(pack, "has a damaged index");
  const entries = decodePackIndex(index, trailer.indexOffset, pack);
  if (entries.length !== trailer.entries) throw corrupt(pack, `has ${entries.length} index entries where its trailer says ${trailer.entries}`);
  return entries;
}
