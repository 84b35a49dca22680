/**
 * Loads the indexes of all packs in a folder, from the index cache where there is one, and writes that cache.
 */
import { join } from "node:path";
import { mapConcurrent } from "../concurrency/map-concurrent.js";
import { isStemmaError, type StemmaError } from "../errors.js";
import { writeDurably } from "../files/durable-write.js";
import type { Files, FilesToReadNow, Log } from "../ports.js";
import { sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { CompactPack } from "./compact-pack.js";
import {
  cachedBytes,
  type CacheFile,
  decodeIndexCache,
  encodeIndexCache,
  indexOffsets,
  isCached,
  maxCacheBytes,
} from "./index-cache.js";
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
const maxConcurrentScans = 16;

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

function isCachedPack(pack: PackIndex | undefined): boolean {
  return pack === undefined || isCached(CompactPack.of(pack));
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

async function readCache(
  files: Files,
  folder: string,
  { wanted, cacheNames }: { readonly wanted: ReadonlySet<string>; readonly cacheNames: readonly string[] },
): Promise<Cached> {
  const cached: Cached = { packs: new Map(), files: [] };
  for (const name of cacheNames) {
    try {
      const bytes = await files.read(join(folder, name));
      const packs = decodeIndexCache(bytes, wanted);
      for (const [pack, found] of packs) cached.packs.set(pack, found);
      const offsets = [...packs.values()].map(({ index }) => index.byteOffset - bytes.byteOffset);
      cached.files.push({ name, bytes: bytes.length, packs: [...packs.keys()], offsets });
    } catch {
      cached.files.push({ name, bytes: 0, packs: [], offsets: [] });
    }
  }
  return cached;
}

interface Cached {
  readonly packs: Map<string, CompactPack>;
  readonly files: CacheFile[];
}

export interface ReadPack {
  /** The known part of the pack: all of it unless `damage` states otherwise. */
  readonly pack: PackIndex | undefined;
  readonly damage?: StemmaError;
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

/** Removes what interrupted saves left, and loads all packs; those in the table or the index cache are not read. */
export async function loadPacks(
  files: Files,
  folder: string,
  packFiles: PackFiles,
  { log, onDamage }: { readonly log: Log | undefined; readonly onDamage: OnDamage },
): Promise<OpenedPacks> {
  const present = await files.list(folder);
  for (const name of present) if (name.endsWith(temporarySuffix)) await files.remove(join(folder, name));
  const readable = canReadNow(files) ? files : undefined;
  const indexReader = readable && new IndexReader(readable, folder);
  const isCacheFile = (name: string): boolean => cachePattern.test(name);
  const restored = readable && (await readTable(readable, folder, { present, isCacheFile, onDamage }));
  const names = new Set(present);
  const isThere = (name: string): boolean => names.has(name + packSuffix);
  const parts = {
    log,
    indexReader,
    cached: (wanted: ReadonlySet<string>) =>
      readCache(files, folder, { wanted, cacheNames: present.filter(isCacheFile) }),
  };
  if (restored !== undefined && indexReader !== undefined) {
    const opened = await byTable(files, restored, { packFiles, present, indexReader, isThere, parts });
    if (opened !== undefined) return opened;
  }
  const opened = await openPacks(packFiles, present, { ...parts, restored: undefined });
  indexReader?.leave(opened.index.packs, opened.cacheFiles);
  return opened;
}

function canReadNow(files: Files): files is FilesToReadNow {
  return files.openNow !== undefined;
}

interface ByTableOptions {
  readonly packFiles: PackFiles;
  readonly present: readonly string[];
  readonly indexReader: IndexReader;
  readonly isThere: (name: string) => boolean;
  readonly parts: Omit<OpenPacksParts, "restored">;
}

/**
 * Takes packs out of a table that are gone since it was written, and those in that came.
 * @returns undefined where that cannot be done: it does not hold
 */
async function byTable(
  files: Files,
  restored: RestoredTable,
  { packFiles, present, indexReader, isThere, parts }: ByTableOptions,
): Promise<OpenedPacks | undefined> {
  const { index, cacheFiles } = restored;
  indexReader.leave(index.packs, cacheFiles);
  const gone = [...index.packs.keys()].filter((name) => !isThere(name));
  try {
    // One that came after the folder was listed is not gone: another process writes here.
    for (const name of gone)
      if ((await files.stat(packFiles.path(name))) !== undefined) throw new RangeError(name);
    const orphans = gone.length > 0 ? index.removeGone(isThere) : new Set<Hash>();
    const opened = await openPacks(packFiles, present, { ...parts, restored });
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
  const opened = await openPacks(packFiles, await files.list(packFiles.folder), {
    log,
    indexReader: undefined,
    restored: undefined,
    cached: () => Promise.resolve({ packs: new Map(), files: [] }),
  });
  return { ...opened, isCacheStale: false };
}

interface OpenPacksParts extends Pick<OpenedPacks, "indexReader"> {
  readonly log: Log | undefined;
  readonly restored: RestoredTable | undefined;
  /** The packs of these names that are in the index cache, and its files. */
  readonly cached: (names: ReadonlySet<string>) => Promise<Cached>;
}

async function openPacks(
  packFiles: PackFiles,
  present: readonly string[],
  { log, indexReader, restored, cached: readCached }: OpenPacksParts,
): Promise<OpenedPacks> {
  const { folder } = packFiles;
  const names = present
    .filter((name) => name.endsWith(packSuffix))
    .map((name) => name.slice(0, -packSuffix.length));
  const { packs: cached, files: cacheFiles } =
    restored === undefined
      ? await readCached(new Set(names))
      : { packs: restored.index.packs, files: restored.cacheFiles };
  const packs = new Map<string, PackIndex>();
  const problems: StoreProblem[] = [];
  const note = (pack: string, error: StemmaError): void => {
    problems.push({ pack, error });
    log?.error("pack-damaged", { pack, code: error.code, message: error.message });
  };
  // All packs of a restored table are there by now.
  const uncached =
    restored !== undefined && cached.size === names.length ? [] : names.filter((name) => !cached.has(name));
  await mapConcurrent(uncached, maxConcurrentScans, async (name) => {
    try {
      if (!isPackName(name)) throw strangeFile(join(folder, name + packSuffix), name);
      const { pack, damage } = await readPack(packFiles, name);
      if (pack !== undefined) packs.set(name, pack);
      if (damage !== undefined) note(name, damage);
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      note(name, error);
    }
  });
  const index = restored?.index ?? new ObjectIndex();
  if (restored === undefined) index.reserve([...cached.values()].reduce((sum, { count }) => sum + count, 0));
  for (const name of restored === undefined ? names : uncached) {
    const pack = cached.get(name) ?? packs.get(name);
    if (pack !== undefined) index.add(pack);
  }
  index.settle();
  const lowFiles = new Set(
    present
      .filter((name) => name.endsWith(lowFileSuffix))
      .map((name) => name.slice(0, -lowFileSuffix.length)),
  );
  return {
    index,
    problems,
    cacheFiles,
    // Beside a table that holds, the cache stays as the table names it.
    isCacheStale:
      restored === undefined &&
      uncached.filter((name) => isCachedPack(packs.get(name))).length >= staleCachePacks,
    lowFiles,
    indexReader,
    namesSinceTable: restored === undefined ? Number.POSITIVE_INFINITY : uncached.length,
  };
}
