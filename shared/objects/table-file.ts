/**
 * The table of objects in a file, so that opening a store of many packs does not build it from their indexes, and
 * memory has only what is new. Disposable: packs are immutable and named after their content, so what it states of a
 * pack that is there holds. Packs that came since are added to it, those that are gone are taken out.
 *
 * Format 2, all numbers little-endian: "STEMTABL", format u32, zeros up to 4096; the pages of rows (sorted-rows.ts);
 * the end. The end: rows u32, epoch u32, objects in low files u32, cache files u32, packs u32; per cache file: name
 * (32 bytes of ASCII, padded with zeros), bytes u64; per pack, by whose places the rows name them: name (81 bytes),
 * size u64, index bytes u32, entries u32, format u32, number of its cache file u32 (2^32 - 1: it is in none; 2^32 -
 * 2: its index is here), offset in it u64, CRC-32 of each part of its index u32, its index where it is here; the
 * first tag of each page u32; the offset of the end u64, and the SHA-256 of the end up to here.
 */
import { join } from "node:path";
import { nextTurn } from "../concurrency/in-steps.js";
import { isStemmaError } from "../errors.js";
import { replaceDurably, temporarySuffix } from "../files/durable-write.js";
import type { Files, FilesToReadNow, FileToReadNow, OpenFile } from "../ports.js";
import { Sha256 } from "../tensor/hash.js";
import { CompactPack } from "./compact-pack.js";
import { isCached, type CacheFile } from "./index-cache.js";
import { ObjectIndex, type IndexToKeep } from "./object-index.js";
import { packFormats } from "./pack-entry.js";
import {
  pageBytes,
  PageWriter,
  rowsPerPage,
  SortedRows,
  type DamagedTable,
  type SortedPages,
} from "./sorted-rows.js";

const fileName = "table";
const magic = "STEMTABL";
const fileFormat = 2;
const cacheFileNameBytes = 32;
const packNameBytes = 81;
const inNoFile = 0xffffffff;
const isHere = 0xfffffffe;
/** The offset of the end, and the hash. */
const lastBytes = 8 + 32;
/** Pages that are written at once. */
const pagesAtOnce = 64;

/** Makes the error that a lookup throws which finds a page damaged. */
export type OnDamage = (cause: DamagedTable) => Error;

/** The index that a table's file gives. */
export interface RestoredTable {
  readonly index: ObjectIndex;
  /** The files of the index cache, those without packs that are not as they were. */
  readonly cacheFiles: readonly CacheFile[];
}

/**
 * Writes the table of a store, beside other work, and takes its rows out of memory. Where it cannot be kept, the file
 * that is there is removed.
 * @param cacheFiles the files of the index cache; packs that are in none have their index themselves
 * @returns false: there is none, or an older one
 * @throws FILE_FAILED, DISK_FULL, and the table is in memory as before
 */
export async function writeTable(
  files: FilesToReadNow,
  folder: string,
  index: ObjectIndex,
  { cacheFiles, onDamage }: { readonly cacheFiles: readonly CacheFile[]; readonly onDamage: OnDamage },
): Promise<boolean> {
  const path = join(folder, fileName);
  if (!index.mayBeKept) {
    await removeTable(files, folder);
    return false;
  }
  const made: { keeping?: IndexToKeep; pages?: SortedPages } = {};
  let rows: SortedRows | undefined;
  try {
    await replaceDurably(files, path, async (file) => {
      // Not before there is a file: who only reads, or has a full disk, does no work for it.
      made.keeping = begunKeeping(index);
      made.pages = await writeRows(file, made.keeping);
      await file.write(encodeEnd(made.keeping, made.pages, cacheFiles), endOf(made.pages));
    });
    rows = new SortedRows(files.openNow(path), made.pages as SortedPages, onDamage);
    if (!index.keep(rows)) rows.close();
    return true;
  } catch (error) {
    if (made.keeping !== undefined) index.abandon();
    rows?.close();
    if (!(error instanceof CannotBeKept)) throw error;
    return false;
  }
}

/**
 * Takes the rows of an index that is being filled out of memory, into a file without a name: it has none of what a
 * start from it would have to know.
 * @returns false where the file cannot be written, and the table is in memory as before
 */
