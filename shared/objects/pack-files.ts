/**
 * Reads from packs: keeps some files open, reads in large pieces, and reads ahead for small neighbouring
 * objects. A pack that is removed during a read stays readable until the read ends, because its file is open.
 */
import { join } from "node:path";
import { StemmaError } from "../errors.js";
import type { Files, OpenFile } from "../ports.js";
import { uninitializedBytes } from "../tensor/uninitialized-bytes.js";
import { packCorrupt } from "./object-errors.js";
import {
  checkPackHeader,
  decodePackTrailer,
  packHeaderBytes,
  packTrailerBytes,
  checkPackIndex,
  type PackIndex,
} from "./pack-format.js";
import { packSuffix } from "./pack-file-writer.js";
import { CompactPack } from "./compact-pack.js";
import type { RebuiltIndex } from "./rebuild-index.js";

const maxIdleFiles = 32;
/** Reads below this size may read ahead; larger ones get a buffer of their own, so that no copy is needed. */
const smallReadBytes = 256 * 1024;
/** The bytes that are read ahead at first; four times more after each use. */
const firstAheadBytes = 64 * 1024;
const maxAheadBytes = 4 * 1024 * 1024;

/** Read-ahead of all packs together, so that many open packs need no more memory than a few. */
const maxTotalAheadBytes = 16 * 1024 * 1024;

/** A pack that is open, or is being opened. Who takes it is counted before the file is waited for. */
interface OpenPack {
  readonly name: string;
  readonly opening: Promise<OpenFile>;
  users: number;
  retired: boolean;
  lastEnd: number;
  aheadBytes: number;
}

/** The file of a pack that is open. */
interface PackFile {
  readonly name: string;
  readonly file: OpenFile;
  readonly bytes: number;
}

interface Ahead {
  readonly at: number;
  readonly length: number;
  /** Pending until the read ends. */
  readonly bytes: Promise<Uint8Array>;
}

/**
 * The last read-ahead of each pack. A chain of coded tensors is read from as many packs as it is deep, so a
 * single read-ahead for all packs would be dropped before it is used.
 */
class ReadAhead {
  readonly #aheads = new Map<OpenPack, Ahead>();
  #bytes = 0;

  get(pack: OpenPack): Ahead | undefined {
    return this.#aheads.get(pack);
  }

  put(pack: OpenPack, ahead: Ahead): void {
    this.drop(pack);
    this.#aheads.set(pack, ahead);
    this.#bytes += ahead.length;
    for (const [oldest] of this.#aheads) {
      if (this.#bytes <= maxTotalAheadBytes || oldest === pack) break;
      this.drop(oldest);
      // It may have been dropped before it was used: read less ahead next time.
      oldest.aheadBytes = firstAheadBytes;
    }
  }

  clear(): void {
    this.#aheads.clear();
    this.#bytes = 0;
  }

  drop(pack: OpenPack): void {
    this.#bytes -= this.#aheads.get(pack)?.length ?? 0;
    this.#aheads.delete(pack);
  }
}

/** Fills `bytes` from the position `at`. @throws PACK_CORRUPT where the file ends before */
async function readFully(
  { name, file }: Pick<PackFile, "name" | "file">,
  at: number,
  bytes: Uint8Array,
): Promise<Uint8Array> {
  const got = await file.read(bytes, at);
  if (got !== bytes.length)
    throw new StemmaError(
      "PACK_CORRUPT",
      `The pack ${name} ends at byte ${at + got}, before the end of an object in its index. Put it back from a backup.`,
      { pack: name, at, length: bytes.length },
    );
  return bytes;
}

export class PackFiles {
  readonly #files: Files;
  readonly folder: string;
  readonly #open = new Map<string, OpenPack>();
  readonly #ahead = new ReadAhead();

  constructor(files: Files, folder: string) {
    this.#files = files;
    this.folder = folder;
  }

  /** Drops what was read ahead, so that the next reads show what is on the disk now. */
  forgetReadAhead(): void {
    this.#ahead.clear();
  }

  path(pack: string): string {
    return join(this.folder, `${pack}${packSuffix}`);
  }

