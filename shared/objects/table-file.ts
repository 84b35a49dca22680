/**
 * The table of objects in a file, so that opening a store of many packs does not make it anew from their indexes.
 * Disposable, as the index cache, whose files it names: it holds as long as these and all its packs are there as they
 * were. Packs that came since are added to it.
 *
 * Format 1, all numbers little-endian: "STEMTABL", format u32, spread u32, used slots u32, objects u32, slots u32,
 * epoch u32, objects in low files u32, cache files u32, packs u32; per cache file: name (32 bytes of ASCII, padded with
 * zeros), bytes u64; per pack, in the order of their numbers: name (81 bytes), size u64, index bytes u32, entries u32,
 * format u32, number of its cache file u32, offset in it u64, CRC-32 of each part of its index u32; then of all slots
 * pack u32, position u32, tag u32, count u32; at the end the SHA-256 of everything before it.
 */
import { join } from "node:path";
import { writeDurably } from "../files/durable-write.js";
import type { Files } from "../ports.js";
import { Sha256 } from "../tensor/hash.js";
import { CompactPack } from "./compact-pack.js";
import type { CacheFile } from "./index-cache.js";
import { ObjectIndex, type SavedIndex } from "./object-index.js";
import { packFormats } from "./pack-entry.js";

const fileName = "table";
const magic = "STEMTABL";
const fileFormat = 1;
const headBytes = 44;
const cacheFileNameBytes = 32;
const cacheFileBytes = cacheFileNameBytes + 8;
const packNameBytes = 81;
const packBytes = packNameBytes + 32;
const hashBytes = 32;
/** A larger table is not kept: it would have to be in memory twice while it is read. */
const maxTableBytes = 1024 * 1024 * 1024;

/** The index that a table's file gives. */
export interface RestoredTable {
  readonly index: ObjectIndex;
  readonly cacheFiles: readonly CacheFile[];
}

/**
 * Writes the table of a store whose indexes are in these files. Where the table cannot be kept, the file that is there
 * is removed. @throws FILE_FAILED, DISK_FULL
 */
export async function writeTable(
  files: Files,
  folder: string,
  index: ObjectIndex,
  cacheFiles: readonly CacheFile[],
): Promise<void> {
  const saved = index.saved();
  const bytes = saved && encodeTable(saved, cacheFiles);
  const path = join(folder, fileName);
  if (bytes === undefined) await files.remove(path);
  else await writeDurably(files, path, bytes);
}

interface InCacheFile {
  readonly file: number;
  readonly offset: number;
}

function encodeTable(saved: SavedIndex, cacheFiles: readonly CacheFile[]): Buffer | undefined {
  const places = new Map<string, InCacheFile>();
  for (const [file, { packs, offsets }] of cacheFiles.entries())
    for (const [i, name] of packs.entries()) places.set(name, { file, offset: offsets[i] as number });
  const parts: Buffer[] = [headOf(saved, cacheFiles.length)];
  for (const { name, bytes } of cacheFiles) {
    const part = Buffer.alloc(cacheFileBytes);
    part.write(name, "latin1");
    part.writeBigUInt64LE(BigInt(bytes), cacheFileNameBytes);
    parts.push(part);
  }
  for (const pack of saved.table.packs) {
    const place = places.get(pack.name);
    if (place === undefined) return undefined;
    parts.push(encodePack(pack, place));
  }
  const { packOf, at, tag, count } = saved.table;
  for (const { buffer, byteOffset, byteLength } of [packOf, at, tag, count])
    parts.push(Buffer.from(buffer, byteOffset, byteLength));
  const bytes = parts.reduce((sum, { length }) => sum + length, 0);
  if (bytes > maxTableBytes) return undefined;
  const whole = Buffer.concat(parts, bytes + hashBytes);
  whole.set(hashOf(whole.subarray(0, bytes)), bytes);
  return whole;
}

function hashOf(bytes: Uint8Array): Uint8Array {
  return new Sha256().update(bytes).digestBytes();
}

function headOf({ table, epoch, lowCount }: SavedIndex, cacheFiles: number): Buffer {
  const head = Buffer.alloc(headBytes);
  head.write(magic, "latin1");
  const numbers = [
    fileFormat,
    table.spread,
    table.used,
    table.size,
    table.packOf.length,
    epoch,
    lowCount,
    cacheFiles,
    table.packs.length,
  ];
  numbers.forEach((number, i) => head.writeUInt32LE(number, 8 + 4 * i));
  return head;
}