export async function writeUnnamedTable(
  files: FilesToReadNow,
  folder: string,
  index: ObjectIndex,
  onDamage: OnDamage,
): Promise<boolean> {
  // A start removes what a process that was killed left.
  const path = join(folder, `rows${temporarySuffix}`);
  let rows: SortedRows | undefined;
  const keeping = index.beginKeeping();
  try {
    await files.remove(path);
    const file = await files.open(path, "create");
    let pages: SortedPages;
    try {
      pages = await writeRows(file, keeping);
    } finally {
      await file.close();
    }
    rows = new SortedRows(files.openNow(path), pages, onDamage);
    await files.remove(path);
    index.keep(rows);
    return true;
  } catch (error) {
    index.abandon();
    rows?.close();
    await files.remove(path).catch(() => undefined);
    if (!isStemmaError(error)) throw error;
    return false;
  }
}

/** The index changed since it was asked whether it may be kept. */
class CannotBeKept extends Error {}

function begunKeeping(index: ObjectIndex): IndexToKeep {
  if (!index.mayBeKept) throw new CannotBeKept();
  return index.beginKeeping();
}

export async function removeTable(files: Files, folder: string): Promise<void> {
  await files.remove(join(folder, fileName));
}

async function writeRows(file: OpenFile, { rows, size }: IndexToKeep): Promise<SortedPages> {
  const head = Buffer.alloc(pageBytes);
  head.write(magic, "latin1");
  head.writeUInt32LE(fileFormat, magic.length);
  const writer = new PageWriter();
  let written: Buffer[] = [head];
  let at = 0;
  const flush = async (): Promise<void> => {
    const bytes = Buffer.concat(written);
    written = [];
    await file.write(bytes, at);
    at += bytes.length;
    await nextTurn();
  };
  for (const row of rows) {
    const page = writer.add(row);
    if (page === undefined) continue;
    written.push(page);
    if (written.length >= pagesAtOnce) await flush();
  }
  const last = writer.end();
  if (last !== undefined) written.push(last);
  await flush();
  if (writer.rows !== size) throw new RangeError(`The table has ${writer.rows} rows in place of ${size}.`);
  return { from: pageBytes, rows: size, firstTags: writer.firstTags };
}

function endOf({ from, firstTags }: SortedPages): number {
  return from + firstTags.length * pageBytes;
}

interface InCacheFile {
  readonly file: number;
  readonly offset: number;
}

function encodeEnd(
  { packs, epoch, lowCount }: IndexToKeep,
  pages: SortedPages,
  cacheFiles: readonly CacheFile[],
): Buffer {
  const places = new Map<string, InCacheFile>();
  for (const [file, { packs, offsets }] of cacheFiles.entries())
    for (const [i, name] of packs.entries()) places.set(name, { file, offset: offsets[i] as number });
  const parts = [numbersOf(pages.rows, epoch, lowCount, cacheFiles.length, packs.length)];
  for (const { name, bytes } of cacheFiles) {
    const part = Buffer.alloc(cacheFileNameBytes + 8);
    part.write(name, "latin1");
    part.writeBigUInt64LE(BigInt(bytes), cacheFileNameBytes);
    parts.push(part);
  }
  // A pack that came after the cache was written may be merged before the next table is.
  for (const pack of packs)
    parts.push(
      encodePack(pack, places.get(pack.name) ?? { file: isCached(pack) ? isHere : inNoFile, offset: 0 }),
    );
  parts.push(Buffer.from(pages.firstTags.buffer));
  const offset = Buffer.alloc(8);
  offset.writeBigUInt64LE(BigInt(endOf(pages)));
  parts.push(offset);
  const end = Buffer.concat(parts);
  return Buffer.concat([end, hashOf(end)]);
}

function numbersOf(...numbers: readonly number[]): Buffer {
  return Buffer.from(Uint32Array.from(numbers).buffer);
}

function hashOf(bytes: Uint8Array): Uint8Array {
  return new Sha256().update(bytes).digestBytes();
}

function encodePack(pack: CompactPack, { file, offset }: InCacheFile): Buffer {
  const head = Buffer.alloc(packNameBytes + 8);
  head.write(pack.name, "latin1");
  head.writeBigUInt64LE(BigInt(pack.bytes), packNameBytes);
  const place = Buffer.alloc(8);
  place.writeBigUInt64LE(BigInt(offset));
  const numbers = numbersOf(pack.indexBytes, pack.count, pack.format, file);
  const checks = numbersOf(...Array.from(pack.checks));
  return Buffer.concat([head, numbers, place, checks, ...(file === isHere ? [pack.index] : [])]);
}

/**
 * Reads the table, with packs whose indexes are not in memory and have no source yet. Packs of it may be gone.
 * @param present names of the files in the folder
 * @param isCacheFile true for names of the index cache
 * @returns undefined where there is none that holds
 */
