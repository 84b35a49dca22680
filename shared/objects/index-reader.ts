/**
 * Reads the indexes of packs that are not in memory: from the file of the index cache, else from the pack itself. Some
 * that were read last are kept.
 */
import { join } from "node:path";
import { LRUCache } from "lru-cache";
import { StemmaError } from "../errors.js";
import type { FilesToReadNow, FileToReadNow } from "../ports.js";
import type { CompactPack, IndexPart, IndexSource } from "./compact-pack.js";
import { packCorrupt } from "./object-errors.js";
import { packSuffix } from "./pack-file-writer.js";
import { packTrailerBytes } from "./pack-format.js";
import { isCached, type CacheFile } from "./index-cache.js";

const keptBytes = 32 * 1024 * 1024;

/** Parts of indexes that were read last, by their keys. */
type KeptParts = LRUCache<number, Buffer>;

export class IndexReader {
  readonly #kept: KeptParts = new LRUCache({ maxSize: keptBytes, sizeCalculation: ({ length }) => length });
  #open: CacheFileSource[] = [];
  readonly #staying = new WeakSet<CompactPack>();
  /** Reads indexes from their packs. */
  readonly #own = new CacheFileSource(undefined, this.#kept, (part) => this.#ofPack(part));

  constructor(
    private readonly files: FilesToReadNow,
    private readonly folder: string,
  ) {}

  /**
   * Takes the indexes of packs out of memory that cache files have, and of packs that no cache file would have. A file
   * that cannot be opened takes none.
   */
  leave(packs: ReadonlyMap<string, CompactPack>, cacheFiles: readonly CacheFile[]): void {
    const before = this.#open;
    this.#open = [];
    for (const pack of packs.values())
      if (pack.indexBytes > 0 && (!pack.isInMemory || (!isCached(pack) && !this.#staying.has(pack))))
        pack.leaveTo(this.#own, 0);
    for (const file of cacheFiles) {
      const source = this.#sourceOf(file.name);
      if (source === undefined) continue;
      this.#open.push(source);
      for (const [i, name] of file.packs.entries()) {
        const pack = packs.get(name);
        if (pack !== undefined && pack.indexBytes > 0) pack.leaveTo(source, file.offsets[i] as number);
      }
    }
    for (const source of before) source.close();
  }

  /** Leaves the index of a pack in memory, whose own file has another. */
  keepInMemory(pack: CompactPack): void {
    this.#staying.add(pack);
  }

  /** Takes the indexes of packs out of memory: they are read from the packs. */
  leaveToPacks(packs: Iterable<CompactPack>): void {
    for (const pack of packs) if (pack.indexBytes > 0) pack.leaveTo(this.#own, 0);
  }

  #sourceOf(name: string): CacheFileSource | undefined {
    try {
      const file = this.files.openNow(join(this.folder, name));
      return new CacheFileSource(file, this.#kept, (part) => this.#ofPack(part));
    } catch (error) {
      if (!(error instanceof StemmaError)) throw error;
      return undefined;
    }
  }

  /** A part of an index from the pack's own file. */
  #ofPack({ pack: { name, bytes, indexBytes }, from, bytes: length }: IndexPart): Buffer {
    const file = this.files.openNow(join(this.folder, name + packSuffix));
    try {
      return bytesOf(file, bytes - packTrailerBytes - indexBytes + from, length);
    } finally {
      file.close();
    }
  }

  close(): void {
    for (const source of this.#open) source.close();
    this.#open = [];
  }
}

/** A file of the index cache, or none: then each index is read from its pack. */
class CacheFileSource implements IndexSource {
  #file: FileToReadNow | undefined;

  constructor(
    file: FileToReadNow | undefined,
    private readonly parts: KeptParts,
    private readonly ofPack: (part: IndexPart) => Buffer,
  ) {
    this.#file = file;
  }

  kept(key: number): Buffer | undefined {
    return this.parts.get(key);
  }

  read(part: IndexPart): Buffer {
    const bytes = this.#verified(part);
    if (part.key !== undefined) this.parts.set(part.key, bytes);
    return bytes;
  }

  #verified(part: IndexPart): Buffer {
    const cached = this.#cached(part);
    if (cached !== undefined && part.isIntact(cached)) return cached;
    const own = this.ofPack(part);
    if (part.isIntact(own)) return own;
    throw packCorrupt(part.pack.name, "has an index that is damaged, in the pack and in the index cache");
  }

  #cached({ from, bytes, offset }: IndexPart): Buffer | undefined {
    try {
      return this.#file && bytesOf(this.#file, offset + from, bytes);
    } catch (error) {
      if (!(error instanceof StemmaError)) throw error;
      return undefined;
    }
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
  }
}

function bytesOf(file: FileToReadNow, offset: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, file.read(bytes, offset));
}
