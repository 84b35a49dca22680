/**
 * Fills an index with the packs of a folder, from the files of the index cache and from packs that none of these has:
 * in parts, so that memory has the indexes of some packs at a time, and rows of as many objects as the machine has room
 * for. The others go to a file without a name, which ends with the process.
 */
import { availableMemory } from "node:process";
import { join } from "node:path";
import { mapConcurrent } from "../concurrency/map-concurrent.js";
import { isStemmaError, type StemmaError } from "../errors.js";
import type { Files, FilesToReadNow } from "../ports.js";
import { CompactPack } from "./compact-pack.js";
import { decodeIndexCache, isCached, type CacheFile } from "./index-cache.js";
import type { IndexReader } from "./index-reader.js";
import type { ObjectIndex } from "./object-index.js";
import type { PackIndex } from "./pack-format.js";
import { writeUnnamedTable, type OnDamage } from "./table-file.js";

export interface FillParts {
  readonly files: Files;
  readonly folder: string;
  /** Names of the files of the index cache that are to be read. */
  readonly cacheNames: readonly string[];
  readonly readPack: (name: string) => Promise<ReadPack>;
  /** Called with the damage of a pack. */
  readonly note: (pack: string, error: StemmaError) => void;
  /** Reads indexes that are not in memory; undefined: all of them stay there. */
  readonly reading: FillReading | undefined;
  readonly onPacks?: OnPacks | undefined;
}

/** Called now and then while packs are added, with the number of those that are; ends it by throwing. */
export type OnPacks = (packs: { readonly read: number; readonly all: number }) => void;

export interface FillReading {
  readonly files: FilesToReadNow;
  readonly indexReader: IndexReader;
  readonly onDamage: OnDamage;
  /** Indexes of packs that no cache file has stay in memory up to about so many bytes. Default 16 MiB. */
  readonly mostIndexBytes?: number | undefined;
  /** Rows stay in memory up to about so many. Default: those that an eighth of the free memory holds. */
  readonly mostRows?: number | undefined;
}

export interface ReadPack {
  /** The known part of the pack: all of it unless `damage` states otherwise. */
  readonly pack: PackIndex | undefined;
  readonly damage?: StemmaError;
}

export interface Filled {
  /** The files of the index cache that were read. */
  readonly cacheFiles: readonly CacheFile[];
  /** Packs that were read themselves, and those among them that a cache file should have. */
  readonly readPacks: number;
  readonly uncachedPacks: number;
}

export const defaultMostIndexBytes = 16 * 1024 * 1024;
const maxConcurrentScans = 16;
const packsPerStep = 32;
/** Memory that a row takes, while the table of all grows. */
const bytesPerRow = 50;
const shareOfMemory = 8;
const leastRows = 2 ** 19;

/** @param names of the packs, as far as the index does not have them */
export async function fillIndex(
  index: ObjectIndex,
  names: readonly string[],
  parts: FillParts,
): Promise<Filled> {
  const { files, folder, cacheNames, reading, onPacks } = parts;
  const room = reading && new Room(index, folder, reading);
  const missing = new Set(names);
  const cacheFiles: CacheFile[] = [];
  for (const name of cacheNames) {
    const { file, packs } = await readCacheFile(files, folder, name, missing);
    cacheFiles.push(file);
    index.reserve(packs.reduce((sum, { count }) => sum + count, 0));
    for (const pack of packs) {
      missing.delete(pack.name);
      index.add(pack);
    }
    reading?.indexReader.leave(index.packs, cacheFiles);
    await room?.make();
    onPacks?.({ read: names.length - missing.size, all: names.length });
  }
  const cached = names.length - missing.size;
  const uncachedPacks = await addPacks(
    index,
    [...missing],
    { ...parts, onPacks: onPacks && (({ read }) => onPacks({ read: cached + read, all: names.length })) },
    room,
  );
  return { cacheFiles, readPacks: missing.size, uncachedPacks };
}

/** A file that cannot be read has no packs. */
async function readCacheFile(
  files: Files,
  folder: string,
  name: string,
  wanted: ReadonlySet<string>,
): Promise<{ readonly file: CacheFile; readonly packs: readonly CompactPack[] }> {
  try {
    const bytes = await files.read(join(folder, name));
    const packs = [...decodeIndexCache(bytes, wanted).values()];
    const offsets = packs.map(({ index }) => index.byteOffset - bytes.byteOffset);
    return {
      file: { name, bytes: bytes.length, packs: packs.map((pack) => pack.name), offsets },
      packs,
    };
  } catch {
    return { file: { name, bytes: 0, packs: [], offsets: [] }, packs: [] };
  }
}

/** Adds packs from their own files. @returns the number of those that a cache file should have */
async function addPacks(
  index: ObjectIndex,
  names: readonly string[],
  { readPack, note, reading, onPacks }: FillParts,
  room: Room | undefined,
): Promise<number> {
  let uncached = 0;
  for (let from = 0; from < names.length; from += packsPerStep) {
    const step = names.slice(from, from + packsPerStep);
    const read = await mapConcurrent(step, maxConcurrentScans, async (name): Promise<ReadPack> => {
      try {
        return await readPack(name);
      } catch (error) {
        if (!isStemmaError(error)) throw error;
        return { pack: undefined, damage: error };
      }
    });
    for (const [at, { pack: found, damage }] of read.entries()) {
      if (damage !== undefined) note(step[at] as string, damage);
      const pack = found && CompactPack.of(found);
      if (pack === undefined || isCached(pack)) uncached++;
      if (pack === undefined) continue;
      index.add(pack);
      if (damage === undefined) room?.added(pack);
      // What was made of a damaged pack is nowhere else.
      else reading?.indexReader.keepInMemory(pack);
    }
    await room?.make();
    onPacks?.({ read: Math.min(from + packsPerStep, names.length), all: names.length });
  }
  return uncached;
}

/** Keeps memory free while an index is filled. */
class Room {
  readonly #mostRows: number;
  #inMemory: CompactPack[] = [];
  #indexBytes = 0;
  #canWrite: boolean;

  constructor(
    private readonly index: ObjectIndex,
    private readonly folder: string,
    private readonly reading: FillReading,
  ) {
    this.#mostRows = reading.mostRows ?? rowsForMemory();
    this.#canWrite = reading.files.writer !== undefined;
  }

  /** A pack was added whose index its file has, too. */
  added(pack: CompactPack): void {
    this.#inMemory.push(pack);
    this.#indexBytes += pack.indexBytes;
  }

  async make(): Promise<void> {
    const { files, indexReader, onDamage, mostIndexBytes = defaultMostIndexBytes } = this.reading;
    if (this.#indexBytes > mostIndexBytes) {
      indexReader.leaveToPacks(this.#inMemory);
      this.#inMemory = [];
      this.#indexBytes = 0;
    }
    // A disk that is full, or that may not be written, leaves them in memory.
    if (this.#canWrite && this.index.rowsInMemory > this.#mostRows)
      this.#canWrite = await writeUnnamedTable(files, this.folder, this.index, onDamage);
  }
}

function rowsForMemory(): number {
  return Math.max(leastRows, Math.floor(availableMemory() / shareOfMemory / bytesPerRow));
}