export async function readTable(
  files: FilesToReadNow,
  folder: string,
  { present, isCacheFile, onDamage }: ReadTableOptions,
): Promise<RestoredTable | undefined> {
  if (!present.includes(fileName)) return undefined;
  let file: FileToReadNow | undefined;
  try {
    file = files.openNow(join(folder, fileName));
    const { rows, cacheFiles, ...beside } = decodeTable(file, onDamage);
    // Who only reads cannot replace a damaged table, so it looks at all of it before it relies on it.
    if (files.writer === undefined) await rows.verify();
    const sizes = new Map<string, number | undefined>();
    for (const name of present.filter(isCacheFile))
      sizes.set(name, (await files.stat(join(folder, name)))?.size);
    const asTheyWere = new Map(
      cacheFiles.filter(({ name, bytes }) => sizes.get(name) === bytes).map((each) => [each.name, each]),
    );
    return {
      index: new ObjectIndex({ rows, ...beside }),
      cacheFiles: [...sizes.keys()].map(
        (name) => asTheyWere.get(name) ?? { name, bytes: 0, packs: [], offsets: [] },
      ),
    };
  } catch {
    file?.close();
    return undefined;
  }
}

export interface ReadTableOptions {
  readonly present: readonly string[];
  readonly isCacheFile: (name: string) => boolean;
  readonly onDamage: OnDamage;
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
  u32s(length: number): Uint32Array<ArrayBuffer> {
    const numbers = new Uint32Array(length);
    const bytes = this.bytes.subarray(this.#at, (this.#at += 4 * length));
    new Uint8Array(numbers.buffer).set(bytes);
    return numbers;
  }
  bytesOf(length: number): Buffer {
    return this.bytes.subarray(this.#at, (this.#at += length));
  }
  get isAtEnd(): boolean {
    return this.#at === this.bytes.length;
  }
}

interface DecodedTable {
  readonly rows: SortedRows;
  readonly packs: readonly CompactPack[];
  readonly epoch: number;
  readonly lowCount: number;
  readonly cacheFiles: readonly CacheFile[];
}

/** @throws where it is no whole table of this format */
function decodeTable(file: FileToReadNow, onDamage: OnDamage): DecodedTable {
  const size = file.size();
  const head = bytesOf(file, 0, magic.length + 4);
  if (head.toString("latin1", 0, magic.length) !== magic || head.readUInt32LE(magic.length) !== fileFormat)
    throw new RangeError("The table is of another format.");
  const from = new Reader(bytesOf(file, size - lastBytes, lastBytes)).u64();
  const whole = bytesOf(file, from, size - from);
  const end = whole.subarray(0, -32);
  if (!whole.subarray(-32).equals(hashOf(end))) throw new RangeError("The end of the table is damaged.");
  const reader = new Reader(end.subarray(0, -8));
  const rows = reader.u32();
  const epoch = reader.u32();
  const lowCount = reader.u32();
  const cacheFileCount = reader.u32();
  const packCount = reader.u32();
  const cacheFiles = Array.from({ length: cacheFileCount }, () => ({
    name: reader.text(cacheFileNameBytes).replace(/\0+$/u, ""),
    bytes: reader.u64(),
    packs: [] as string[],
    offsets: [] as number[],
  }));
  const packs = Array.from({ length: packCount }, () => {
    const { pack, file, offset } = readPack(reader);
    cacheFiles[file]?.packs.push(pack.name);
    cacheFiles[file]?.offsets.push(offset);
    return pack;
  });
  const pages = { from: pageBytes, rows, firstTags: reader.u32s(Math.ceil(rows / rowsPerPage)) };
  if (!reader.isAtEnd || endOf(pages) !== from) throw new RangeError("The table has another length.");
  return { rows: new SortedRows(file, pages, onDamage), packs, epoch, lowCount, cacheFiles };
}

function bytesOf(file: FileToReadNow, from: number, length: number): Buffer {
  const bytes = Buffer.alloc(Math.max(0, length));
  if (from < 0 || file.read(bytes, from) !== bytes.length) throw new RangeError("The table ends early.");
  return bytes;
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
  const checks = reader.u32s(CompactPack.partsOf(indexBytes));
  // A copy, so that the bytes around it need not stay.
  const index = file === isHere ? Buffer.from(reader.bytesOf(indexBytes)) : undefined;
  const pack =
    index === undefined
      ? new CompactPack({ name, bytes, index: { length: indexBytes, checks }, format, count })
      : new CompactPack({ name, bytes, index, format, count });
  return { pack, file, offset };
}
