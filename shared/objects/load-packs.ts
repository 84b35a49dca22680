/**
 * Loads the indexes of all packs in a folder, from the index cache where there is one, and writes that cache.
 */
import { join } from "node:path";
import { mapConcurrent } from "../concurrency/map-concurrent.js";
import { isStemmaError, StemmaError } from "../errors.js";
import { writeDurably } from "../files/durable-write.js";
import type { Files, Log } from "../ports.js";
import { decodeIndexCache, encodeIndexCache, maxCacheBytes } from "./index-cache.js";
import { ObjectIndex } from "./object-index.js";
import { packSuffix, temporarySuffix } from "./pack-file-writer.js";
import type { PackFiles } from "./pack-files.js";
import { isPackName, type PackIndex } from "./pack-format.js";
import type { StoreProblem } from "./pack-tensors.js";

const cacheName = "index";
/** Opening a store writes a new index cache when at least this many packs are missing from it. */
const staleCachePacks = 64;
const maxConcurrentScans = 16;

export interface OpenedPacks {
  readonly index: ObjectIndex;
  readonly problems: readonly StoreProblem[];
  readonly isCacheStale: boolean;
}

export async function writeCache(files: Files, folder: string, index: ObjectIndex): Promise<void> {
  await writeDurably(files, join(folder, cacheName), encodeIndexCache(index.packs.values()));
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

export async function loadPacks(
  files: Files,
  folder: string,
  packFiles: PackFiles,
  log: Log | undefined,
): Promise<OpenedPacks> {
  const present = await files.list(folder);
  for (const name of present) if (name.endsWith(temporarySuffix)) await files.remove(join(folder, name));
  const names = present
    .filter((name) => name.endsWith(packSuffix))
    .map((name) => name.slice(0, -packSuffix.length));
  const cached = await readCache(files, folder, new Set(names));
  const packs = new Map(cached);
  const problems: StoreProblem[] = [];
  const uncached = names.filter((name) => !cached.has(name));
  await mapConcurrent(uncached, maxConcurrentScans, async (name) => {
    try {
      if (!isPackName(name))
        throw new StemmaError(
          "PACK_CORRUPT",
          `The file ${join(folder, name + packSuffix)} is not named like a pack, so Stemma did not write it. Move it elsewhere.`,
          { pack: name },
        );
      packs.set(name, await packFiles.scan(name));
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      problems.push({ pack: name, error });
      log?.error("pack-damaged", { pack: name, code: error.code, message: error.message });
    }
  });
  const index = new ObjectIndex();
  for (const name of names) {
    const pack = packs.get(name);
    if (pack !== undefined) index.add(pack);
  }
  index.settle();
  return { index, problems, isCacheStale: uncached.length >= staleCachePacks };
}
