/**
 * The index of one pack as its bytes, from which entries are decoded when they are asked for: a store has millions of
 * them, and as objects they would fill the heap. Entries are addressed by their position, the offset of their first
 * byte in the index. Where a file has the index too, its bytes need not stay in memory.
 */
import { crc32 } from "node:zlib";
import { hexOf } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { packCorrupt } from "./object-errors.js";
import {
  decodeEntry,
  entryBytesAt,
  hasLowPartAt,
  encodedEntrySize,
  entrySize,
  hasReferencesAt,
  packFormatOf,
  rawEncodingCode,
  type EntrySize,
  type IndexOrigin,
  type PackEntry,
  type PackFormat,
} from "./pack-entry.js";
import { encodePackIndex, packHeaderBytes, packTrailerBytes, type PackIndex } from "./pack-format.js";

/** A part of a pack's index that is not in memory. */
export interface IndexPart {
  readonly pack: CompactPack;
  /** The name under which the part is kept; undefined: it is not. */
  readonly key: number | undefined;
  /** The offset of the part in the index. */
  readonly from: number;
  readonly bytes: number;
  /** The offset of the index in the source. */
  readonly offset: number;
  /** True if these are the bytes that were left to the source. */
  readonly isIntact: (bytes: Buffer) => boolean;
}

/** Reads the indexes of packs that are not in memory. */
export interface IndexSource {
  /** A part that was read before and is kept. */
  kept(key: number): Buffer | undefined;
  /** @throws PACK_CORRUPT, FILE_FAILED */
  read(part: IndexPart): Buffer;
}

/** A part of an index begins at each multiple of this. */
const partBytes = 64 * 1024;
/** A part has the whole of each entry that begins in it; an entry takes less than this. */
const overlapBytes = 4096;
/** More parts than the largest index has. */
const partsOfAPack = 8192;
let packsSoFar = 0;

/** Bytes of an index in which an entry begins at `at`. */
export interface EntryBytes {
  readonly bytes: Buffer;
  readonly at: number;
}

/** The parts of a pack as it is on the disk. */
export interface PackParts {
  readonly name: string;
  /** Size of the pack file. */
  readonly bytes: number;
  /** The encoded index, whose entries were decoded once: they are valid. */
  readonly index: Uint8Array;
  readonly format: PackFormat;
  /** The number of objects. */
  readonly count: number;
}

/** A pack whose index was valid when its checks were kept. It has to be left to a source before it is used. */
export interface PackElsewhere extends Omit<PackParts, "index"> {
  /** The size of the index, and the CRC-32 of each of its parts. */
  readonly index: { readonly length: number; readonly checks: ArrayLike<number> };
}

export class CompactPack implements PackIndex, PackParts {
  readonly name: string;
  readonly bytes: number;
  readonly indexBytes: number;
  readonly format: PackFormat;
  readonly count: number;
  readonly #origin: IndexOrigin;
  /** The index; undefined: its source reads it. */
  #index: Buffer | undefined;
  #source: IndexSource | undefined;
  #offset = 0;
  /** The first of the keys of its parts. */
  readonly #firstKey = packsSoFar++ * partsOfAPack;
  /** CRC-32 of each part; empty while the index is in memory. */
  #checks: ArrayLike<number> = [];

  constructor({ name, bytes, index, format, count }: PackParts | PackElsewhere) {
    this.name = name;
    this.bytes = bytes;
    this.indexBytes = index.length;
    if (index instanceof Uint8Array) this.#index = Buffer.from(index.buffer, index.byteOffset, index.length);
    else this.#checks = index.checks;
    this.format = format;
    this.count = count;
    // Packs in memory have neither header nor trailer.
    this.#origin = { pack: name, format, objectsStart: 0, objectsEnd: Number.MAX_SAFE_INTEGER };
  }

  static of(pack: PackIndex): CompactPack {
    if (pack instanceof CompactPack) return pack;
    const { name, bytes, entries } = pack;
    const format = packFormatOf(entries);
    return new CompactPack({ name, bytes, index: encodePackIndex(entries), format, count: entries.length });
  }

