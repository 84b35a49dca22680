/**
 * Reads the indexes of packs that are not in memory: from the file of the index cache, else from the pack itself. Some
 * that were read last are kept.
 */
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { LRUCache } from "lru-cache";
import { StemmaError } from "../errors.js";
import type { FilesToReadNow, FileToReadNow } from "../ports.js";
import type { CompactPack, IndexSource } from "./compact-pack.js";
import { packCorrupt } from "./object-errors.js";
import { packSuffix } from "./pack-file-writer.js";
import { packTrailerBytes } from "./pack-format.js";
import type { CacheFile } from "./load-packs.js";

const keptBytes = 32 * 1024 * 1024;

export class IndexReader {
  readonly #kept = new LRUCache<CompactPack, Buffer>({
    maxSize: keptBytes,
    sizeCalculation: ({ length }) => length,
  });
  #open: CacheFileSource[] = [];

  constructor(
    private readonly files: FilesToReadNow,
    private readonly folder: string,
  ) {}

  /** Takes the indexes of packs out of memory that cache files have. A file that cannot be opened takes none. */
  leave(packs: ReadonlyMap<string, CompactPack>, cacheFiles: readonly CacheFile[]): void {
    const before = this.#open;
    this.#open = [];
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

  #sourceOf(name: string): CacheFileSource | undefined {
    try {
      const file = this.files.openNow(join(this.folder, name));
      return new CacheFileSource(file, this.#kept, (pack) => this.#ofPack(pack));
    } catch (error) {
      if (!(error instanceof StemmaError)) throw error;
      return undefined;
    }
  }

  /** A pack's index from the pack's own file. */
  #ofPack({ name, bytes, indexBytes }: CompactPack): Buffer {
    const file = this.files.openNow(join(this.folder, name + packSuffix));
    try {
      return bytesOf(file, bytes - packTrailerBytes - indexBytes, indexBytes);
    } finally {
      file.close();
    }
  }

  close(): void {
    for (const source of this.#open) source.close();
    this.#open = [];
  }
}

/** A file of the index cache. */
class CacheFileSource implements IndexSource {
  #file: FileToReadNow | undefined;

  constructor(
    file: FileToReadNow,
    private readonly kept: LRUCache<CompactPack, Buffer>,
    private readonly ofPack: (pack: CompactPack) => Buffer,
  ) {
    this.#file = file;
  }

  read(pack: CompactPack, offset: number, check: number): Buffer {
    const kept = this.kept.get(pack);
    if (kept !== undefined) return kept;
    const cached = this.#cached(pack, offset);
    const index = cached !== undefined && crc32(cached) === check ? cached : this.ofPack(pack);
    if (crc32(index) !== check)
      throw packCorrupt(pack.name, "has an index that is damaged, in the pack and in the index cache");
    this.kept.set(pack, index);
    return index;
  }

  #cached({ indexBytes }: CompactPack, offset: number): Buffer | undefined {
    try {
      return this.#file && bytesOf(this.#file, offset, indexBytes);
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
