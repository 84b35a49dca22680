/**
 * Loads the indexes of all packs in a folder, from the index cache where there is one, and writes that cache.
 */
import { join } from "node:path";
import { mapConcurrent } from "../concurrency/map-concurrent.js";
import { isStemmaError, StemmaError } from "../errors.js";
import { writeDurably } from "../files/durable-write.js";
import type { Files, Log } from "../ports.js";
import { sha256 } from "../tensor/hash.js";
import { decodeIndexCache, encodeIndexCache, maxCacheBytes } from "./index-cache.js";
import { ObjectIndex } from "./object-index.js";
import { packSuffix, temporarySuffix } from "./pack-file-writer.js";
import type { PackFiles } from "./pack-files.js";
import { encodePackIndex, isPackName, type PackIndex } from "./pack-format.js";
import type { StoreProblem } from "./pack-tensors.js";
import { lowFileSuffix } from "./tiers/folder-tier-files.js";
import type { RebuiltIndex } from "./rebuild-index.js";

const cacheName = "index";
/** Opening a store writes a new index cache when at least this many packs are missing from it. */
const staleCachePacks = 64;
const maxConcurrentScans = 16;

export interface OpenedPacks {
  readonly index: ObjectIndex;
  readonly problems: readonly StoreProblem[];
  readonly isCacheStale: boolean;
  /** Names of the low files in the folder. */
  readonly lowFiles: ReadonlySet<string>;
}

/** True if an index is complete, as the hash in its pack's name states. */
function isExactIndex({ name, entries }: PackIndex): boolean {
  return sha256(encodePackIndex(entries)) === name.slice(0, 64);
}

/**
 * @param damaged packs with problems: those whose index is incomplete are left out, so that the next opening
 * reads and reports them again
 */
export async function writeCache(
  files: Files,
  folder: string,
  index: ObjectIndex,
  damaged: readonly StoreProblem[],
): Promise<void> {
  const mayBeIncomplete = new Set(damaged.filter(({ id }) => id === undefined).map(({ pack }) => pack));
  const packs = [...index.packs.values()].filter(
    (pack) => !mayBeIncomplete.has(pack.name) || isExactIndex(pack),
  );
  await writeDurably(files, join(folder, cacheName), encodeIndexCache(packs));
}

async function readCache(
  files: Files,
  folder: string,
  names: ReadonlySet<string>,
): Promise<Map<string, PackIndex>> {
  const path = join(folder, cacheName);
  const found = await files.stat(path);
  if (found === undefined || found.size > maxCacheBytes) return new Map();
  try {
    return decodeIndexCache(await files.read(path), names);
  } catch {
    return new Map();
  }
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
  return new StemmaError(
    "PACK_CORRUPT",
    isExact
      ? `The header, trailer or index of the pack ${pack} is damaged. All its ${entries.length} objects were found and can be read. \`stemma storage check --repair\` writes them into a new pack.`
      : `The index of the pack ${pack} is damaged. ${entries.length} of its objects were found and can be read; others may be lost. Restore the pack from a backup, or keep what was found with \`stemma storage check --repair\`; devices then send again what they still have.`,
    { pack, objects: entries.length, isExact, cause },
  );
}

/** Removes what interrupted saves left, and loads all packs; those in the index cache are not read. */
export async function loadPacks(
  files: Files,
  folder: string,
  packFiles: PackFiles,
  log: Log | undefined,
): Promise<OpenedPacks> {
  const present = await files.list(folder);
  for (const name of present) if (name.endsWith(temporarySuffix)) await files.remove(join(folder, name));
  return await openPacks(packFiles, present, {
    log,
    cached: (names) => readCache(files, folder, names),
  });
}

/** Loads all packs from their own indexes. Changes nothing in the folder. */
export async function readPacks(
  files: Files,
  packFiles: PackFiles,
  log: Log | undefined,
): Promise<OpenedPacks> {
  const opened = await openPacks(packFiles, await files.list(packFiles.folder), {
    log,
    cached: () => Promise.resolve(new Map()),
  });
  return { ...opened, isCacheStale: false };
}

interface OpenPacksParts {
  readonly log: Log | undefined;
  /** The packs of these names that are in the index cache. */
  readonly cached: (names: ReadonlySet<string>) => Promise<ReadonlyMap<string, PackIndex>>;
}

async function openPacks(
  packFiles: PackFiles,
  present: readonly string[],
  { log, cached: readCached }: OpenPacksParts,
): Promise<OpenedPacks> {
  const { folder } = packFiles;
  const names = present
    .filter((name) => name.endsWith(packSuffix))
    .map((name) => name.slice(0, -packSuffix.length));
  const cached = await readCached(new Set(names));
  const packs = new Map(cached);
  const problems: StoreProblem[] = [];
  const note = (pack: string, error: StemmaError): void => {
    problems.push({ pack, error });
    log?.error("pack-damaged", { pack, code: error.code, message: error.message });
  };
  const uncached = names.filter((name) => !cached.has(name));
  await mapConcurrent(uncached, maxConcurrentScans, async (name) => {
    try {
      if (!isPackName(name))
        throw new StemmaError(
          "PACK_CORRUPT",
          `The file ${join(folder, name + packSuffix)} is not named like a pack, so Stemma did not write it. Move it elsewhere.`,
          { pack: name },
        );
      const { pack, damage } = await readPack(packFiles, name);
      if (pack !== undefined) packs.set(name, pack);
      if (damage !== undefined) note(name, damage);
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      note(name, error);
    }
  });
  const index = new ObjectIndex();
  for (const name of names) {
    const pack = packs.get(name);
    if (pack !== undefined) index.add(pack);
  }
  index.settle();
  const lowFiles = new Set(
    present
      .filter((name) => name.endsWith(lowFileSuffix))
      .map((name) => name.slice(0, -lowFileSuffix.length)),
  );
  return { index, problems, isCacheStale: uncached.length >= staleCachePacks, lowFiles };
}