  /** The encoded index. @throws PACK_CORRUPT, FILE_FAILED where it is not in memory and cannot be read */
  get index(): Buffer {
    return this.#index ?? this.#read();
  }
  /** CRC-32 of each part of the index, of which there are `partsOf`. */
  get checks(): ArrayLike<number> {
    return this.#index === undefined ? this.#checks : this.#checksOf(this.#index);
  }
  /** The number of parts of an index of so many bytes. */
  static partsOf(indexBytes: number): number {
    return Math.ceil(indexBytes / partBytes);
  }
  get isInMemory(): boolean {
    return this.#index !== undefined;
  }
  /** Leaves the index to a source that has it at this offset. */
  leaveTo(source: IndexSource, offset: number): void {
    if (this.#index !== undefined) this.#checks = this.#checksOf(this.#index);
    this.#index = undefined;
    this.#source = source;
    this.#offset = offset;
  }

  #checksOf(index: Buffer): readonly number[] {
    return Array.from({ length: CompactPack.partsOf(this.indexBytes) }, (_, part) =>
      crc32(index.subarray(part * partBytes, this.#endOf(part))),
    );
  }
  #endOf(part: number): number {
    return Math.min(this.indexBytes, (part + 1) * partBytes + overlapBytes);
  }

  #read(part?: number): Buffer {
    const from = (part ?? 0) * partBytes;
    return (this.#source as IndexSource).read({
      pack: this,
      key: part === undefined ? undefined : this.#firstKey + part,
      from,
      bytes: (part === undefined ? this.indexBytes : this.#endOf(part)) - from,
      offset: this.#offset,
      isIntact: (bytes) =>
        part === undefined
          ? this.#checksOf(bytes).every((check, each) => check === this.#checks[each])
          : crc32(bytes) === this.#checks[part],
    });
  }

  /** The bytes of an entry. @throws PACK_CORRUPT, FILE_FAILED where they are not in memory and cannot be read */
  entryBytes(at: number): EntryBytes {
    if (this.#index !== undefined) return { bytes: this.#index, at };
    const part = Math.floor(at / partBytes);
    const bytes = this.#source?.kept(this.#firstKey + part) ?? this.#read(part);
    return { bytes, at: at % partBytes };
  }

  /** All entries, decoded at each use. */
  get entries(): readonly PackEntry[] {
    return Array.from(this.positions(), (at) => this.entryAt(at));
  }

  *positions(): Iterable<number> {
    for (let at = 0; at < this.indexBytes; at = this.after(at)) yield at;
  }

  /** The position behind an entry. */
  after(at: number): number {
    const entry = this.entryBytes(at);
    return at + entryBytesAt(entry.bytes, entry.at, this.format);
  }

  entryAt(at: number): PackEntry {
    const entry = this.entryBytes(at);
    return decodeEntry(entry.bytes, entry.at, this.#origin);
  }

  /** The bytes that the object of an entry takes in a pack. */
  sizeAt(at: number): EntrySize {
    const entry = this.entryBytes(at);
    return encodedEntrySize(entry.bytes, entry.at, this.format) ?? entrySize(this.entryAt(at));
  }

  /** The entries with low-order bytes in a low file. */
  lowEntries(): readonly PackEntry[] {
    return this.format === 3 ? this.entries.filter(({ low }) => low !== undefined) : [];
  }

  epochAt(at: number): number {
    if (this.format === 1) return 0;
    const entry = this.entryBytes(at);
    return entry.bytes.readUInt32LE(entry.at + 4);
  }
  /** True if low-order bytes of the copy are in a low file. */
  hasLowAt(at: number): boolean {
    if (this.format !== 3) return false;
    const entry = this.entryBytes(at);
    return hasLowPartAt(entry.bytes, entry.at);
  }
  idAt(at: number): Hash {
    const entry = this.entryBytes(at);
    return hexOf(entry.bytes.subarray(entry.at + 8, entry.at + 40));
  }
  /** True if the entry is of the object whose id is the 32 bytes at `from`. */
  isOf(at: number, bytes: Uint8Array, from: number): boolean {
    const entry = this.entryBytes(at);
    return entry.bytes.compare(bytes, from, from + 32, entry.at + 8, entry.at + 40) === 0;
  }
  /** The first four bytes of the id, as a number. */
  tagAt(at: number): number {
    const entry = this.entryBytes(at);
    return entry.bytes.readUInt32BE(entry.at + 8);
  }
  /** True if the copy is coded against others. */
  isCodedAt(at: number): boolean {
    if (this.format === 1) return false;
    const entry = this.entryBytes(at);
    return entry.bytes[entry.at + 1] !== rawEncodingCode && hasReferencesAt(entry.bytes, entry.at);
  }
}

/** A copy of an object in a pack. */
export interface Located {
  readonly pack: CompactPack;
  readonly entry: PackEntry;
}

/** True if both entries are of the same copy in one pack. */
export function isSameEntry(a: PackEntry, b: PackEntry): boolean {
  return a.id === b.id && a.offset === b.offset && a.epoch === b.epoch && a.storedBytes === b.storedBytes;
}

export function isSameCopy(a: Located, b: Located | undefined): boolean {
  return b !== undefined && a.pack.name === b.pack.name && isSameEntry(a.entry, b.entry);
}

/**
 * The index of a pack from a cache: its entries are counted and their sizes followed, not decoded.
 * @throws PACK_CORRUPT where they do not fill the index
 */
export function cachedPack(parts: PackParts): CompactPack {
  const pack = new CompactPack(parts);
  const { name, bytes, index, count } = pack;
  let [at, found] = [0, 0];
  for (; at < index.length; at = pack.after(at)) found++;
  if (at !== index.length || found !== count || bytes < index.length + packHeaderBytes + packTrailerBytes)
    throw packCorrupt(name, "has a cached index that is not whole");
  return pack;
}
