/**
 * Finds the packs in a folder when a store is opened, by the index cache where there is one, and writes that
 * cache.
 */
import { join } from "node:path";
import { StemmaError } from "../errors.js";
import { writeDurably } from "../files/durable-write.js";
import type { Files, Log } from "../ports.js";
import { decodeIndexCache, encodeIndexCache, maxCacheBytes } from "./index-cache.js";
import { ObjectIndex } from "./object-index.js";
import { packSuffix, temporarySuffix } from "./pack-file-writer.js";
import type { PackFiles } from "./pack-files.js";
import { isPackName, type PackIndex } from "./pack-format.js";
import type { StoreProblem } from "./pack-tensors.js";

const cacheName = "index";
/** So many packs must be missing from the index cache before opening writes a new one. */
const staleCachePacks = 64;
const scansAtOnce = 16;

export interface OpenedPacks {
  readonly index: ObjectIndex;
  readonly problems: readonly StoreProblem[];
  readonly cacheStale: boolean;
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
  const waiting = names.filter((name) => !cached.has(name));
  const scanned = waiting.length;
  await Promise.all(
    Array.from({ length: Math.min(scansAtOnce, scanned) }, async () => {
      for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
        try {
          if (!isPackName(name))
            throw new StemmaError(
              "PACK_CORRUPT",
              `The file ${join(folder, name + packSuffix)} is not called as a pack is. Nothing of Stemma's was put there; move it elsewhere.`,
              { pack: name },
            );
          packs.set(name, await packFiles.scan(name));
        } catch (error) {
          if (!(error instanceof StemmaError)) throw error;
          problems.push({ pack: name, error });
          log?.error("pack-damaged", { pack: name, code: error.code, message: error.message });
        }
      }
    }),
  );
  const index = new ObjectIndex();
  for (const name of names) {
    const pack = packs.get(name);
    if (pack !== undefined) index.add(pack);
  }
  index.settle();
  return { index, problems, cacheStale: scanned >= staleCachePacks };
}
