/**
 * Loads the indexes of all packs in a folder, from the index cache where there is one, and writes that cache.
 */
import { join } from "node:path";
import { isStemmaError, type StemmaError } from "../errors.js";
import { writeDurably } from "../files/durable-write.js";
import type { Files, FilesToReadNow, Log } from "../ports.js";
import { sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { CompactPack } from "./compact-pack.js";
import {
  cachedBytes,
  type CacheFile,
  encodeIndexCache,
  indexOffsets,
  isCached,
  maxCacheBytes,
} from "./index-cache.js";
import { fillIndex, type FillParts, type OnPacks, type ReadPack } from "./fill-index.js";
import { IndexReader } from "./index-reader.js";
import { packIndexDamaged, strangeFile } from "./object-errors.js";
import { ObjectIndex } from "./object-index.js";
import { packSuffix, temporarySuffix } from "./pack-file-writer.js";
import type { PackFiles } from "./pack-files.js";
import { isPackName, type PackIndex } from "./pack-format.js";
import type { StoreProblem } from "./pack-tensors.js";
import { readTable, type OnDamage, type RestoredTable } from "./table-file.js";
import { lowFileSuffix } from "./tiers/folder-tier-files.js";
import type { RebuiltIndex } from "./rebuild-index.js";

const cacheName = "index";
const cachePattern = /^index(-[1-9][0-9]*)?$/;
/** Opening a store writes a new index cache when at least this many packs are missing from it. */
const staleCachePacks = 64;

export interface OpenedPacks {
  readonly index: ObjectIndex;
  readonly problems: readonly StoreProblem[];
  readonly isCacheStale: boolean;
  readonly cacheFiles: readonly CacheFile[];
  /** Names of the low files in the folder. */
  readonly lowFiles: ReadonlySet<string>;
  /** Reads indexes that are not in memory; undefined where all of them are. */
  readonly indexReader: IndexReader | undefined;
  /** Packs that came or went since the table of objects was written; infinite where there is none. */
  readonly namesSinceTable: number;
}

/** True if an index is complete, as the hash in its pack's name states. */
function isExactIndex(pack: PackIndex): boolean {
  return sha256(CompactPack.of(pack).index) === pack.name.slice(0, 64);
}

/** A smaller cache file is written again with what is new; so is one of whose bytes less than half is of use. */
const smallCacheBytes = 8 * 1024 * 1024;

export interface CacheWriting {
  /** Packs with problems: those whose index is incomplete are left out, so that the next opening reads them again. */
  readonly damaged: readonly StoreProblem[];
  /** The cache files that are there. */
  readonly present: readonly CacheFile[];
  /** The most that one file has. */
  readonly fileBytes?: number;
  /** A file of fewer bytes is written again. */
  readonly smallBytes?: number;
}

/**
 * Writes the packs that no cache file has, and those of files that are small or mostly of packs that are gone.
 * @returns the cache files as they are afterwards
 */
export async function writeCache(
  files: Files,
  folder: string,
  index: ObjectIndex,
  { damaged, present, fileBytes = maxCacheBytes, smallBytes = smallCacheBytes }: CacheWriting,
): Promise<readonly CacheFile[]> {
  const mayBeIncomplete = new Set(damaged.filter(({ id }) => id === undefined).map(({ pack }) => pack));
  const wanted = new Map(
    [...index.packs].filter(
      ([name, pack]) => isCached(pack) && (!mayBeIncomplete.has(name) || isExactIndex(pack)),
    ),
  );
  const stays = present.filter(({ bytes, packs }) => {
    const usedBytes = packs.reduce((sum, name) => {
      const pack = wanted.get(name);
      return pack === undefined ? sum : sum + cachedBytes(pack);
    }, 0);
    return bytes >= smallBytes && usedBytes >= bytes / 2;
  });
  for (const { packs } of stays) for (const name of packs) wanted.delete(name);
  const written: CacheFile[] = [];
  const taken = new Set(stays.map(({ name }) => name));
  for (const packs of inCacheFiles([...wanted.values()], fileBytes)) {
    const name = freeCacheName(taken);
    taken.add(name);
    const bytes = encodeIndexCache(packs);
    await writeDurably(files, join(folder, name), bytes);
    const names = packs.map((pack) => pack.name);
    written.push({ name, bytes: bytes.length, packs: names, offsets: indexOffsets(packs) });
  }
  for (const { name } of present) if (!taken.has(name)) await files.remove(join(folder, name));
  return [...stays, ...written];
}

function freeCacheName(taken: ReadonlySet<string>): string {
  let name = cacheName;
  for (let number = 1; taken.has(name); number++) name = `${cacheName}-${number}`;
  return name;
}

function inCacheFiles(packs: readonly CompactPack[], fileBytes: number): readonly (readonly CompactPack[])[] {
  const groups: CompactPack[][] = [];
  let room = 0;
  for (const pack of packs) {
    const bytes = cachedBytes(pack);
    if (groups.length === 0 || bytes > room) {
      groups.push([]);
      room = fileBytes;
    }
    groups.at(-1)?.push(pack);
    room -= bytes;
  }
  return groups;
}

/**
 * Reads a pack's header, trailer and index, and rebuilds a damaged index. `known`: the index in memory or in
 * the index cache, which stands in for a damaged one. @throws FILE_FAILED, FILE_MISSING,
 * PACK_FORMAT_UNKNOWN where a newer Stemma wrote the pack
 */
export async function readPack(packFiles: PackFiles, name: string, known?: PackIndex): Promise<ReadPack> {
  try {
    return { pack: await packFiles.scan(name) };
  } catch (error) {
    if (!isStemmaError(error) || (error.code as string).startsWith("FILE_")) throw error;
    const rebuilt =
      known !== undefined && isExactIndex(known)
        ? { pack: known, isExact: true }
        : await packFiles.rebuild(name);
    const isUnknownFormat = isStemmaError(error, "PACK_FORMAT_UNKNOWN");
    if (rebuilt === undefined || (isUnknownFormat && !rebuilt.isExact)) throw error;
    return { pack: rebuilt.pack, damage: rebuiltError(name, rebuilt, error) };
  }
}

function rebuiltError(
  pack: string,
  { isExact, pack: { entries } }: RebuiltIndex,
  cause: StemmaError,
): StemmaError {
  return packIndexDamaged(pack, entries.length, isExact, cause);
}

export interface LoadOptions {
  readonly log: Log | undefined;
  readonly onDamage: OnDamage;
  /** See FillReading. */
  readonly mostIndexBytes?: number | undefined;
  readonly mostRows?: number | undefined;
  readonly onPacks?: OnPacks | undefined;
}

/** Removes what interrupted saves left, and loads all packs; those in the table or the index cache are not read. */
export async function loadPacks(
  files: Files,
  folder: string,
  packFiles: PackFiles,
  { log, onDamage, mostIndexBytes, mostRows, onPacks }: LoadOptions,
): Promise<OpenedPacks> {
  const present = await files.list(folder);
  for (const name of present) if (name.endsWith(temporarySuffix)) await files.remove(join(folder, name));
  const readable = canReadNow(files) ? files : undefined;
  const indexReader = readable && new IndexReader(readable, folder);
  const isCacheFile = (name: string): boolean => cachePattern.test(name);
  const restored = readable && (await readTable(readable, folder, { present, isCacheFile, onDamage }));
  const parts: OpenPacksParts = {
    files,
    packFiles,
    present,
    log,
    onPacks,
    reading: readable && indexReader && { files: readable, indexReader, onDamage, mostIndexBytes, mostRows },
  };
  if (restored !== undefined && indexReader !== undefined) {
    const opened = await byTable(restored, indexReader, parts);
    if (opened !== undefined) return opened;
  }
  const opened = await openPacks(parts, { cacheNames: present.filter(isCacheFile) });
  indexReader?.leave(opened.index.packs, opened.cacheFiles);
  return opened;
}

function canReadNow(files: Files): files is FilesToReadNow {
  return files.openNow !== undefined;
}

/**
 * Takes packs out of a table that are gone since it was written, and those in that came.
 * @returns undefined where that cannot be done: it does not hold
 */
async function byTable(
  restored: RestoredTable,
  indexReader: IndexReader,
  parts: OpenPacksParts,
): Promise<OpenedPacks | undefined> {
  const { index, cacheFiles } = restored;
  const { files, packFiles, present } = parts;
  const names = new Set(present);
  const isThere = (name: string): boolean => names.has(name + packSuffix);
  indexReader.leave(index.packs, cacheFiles);
  const gone = [...index.packs.keys()].filter((name) => !isThere(name));
  try {
    // One that came after the folder was listed is not gone: another process writes here.
    for (const name of gone)
      if ((await files.stat(packFiles.path(name))) !== undefined) throw new RangeError(name);
    const orphans = gone.length > 0 ? index.removeGone(isThere) : new Set<Hash>();
    const opened = await openPacks(parts, { restored });
    // A pack that was repaired, lost or collected may have had the newer copy of what another pack has.
    index.findCopies(orphans);
    return { ...opened, namesSinceTable: opened.namesSinceTable + gone.length };
  } catch {
    index.close();
    return undefined;
  }
}

/** Loads all packs from their own indexes. Changes nothing in the folder. */
export async function readPacks(
  files: Files,
  packFiles: PackFiles,
  log: Log | undefined,
): Promise<OpenedPacks> {
  const present = await files.list(packFiles.folder);
  const opened = await openPacks({ files, packFiles, present, log, reading: undefined }, { cacheNames: [] });
  return { ...opened, isCacheStale: false };
}

interface OpenPacksParts extends Pick<FillParts, "files" | "reading" | "onPacks"> {
  readonly packFiles: PackFiles;
  /** Names of the files in the folder. */
  readonly present: readonly string[];
  readonly log: Log | undefined;
}

/** Adds the packs that a table does not have, or all of them. */
async function openPacks(
  { files, packFiles, present, log, reading, onPacks }: OpenPacksParts,
  from: { readonly restored: RestoredTable } | { readonly cacheNames: readonly string[] },
): Promise<OpenedPacks> {
  const { folder } = packFiles;
  const restored = "restored" in from ? from.restored : undefined;
  const index = restored?.index ?? new ObjectIndex();
  const names = present
    .filter((name) => name.endsWith(packSuffix))
    .map((name) => name.slice(0, -packSuffix.length));
  // All packs of a restored table are there by now.
  const isWhole = restored !== undefined && index.packs.size === names.length;
  const problems: StoreProblem[] = [];
  const filled = await fillIndex(index, isWhole ? [] : names.filter((name) => !index.packs.has(name)), {
    files,
    folder,
    cacheNames: "cacheNames" in from ? from.cacheNames : [],
    readPack: async (name) => {
      if (!isPackName(name)) throw strangeFile(join(folder, name + packSuffix), name);
      return await readPack(packFiles, name);
    },
    note: (pack, error) => {
      problems.push({ pack, error });
      log?.error("pack-damaged", { pack, code: error.code, message: error.message });
    },
    reading,
    onPacks,
  });
  index.settle();
  const lowFiles = new Set(
    present
      .filter((name) => name.endsWith(lowFileSuffix))
      .map((name) => name.slice(0, -lowFileSuffix.length)),
  );
  return {
    index,
    problems,
    cacheFiles: restored?.cacheFiles ?? filled.cacheFiles,
    // Beside a table that holds, the cache stays as the table names it.
    isCacheStale: restored === undefined && filled.uncachedPacks >= staleCachePacks,
    lowFiles,
    indexReader: reading?.indexReader,
    namesSinceTable: restored === undefined ? Number.POSITIVE_INFINITY : filled.readPacks,
  };
}
