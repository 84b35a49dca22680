/**
 * Reads from packs: a few files kept open, bytes in large pieces, small neighbours fetched together.
 * A pack that is removed while somebody reads it stays readable to the end, for the open file does.
 */
import { join } from "node:path";
import { StemmaError } from "../errors.js";
import type { Files, OpenFile } from "../ports.js";
import {
  checkPackHeader,
  decodePackTrailer,
  packHeaderBytes,
  packTrailerBytes,
  readPackIndex,
  type PackIndex,
} from "./pack-format.js";
import { packSuffix } from "./pack-file-writer.js";

const maxIdleFiles = 32;
/**
 * A read below this fetches its neighbourhood; larger ones have a buffer of their own, which nobody has to
 * copy.
 */
const smallReadBytes = 256 * 1024;
/** So much at first, more with every time that it was of use. */
const firstAheadBytes = 64 * 1024;
const mostAheadBytes = 4 * 1024 * 1024;

/** What was read ahead, of all packs together: many open packs hold no more memory than a few. */
const allAheadBytes = 16 * 1024 * 1024;

interface OpenPack {
  readonly name: string;
  readonly file: OpenFile;
  users: number;
  retired: boolean;
  lastEnd: number;
  aheadBytes: number;
}
/** `bytes` may still be on their way. */
interface Ahead {
  readonly at: number;
  readonly length: number;
  readonly bytes: Promise<Uint8Array>;
}

/**
 * What was read ahead last of each pack. A chain of coded tensors is read from as many packs in turn as it is
 * deep.
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
      if (this.#bytes <= allAheadBytes || oldest === pack) break;
      this.drop(oldest);
      // It may go before it is of use: that much was too much.
      oldest.aheadBytes = firstAheadBytes;
    }
  }

  drop(pack: OpenPack): void {
    this.#bytes -= this.#aheads.get(pack)?.length ?? 0;
    this.#aheads.delete(pack);
  }
}

/** Uninitialised memory for what is read over it at once. */
function scratch(length: number): Uint8Array {
  const buffer = Buffer.allocUnsafeSlow(length);
  return new Uint8Array(buffer.buffer, buffer.byteOffset, length);
}

async function readFully(
  file: OpenFile,
  at: number,
  length: number,
  pack: string,
  bytes = scratch(length),
): Promise<Uint8Array> {
  const got = await file.read(bytes, at);
  if (got !== length)
    throw new StemmaError(
      "PACK_CORRUPT",
      `The pack ${pack} ends at ${at + got}, in the middle of what its index promises. Put it back from a backup.`,
      { pack, at, length },
    );
  return bytes;
}

export class PackFiles {
  readonly #files: Files;
  readonly #folder: string;
  readonly #open = new Map<string, Promise<OpenPack>>();
  readonly #ahead = new ReadAhead();
  constructor(files: Files, folder: string) {
    this.#files = files;
    this.#folder = folder;
  }

  path(pack: string): string {
    return join(this.#folder, `${pack}${packSuffix}`);
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

  /** As `use`, for a stream. */
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

  /** Lets go of a pack that is about to be removed; who reads it reads on. */
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
    try {
      const bytes = await file.size();
      if (bytes < packHeaderBytes + packTrailerBytes)
        throw new StemmaError(
          "PACK_CORRUPT",
          `The pack ${name} has only ${bytes} bytes, less than an empty one. Put it back from a backup.`,
          { pack: name, bytes },
        );
      const format = checkPackHeader(await readFully(file, 0, packHeaderBytes, name), name);
      const trailer = decodePackTrailer(
        await readFully(file, bytes - packTrailerBytes, packTrailerBytes, name),
        bytes,
        name,
      );
      if (trailer.format !== format)
        throw new StemmaError(
          "PACK_CORRUPT",
          `The pack ${name} begins in format ${format} and ends in format ${trailer.format}. Put it back from a backup.`,
          { pack: name },
        );
      const index = await readFully(file, trailer.indexOffset, trailer.indexBytes, name);
      return { name, bytes, entries: readPackIndex(index, trailer, name) };
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
   * The bytes of a range: a buffer of their own, which is the caller's, or a piece of a larger one, which
   * others may read too and nobody writes to.
   */
  async range(at: number, length: number): Promise<Uint8Array> {
    const open = this.#open;
    const ahead = this.#ahead.get(open);
    if (ahead !== undefined && at >= ahead.at && at + length <= ahead.at + ahead.length) {
      open.lastEnd = at + length;
      return (await ahead.bytes).subarray(at - ahead.at, at - ahead.at + length);
    }
    // Whoever reads one small object after the other gets the next ones with it.
    const follows = at === open.lastEnd && length < smallReadBytes;
    open.lastEnd = at + length;
    if (!follows) {
      open.aheadBytes = firstAheadBytes;
      return readFully(open.file, at, length, open.name);
    }
    // With a byte to spare, that no range is all of the buffer.
    const more = Math.max(length, Math.min(open.aheadBytes, this.#packBytes - at)),
      next: Ahead = {
        at,
        length: more,
        bytes: readFully(open.file, at, more, open.name, scratch(more + 1).subarray(0, more)),
      };
    open.aheadBytes = Math.min(mostAheadBytes, open.aheadBytes * 4);
    this.#ahead.put(open, next);
    try {
      return (await next.bytes).subarray(0, length);
    } catch (error) {
      if (this.#ahead.get(open) === next) this.#ahead.drop(open);
      throw error;
    }
  }

  /** A range in pieces, the next one being read while the caller works on the last. */
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
