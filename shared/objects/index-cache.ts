/**
 * The indexes of packs in a few files, so that opening a store of many packs reads those instead of all of them.
 * Disposable: packs are immutable and named after their content, so a cached index is valid as long as its pack
 * exists; a damaged or missing file only costs time. Large packs of very many small objects are not in it.
 *
 * Format 2: "STEMINDX", format u32, packs u32; per pack: name (81 bytes of ASCII), size u64, index bytes
 * u32, entries u32, the pack's format u32, index; at the end the SHA-256 of everything before it.
 */
import { hexOf, Sha256, sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { isStemmaError } from "../errors.js";
import { cachedPack, type CompactPack } from "./compact-pack.js";
import { packFormats } from "./pack-entry.js";
import { isPackName, smallPackBytes } from "./pack-format.js";

const utf8 = new TextEncoder();
const magic = "STEMINDX";
const cacheFormat = 2;
const nameBytes = 81;
const packFixedBytes = nameBytes + 20;
const cacheStartBytes = 16;
/** The most that one file has, unless a single pack has more. */
export const maxCacheBytes = 128 * 1024 * 1024;

/** A file of the index cache, as it was read or written. */
export interface CacheFile {
  readonly name: string;
  readonly bytes: number;
  /** Names of the packs in it that existed then. */
  readonly packs: readonly string[];
  /** The offset of each pack's index in the file. */
  readonly offsets: readonly number[];
}

/** The share of a large pack that a cached index may have, as a divisor. */
const leastPackPerIndex = 16;

/**
 * True if a cache file has the pack's index: not that of a large pack of very many small objects. There are few of
 * these, and their index would be on the disk twice.
 */
export function isCached({ bytes, indexBytes }: Pick<CompactPack, "bytes" | "indexBytes">): boolean {
  return bytes < smallPackBytes || indexBytes * leastPackPerIndex <= bytes;
}

/** Bytes that a pack takes in a cache file. */
export function cachedBytes({ indexBytes }: Pick<CompactPack, "indexBytes">): number {
  return packFixedBytes + indexBytes;
}

/** The offset of each pack's index in the file that `encodeIndexCache` makes of them. */
export function indexOffsets(packs: readonly CompactPack[]): readonly number[] {
  let end = cacheStartBytes;
  return packs.map((pack) => {
    end += cachedBytes(pack);
    return end - pack.indexBytes;
  });
}

export function encodeIndexCache(packs: Iterable<CompactPack>): Uint8Array {
  const parts: Uint8Array[] = [];
  let count = 0;
  for (const pack of packs) {
    const { index } = pack;
    const head = new Uint8Array(packFixedBytes);
    const view = new DataView(head.buffer);
    utf8.encodeInto(pack.name, head);
    view.setBigUint64(nameBytes, BigInt(pack.bytes), true);
    view.setUint32(nameBytes + 8, index.length, true);
    view.setUint32(nameBytes + 12, pack.count, true);
    view.setUint32(nameBytes + 16, pack.format, true);
    parts.push(head, index);
    count++;
  }
  const start = new Uint8Array(cacheStartBytes);
  utf8.encodeInto(magic, start);
  const view = new DataView(start.buffer);
  view.setUint32(8, cacheFormat, true);
  view.setUint32(12, count, true);
  // A call takes some 60,000 arguments, and a store has more packs.
  const hash = new Sha256().update(start);
  for (const part of parts) hash.update(part);
  return Buffer.concat([start, ...parts, hash.digestBytes()]);
}

/** Returns the cached packs whose names are in `wanted`, by name; an empty map where the file is damaged. */
export function decodeIndexCache(bytes: Uint8Array, wanted: ReadonlySet<string>): Map<string, CompactPack> {
  const packs = new Map<string, CompactPack>();
  const text = new TextDecoder();
  if (bytes.length < 48 || text.decode(bytes.subarray(0, 8)) !== magic) return packs;
  const end = bytes.length - 32;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const expectedHash: Hash = hexOf(bytes.subarray(end));
  if (view.getUint32(8, true) !== cacheFormat || sha256(bytes.subarray(0, end)) !== expectedHash)
    return packs;
  for (let at = cacheStartBytes; at + packFixedBytes <= end;) {
    const name = text.decode(bytes.subarray(at, at + nameBytes));
    const packBytes = Number(view.getBigUint64(at + nameBytes, true));
    const indexBytes = view.getUint32(at + nameBytes + 8, true);
    const from = at + packFixedBytes;
    const format = view.getUint32(at + nameBytes + 16, true);
    const known = packFormats.find((each) => each === format);
    if (!isPackName(name) || from + indexBytes > end || known === undefined) return new Map();
    if (wanted.has(name)) {
      const index = bytes.subarray(from, from + indexBytes);
      const count = view.getUint32(at + nameBytes + 12, true);
      try {
        packs.set(name, cachedPack({ name, bytes: packBytes, index, format: known, count }));
      } catch (error) {
        if (!isStemmaError(error, "PACK_CORRUPT")) throw error;
        return new Map();
      }
    }
    at = from + indexBytes;
  }
  return packs;
}
