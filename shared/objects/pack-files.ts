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
  readPackIndex,
  type PackIndex,
} from "./pack-format.js";
import { packSuffix } from "./pack-file-writer.js";
import { CompactPack } from "./compact-pack.js";
import { rebuildIndex, type RebuiltIndex } from "./rebuild-index.js";

const maxIdleFiles = 32;
/** Reads below this size may read ahead; larger ones get a buffer of their own, so that no copy is needed. */
const smallReadBytes = 256 * 1024;
/** The bytes that are read ahead at first; four times more after each use. */
const firstAheadBytes = 64 * 1024;
const maxAheadBytes = 4 * 1024 * 1024;

/** Read-ahead of all packs together, so that many open packs need no more memory than a few. */
const maxTotalAheadBytes = 16 * 1024 * 1024;

interface OpenPack {
  readonly name: string;
  readonly file: OpenFile;
  users: number;
  retired: boolean;
  lastEnd: number;
  aheadBytes: number;
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
  { name, file }: Pick<OpenPack, "name" | "file">,
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
  readonly #open = new Map<string, Promise<OpenPack>>();
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
    const open = await this.#take(pack.name);
    try {
      return await read(new PackReader(open, pack.bytes, this.#ahead));
    } finally {
      this.#giveBack(open);
    }
  }

  /** The same for a stream. */
  async *stream(
    pack: PackIndex,
    read: (from: PackReader) => AsyncIterable<Uint8Array>,
  ): AsyncIterable<Uint8Array> {
    const open = await this.#take(pack.name);
    try {
      yield* read(new PackReader(open, pack.bytes, this.#ahead));
    } finally {
      this.#giveBack(open);
    }
  }

  async #take(name: string): Promise<OpenPack> {
    let opening = this.#open.get(name);
    if (opening === undefined) {
      opening = this.#files
        .open(this.path(name), "read")
        .then((file) => ({ name, file, users: 0, retired: false, lastEnd: -1, aheadBytes: firstAheadBytes }));
      opening.catch(() => {
        if (this.#open.get(name) === opening) this.#open.delete(name);
      });
    } else this.#open.delete(name);
    this.#open.set(name, opening); // Most recently used last.
    const open = await opening;
    open.users++;
    await this.#closeIdle();
    return open;
  }

  #giveBack(open: OpenPack): void {
    open.users--;
    if (open.retired && open.users === 0) open.file.close().catch(() => undefined);
  }

  async #closeIdle(): Promise<void> {
    if (this.#open.size <= maxIdleFiles) return;
    for (const [name, opening] of [...this.#open].slice(0, this.#open.size - maxIdleFiles)) {
      const open = await opening.catch(() => undefined);
      if (open === undefined || open.users > 0 || this.#open.get(name) !== opening) continue;
      this.#open.delete(name);
      this.#ahead.drop(open);
      await open.file.close().catch(() => undefined);
    }
  }

  /** Closes a pack that is about to be removed, as soon as running reads have ended. */
  async retire(name: string): Promise<void> {
    const opening = this.#open.get(name);
    if (opening === undefined) return;
    this.#open.delete(name);
    const open = await opening.catch(() => undefined);
    if (open === undefined) return;
    open.retired = true;
    this.#ahead.drop(open);
    if (open.users === 0) await open.file.close();
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
      const { length: count } = readPackIndex(index, trailer, name);
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
  readonly #packBytes: number;
  readonly #ahead: ReadAhead;
  constructor(open: OpenPack, packBytes: number, ahead: ReadAhead) {
    this.#open = open;
    this.#packBytes = packBytes;
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
      return readFully(open, at, uninitializedBytes(length));
    }
    const aheadLength = Math.max(length, Math.min(open.aheadBytes, this.#packBytes - at));
    // One byte longer than the read, so that no returned range fills the buffer: callers may write to a
    // buffer that their range fills.
    const buffer = uninitializedBytes(aheadLength + 1).subarray(0, aheadLength);
    const next: Ahead = { at, length: aheadLength, bytes: readFully(open, at, buffer) };
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
    await readFully(this.#open, at, target);
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
