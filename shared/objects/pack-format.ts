/**
 * The bytes of a pack (formats 1, 2 and 3). Pure: encodes and decodes, and does not access files.
 * pack-entry.ts encodes the entries of the index.
 *
 *     header    32 bytes: "STEMPACK", format u32, zeros
 *     objects   their stored bytes, one after the other
 *     index     one entry per object: kind u8, encoding code u8, dtype u8, rank u8, zeros u32, id,
 *               offset u64, stored bytes u64, bytes u64, dimensions u64 × rank
 *               Format 2: an epoch u32 in place of the zeros; before the dimensions: references u8 (1: base,
 *               3: base and previous; one more bit for
 *               each further one, up to 8), number of plane checks u8, zeros (6 bytes); after the dimensions:
 *               ids of the references, plane checks of 8 bytes each: the first bytes of the SHA-256 over the
 *               stored bytes that hold the first 1, 2, … byte planes
 *               Format 3: after the number of plane checks, 1 where a low part follows the checks, else 0; the
 *               low part names the file that has the end of the stored bytes (tiers/low-part.ts)
 *     trailer   64 bytes: index offset u64, index bytes u64, entries u32, format u32, SHA-256 of the index,
 *               "STEMPEND"
 *
 * A pack's name is the SHA-256 of its index, a dot and 16 random hexadecimal digits. The hash identifies the
 * pack's objects and their offsets. The digits distinguish a pack that is being deleted from a new one with
 * the same objects. A pack whose objects are all raw and of epoch 0 has format 1, which every Stemma reads; one
 * with a low part has format 3.
 * (docs/formats.md, "Pack")
 */
import { hashBytes, hexOf, sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { packCorrupt, packOfNewer } from "./object-errors.js";
import {
  bytesInPack,
  decodeEntry,
  encodeEntry,
  entryFixedBytes,
  indexEntryBytes,
  packFormatOf,
  packFormats,
  type EntryShape,
  type EntrySize,
  type IndexOrigin,
  type PackEntry,
  type PackFormat,
} from "./pack-entry.js";

/** Packs below this size are merged. */
export const smallPackBytes = 2 * 1024 * 1024;
export const packHeaderBytes = 32;
export const packTrailerBytes = 64;
/** Largest index that is read: more than a million objects. */
export const maxIndexBytes = 256 * 1024 * 1024;

const namePattern = /^[0-9a-f]{64}\.[0-9a-f]{16}$/;
export function isPackName(name: string): boolean {
  return namePattern.test(name);
}
/** `unique`: 8 random bytes. */
export function packName(index: Uint8Array, unique: Uint8Array): string {
  return `${sha256(index)}.${Buffer.from(unique).toString("hex")}`;
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

export function encodePackHeader(packFormat: PackFormat): Uint8Array {
  const bytes = new Uint8Array(packHeaderBytes);
  bytes.set(headerMagic, 0);
  new DataView(bytes.buffer).setUint32(8, packFormat, true);
  return bytes;
}

/** Size of a pack that holds these objects and nothing else. */
export function packBytes(entries: readonly (EntryShape & Pick<PackEntry, "storedBytes">)[]): number {
  const format = packFormatOf(entries);
  return entries.reduce(
    (sum, entry) => sum + bytesInPack(entry) + indexEntryBytes(entry, format),
    packHeaderBytes + packTrailerBytes,
  );
}

/** Sums up `packBytes` of objects that are not all in memory. */
export class PackSum {
  /** Bytes of the objects, without the index. */
  objects = 0;
  count = 0;
  #entries = 0;
  #laterEntries = 0;
  #isLater = false;

  add({ inPack, format, entry, laterEntry }: EntrySize): void {
    this.objects += inPack;
    this.count++;
    this.#entries += entry;
    this.#laterEntries += laterEntry;
    this.#isLater ||= format !== 1;
  }
  get bytes(): number {
    return (
      packHeaderBytes + packTrailerBytes + this.objects + (this.#isLater ? this.#laterEntries : this.#entries)
    );
  }
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

/** The format in a pack's header. @throws PACK_CORRUPT, PACK_FORMAT_UNKNOWN */
export function checkPackHeader(bytes: Uint8Array, pack: string): PackFormat {
  if (bytes.length < packHeaderBytes || !startsWith(bytes, headerMagic, 0))
    throw packCorrupt(pack, "does not start like a pack");
  return checkFormat(new DataView(bytes.buffer, bytes.byteOffset).getUint32(8, true), pack);
}

function checkFormat(format: number, pack: string): PackFormat {
  const known = packFormats.find((each) => each === format);
  if (known === undefined)
    throw packOfNewer(
      pack,
      `format ${format}; this Stemma reads the formats 1 to ${packFormats.length}`,
      format,
    );
  return known;
}

/**
 * Reads a trailer and checks that it fits a file of `fileBytes`. @throws PACK_CORRUPT,
 * PACK_FORMAT_UNKNOWN
 */
export function decodePackTrailer(bytes: Uint8Array, fileBytes: number, pack: string): PackTrailer {
  if (bytes.length !== packTrailerBytes || !startsWith(bytes, trailerMagic, 56))
    throw packCorrupt(pack, "does not end like a pack");
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
    throw packCorrupt(
      pack,
      `declares an index of ${indexBytes} bytes at ${indexOffset}, which does not fit its ${fileBytes} bytes`,
    );
  return { format, indexOffset, indexBytes, entries, indexHash: hexOf(bytes.subarray(24, 56)) };
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
  return [...entriesOf(index, indexOffset, pack, format)];
}

function* entriesOf(
  index: Uint8Array,
  indexOffset: number,
  pack: string,
  format: PackFormat,
): Iterable<PackEntry> {
  const origin: IndexOrigin = {
    pack,
    format,
    objectsStart: packHeaderBytes,
    objectsEnd: indexOffset,
  };
  for (let at = 0; at < index.length;) {
    if (at + entryFixedBytes > index.length)
      throw packCorrupt(pack, "has an index that ends in the middle of an entry");
    const entry = decodeEntry(index, at, origin);
    yield entry;
    at += indexEntryBytes(entry, format);
  }
}

/**
 * Compares an index with its pack's name and trailer, and decodes each of its entries, none of which stays in memory: a
 * pack may have millions. @returns their number
 * @throws as decodePackIndex
 */
export function checkPackIndex(
  index: Uint8Array,
  trailer: Pick<PackTrailer, "format" | "indexOffset" | "entries" | "indexHash">,
  pack: string,
): number {
  const hash = sha256(index);
  if (hash !== trailer.indexHash || hash !== pack.slice(0, 64))
    throw packCorrupt(pack, "has a damaged index");
  let count = 0;
  for (const _ of entriesOf(index, trailer.indexOffset, pack, trailer.format)) count++;
  if (count !== trailer.entries)
    throw packCorrupt(pack, `has ${count} index entries where its trailer declares ${trailer.entries}`);
  return count;
}