  /** Runs `read` with the pack open. */
  async use<T>(pack: PackIndex, read: (from: PackReader) => Promise<T>): Promise<T> {
    const open = this.#take(pack.name);
    try {
      return await read(await this.#readerOf(open, pack));
    } finally {
      this.#giveBack(open);
    }
  }

  /** The same for a stream. */
  async *stream(
    pack: PackIndex,
    read: (from: PackReader) => AsyncIterable<Uint8Array>,
  ): AsyncIterable<Uint8Array> {
    const open = this.#take(pack.name);
    try {
      yield* read(await this.#readerOf(open, pack));
    } finally {
      this.#giveBack(open);
    }
  }

  /** Takes a pack, which stays open until it is given back. */
  #take(name: string): OpenPack {
    let open = this.#open.get(name);
    if (open === undefined) {
      const opening = this.#files.open(this.path(name), "read");
      open = { name, opening, users: 0, retired: false, lastEnd: -1, aheadBytes: firstAheadBytes };
    } else this.#open.delete(name);
    this.#open.set(name, open); // Most recently used last.
    open.users++;
    return open;
  }

  async #readerOf(open: OpenPack, { bytes }: PackIndex): Promise<PackReader> {
    try {
      const file = await open.opening;
      await this.#closeIdle();
      return new PackReader(open, { name: open.name, file, bytes }, this.#ahead);
    } catch (error) {
      if (this.#open.get(open.name) === open) this.#open.delete(open.name);
      throw error;
    }
  }

  #giveBack(open: OpenPack): void {
    open.users--;
    if (open.retired && open.users === 0) this.#close(open).catch(() => undefined);
  }

  async #closeIdle(): Promise<void> {
    if (this.#open.size <= maxIdleFiles) return;
    const oldest = [...this.#open.values()].slice(0, this.#open.size - maxIdleFiles);
    const idle = oldest.filter(({ users }) => users === 0);
    // Nobody finds them any more before the first wait, in which others may take a pack.
    for (const { name } of idle) this.#open.delete(name);
    for (const open of idle) await this.#close(open).catch(() => undefined);
  }

  async #close(open: OpenPack): Promise<void> {
    this.#ahead.drop(open);
    const file = await open.opening.catch(() => undefined);
    await file?.close();
  }

  /** Closes a pack that is about to be removed, as soon as running reads have ended. */
  async retire(name: string): Promise<void> {
    const open = this.#open.get(name);
    if (open === undefined) return;
    this.#open.delete(name);
    open.retired = true;
    if (open.users === 0) await this.#close(open);
    else this.#ahead.drop(open);
  }

  async close(): Promise<void> {
    for (const name of [...this.#open.keys()]) await this.retire(name);
  }

  /** Reads a pack's header, trailer and index. @throws PACK_CORRUPT, PACK_FORMAT_UNKNOWN, FILE_FAILED */
  async scan(name: string): Promise<PackIndex> {
    const file = await this.#files.open(this.path(name), "read");
    const pack = { name, file };
    try {
      const bytes = await file.size();
      if (bytes < packHeaderBytes + packTrailerBytes)
        throw packCorrupt(name, `has only ${bytes} bytes, fewer than an empty pack`);
      const format = checkPackHeader(await readFully(pack, 0, uninitializedBytes(packHeaderBytes)), name);
      const trailer = decodePackTrailer(
        await readFully(pack, bytes - packTrailerBytes, uninitializedBytes(packTrailerBytes)),
        bytes,
        name,
      );
      if (trailer.format !== format)
        throw packCorrupt(name, `has format ${format} in its header and ${trailer.format} in its trailer`);
      const index = await readFully(pack, trailer.indexOffset, uninitializedBytes(trailer.indexBytes));
      const count = checkPackIndex(index, trailer, name);
      return new CompactPack({ name, bytes, index, format, count });
    } finally {
      await file.close();
    }
  }

  /**
   * The index of a pack whose header, trailer or index is damaged, or what is left of it. Undefined where
   * nothing was found. @throws FILE_FAILED, FILE_MISSING
   */
  async rebuild(name: string): Promise<RebuiltIndex | undefined> {
    // Loaded when a pack is damaged.
    const { rebuildIndex } = await import("./rebuild-index.js");
    const file = await this.#files.open(this.path(name), "read");
    try {
      return await rebuildIndex({
        name,
        bytes: await file.size(),
        read: async (at, length) => {
          const bytes = uninitializedBytes(length);
          return bytes.subarray(0, await file.read(bytes, at));
        },
      });
    } finally {
      await file.close();
    }
  }
}

/** Reads ranges of one open pack. */
export class PackReader {
  readonly #open: OpenPack;
  readonly #pack: PackFile;
  readonly #ahead: ReadAhead;
  constructor(open: OpenPack, pack: PackFile, ahead: ReadAhead) {
    this.#open = open;
    this.#pack = pack;
    this.#ahead = ahead;
  }

  /**
   * Returns the bytes of a range. They either fill a buffer that belongs to the caller, or are a view of a
   * larger buffer that other reads share and nobody may write to.
   */
  async range(at: number, length: number): Promise<Uint8Array> {
    const open = this.#open;
    const ahead = this.#ahead.get(open);
    if (ahead !== undefined && at >= ahead.at && at + length <= ahead.at + ahead.length) {
      open.lastEnd = at + length;
      return (await ahead.bytes).subarray(at - ahead.at, at - ahead.at + length);
    }
    // Small objects that are read one after the other are read ahead.
    const isSequential = at === open.lastEnd && length < smallReadBytes;
    open.lastEnd = at + length;
    if (!isSequential) {
      open.aheadBytes = firstAheadBytes;
      return readFully(this.#pack, at, uninitializedBytes(length));
    }
    const aheadLength = Math.max(length, Math.min(open.aheadBytes, this.#pack.bytes - at));
    // One byte longer than the read, so that no returned range fills the buffer: callers may write to a
    // buffer that their range fills.
    const buffer = uninitializedBytes(aheadLength + 1).subarray(0, aheadLength);
    const next: Ahead = { at, length: aheadLength, bytes: readFully(this.#pack, at, buffer) };
    open.aheadBytes = Math.min(maxAheadBytes, open.aheadBytes * 4);
    this.#ahead.put(open, next);
    try {
      return (await next.bytes).subarray(0, length);
    } catch (error) {
      if (this.#ahead.get(open) === next) this.#ahead.drop(open);
      throw error;
    }
  }

  /** Fills a buffer of the caller's with the bytes at a position. */
  async fill(at: number, target: Uint8Array): Promise<void> {
    await readFully(this.#pack, at, target);
  }

  /** A range in pieces; the next one is read while the caller works on the last. */
  async *pieces(at: number, length: number, pieceBytes: number): AsyncIterable<Uint8Array> {
    const read = (from: number): Promise<Uint8Array> | undefined => {
      if (from >= at + length) return undefined;
      const piece = this.range(from, Math.min(pieceBytes, at + length - from));
      piece.catch(() => undefined); // Awaited below, or never when the caller stops early.
      return piece;
    };
    let next = read(at);
    for (let from = at + pieceBytes; next !== undefined; from += pieceBytes) {
      const piece = await next;
      next = read(from);
      yield piece;
    }
  }
}
