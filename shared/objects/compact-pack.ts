/**
 * The index of one pack as its bytes, from which entries are decoded when they are asked for: a store has millions of
 * them, and as objects they would fill the heap. Entries are addressed by their position, the offset of their first
 * byte in the index. Where a file has the index too, its bytes need not stay in memory. Pure.
 */
import { crc32 } from "node:zlib";
import { hexOf } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { packCorrupt } from "./object-errors.js";
import {
  decodeEntry,
  entryBytesAt,
  hasLowPartAt,
  hasReferencesAt,
  packFormatOf,
  rawEncodingCode,
  type IndexOrigin,
  type PackEntry,
  type PackFormat,
} from "./pack-entry.js";
import { encodePackIndex, packHeaderBytes, packTrailerBytes, type PackIndex } from "./pack-format.js";

/** Reads the indexes of packs that are not in memory. */
export interface IndexSource {
  /**
   * The index of a pack.
   * @param check the CRC-32 of its bytes
   * @throws PACK_CORRUPT, FILE_FAILED
   */
  read(pack: CompactPack, offset: number, check: number): Buffer;
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
  #check = 0;

  constructor({ name, bytes, index, format, count }: PackParts) {
    this.name = name;
    this.bytes = bytes;
    this.indexBytes = index.length;
    this.#index = Buffer.from(index.buffer, index.byteOffset, index.length);
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
    return this.#index ?? (this.#source as IndexSource).read(this, this.#offset, this.#check);
  }
  get isInMemory(): boolean {
    return this.#index !== undefined;
  }
  /** Leaves the index to a source that has it at this offset. */
  leaveTo(source: IndexSource, offset: number): void {
    if (this.#index !== undefined) this.#check = crc32(this.#index);
    this.#index = undefined;
    this.#source = source;
    this.#offset = offset;
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
    return at + entryBytesAt(this.index, at, this.format);
  }

  entryAt(at: number): PackEntry {
    return decodeEntry(this.index, at, this.#origin);
  }

  /** The entries with low-order bytes in a low file. */
  lowEntries(): readonly PackEntry[] {
    return this.format === 3 ? this.entries.filter(({ low }) => low !== undefined) : [];
  }

  epochAt(at: number): number {
    if (this.format === 1) return 0;
    const { index } = this;
    return (
      ((index[at + 4] as number) |
        ((index[at + 5] as number) << 8) |
        ((index[at + 6] as number) << 16) |
        ((index[at + 7] as number) << 24)) >>>
      0
    );
  }
  /** True if low-order bytes of the copy are in a low file. */
  hasLowAt(at: number): boolean {
    return this.format === 3 && hasLowPartAt(this.index, at);
  }
  idAt(at: number): Hash {
    return hexOf(this.index.subarray(at + 8, at + 40));
  }
  /** True if the entry is of the object whose id is the 32 bytes at `from`. */
  isOf(at: number, bytes: Uint8Array, from: number): boolean {
    return this.index.compare(bytes, from, from + 32, at + 8, at + 40) === 0;
  }
  /** The first four bytes of the id, as a number. */
  tagAt(at: number): number {
    const { index } = this;
    return (
      (((index[at + 8] as number) << 24) |
        ((index[at + 9] as number) << 16) |
        ((index[at + 10] as number) << 8) |
        (index[at + 11] as number)) >>>
      0
    );
  }
  /** True if the copy is coded against others. */
  isCodedAt(at: number): boolean {
    return this.format !== 1 && this.index[at + 1] !== rawEncodingCode && hasReferencesAt(this.index, at);
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