function encodePack(pack: CompactPack, { file, offset }: InCacheFile): Buffer {
  const { checks } = pack;
  const part = Buffer.alloc(packBytes + 4 * checks.length);
  part.write(pack.name, "latin1");
  part.writeBigUInt64LE(BigInt(pack.bytes), packNameBytes);
  part.writeUInt32LE(pack.indexBytes, packNameBytes + 8);
  part.writeUInt32LE(pack.count, packNameBytes + 12);
  part.writeUInt32LE(pack.format, packNameBytes + 16);
  part.writeUInt32LE(file, packNameBytes + 20);
  part.writeBigUInt64LE(BigInt(offset), packNameBytes + 24);
  for (let i = 0; i < checks.length; i++) part.writeUInt32LE(checks[i] as number, packBytes + 4 * i);
  return part;
}

/**
 * Reads the table, with packs whose indexes are not in memory and have no source yet.
 * @param present names of the files in the folder
 * @param isCacheFile true for names of the index cache
 * @returns undefined where there is none that holds
 */
export async function readTable(
  files: Files,
  folder: string,
  present: readonly string[],
  isCacheFile: (name: string) => boolean,
): Promise<RestoredTable | undefined> {
  if (!present.includes(fileName)) return undefined;
  try {
    const names = new Set(present);
    const restored = decodeTable(await files.read(join(folder, fileName)), (name) => names.has(name));
    if (restored === undefined || present.filter(isCacheFile).length !== restored.cacheFiles.length)
      return undefined;
    for (const { name, bytes } of restored.cacheFiles)
      if ((await files.stat(join(folder, name)))?.size !== bytes) return undefined;
    return restored;
  } catch {
    return undefined;
  }
}

/** Reads numbers and names one after the other. */
class Reader {
  #at = 0;
  constructor(private readonly bytes: Buffer) {}
  text(length: number): string {
    return this.bytes.toString("latin1", this.#at, (this.#at += length));
  }
  u32(): number {
    return this.bytes.readUInt32LE((this.#at += 4) - 4);
  }
  /** Less than 2^53. */
  u64(): number {
    return this.u32() + this.u32() * 2 ** 32;
  }
  /** A copy, so that the file's bytes need not stay. */
  u32s(length: number): Uint32Array<ArrayBuffer> {
    const from = this.#at;
    this.#at += 4 * length;
    if (this.#at > this.bytes.length) throw new RangeError("The table ends early.");
    const numbers = new Uint32Array(length);
    new Uint8Array(numbers.buffer).set(this.bytes.subarray(from, this.#at));
    return numbers;
  }
}

function decodeTable(read: Uint8Array, isThere: (name: string) => boolean): RestoredTable | undefined {
  if (read.length < headBytes + hashBytes) return undefined;
  const bytes = Buffer.from(read.buffer, read.byteOffset, read.length - hashBytes);
  if (!Buffer.from(read.buffer, read.byteOffset + bytes.length, hashBytes).equals(hashOf(bytes)))
    return undefined;
  const reader = new Reader(bytes);
  if (reader.text(8) !== magic || reader.u32() !== fileFormat) return undefined;
  const spread = reader.u32();
  const used = reader.u32();
  const size = reader.u32();
  const slots = reader.u32();
  const epoch = reader.u32();
  const lowCount = reader.u32();
  const cacheFiles = reader.u32();
  const packCount = reader.u32();
  const named = Array.from({ length: cacheFiles }, () => ({
    name: reader.text(cacheFileNameBytes).replace(/\0+$/u, ""),
    bytes: reader.u64(),
    packs: [] as string[],
    offsets: [] as number[],
  }));
  const packs: CompactPack[] = [];
  for (let i = 0; i < packCount; i++) {
    const { pack, file, offset } = readPack(reader);
    const cacheFile = named[file];
    if (cacheFile === undefined || !isThere(`${pack.name}.pack`)) return undefined;
    cacheFile.packs.push(pack.name);
    cacheFile.offsets.push(offset);
    packs.push(pack);
  }
  const packOf = reader.u32s(slots);
  const at = reader.u32s(slots);
  const tag = reader.u32s(slots);
  const count = reader.u32s(slots);
  const table = { spread, used, size, packs, packOf, at, tag, count };
  return { index: new ObjectIndex({ table, epoch, lowCount }), cacheFiles: named };
}

function readPack(reader: Reader): { readonly pack: CompactPack } & InCacheFile {
  const name = reader.text(packNameBytes);
  const bytes = reader.u64();
  const indexBytes = reader.u32();
  const count = reader.u32();
  const formatNumber = reader.u32();
  const file = reader.u32();
  const offset = reader.u64();
  const format = packFormats.find((each) => each === formatNumber);
  if (format === undefined) throw new RangeError("The table has a pack of an unknown format.");
  const checks = Array.from({ length: CompactPack.partsOf(indexBytes) }, () => reader.u32());
  return {
    pack: new CompactPack({ name, bytes, index: { length: indexBytes, checks }, format, count }),
    file,
    offset,
  };
}
