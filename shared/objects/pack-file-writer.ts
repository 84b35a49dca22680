/**
 * Writes one pack file: objects in the order of the calls, then the index. Small pieces are gathered in one
 * of two buffers, so that hashing and copying continue while the other is being written. Does not check which
 * objects a store already has.
 */
import { dirname, join } from "node:path";
import { StemmaError } from "../errors.js";
import type { Files, OpenFile, Random } from "../ports.js";
import { CompactPack } from "./compact-pack.js";
import { readBackShort } from "./object-errors.js";
import { packFormatOf, type PackEntry } from "./pack-entry.js";
import {
  encodePackHeader,
  encodePackIndex,
  encodePackTrailer,
  packHeaderBytes,
  packName,
  type PackIndex,
} from "./pack-format.js";
import {
  describedEntry,
  sealEntries,
  type EntryDescription,
  type Seal,
  type UnsealedEntry,
} from "./unsealed-entry.js";

/**
 * Many saves are small, and many are open concurrently: the first buffer is small, each next one twice as large. It is
 * taken when something is put into it: a buffer more for each small save is most of what a busy server collects.
 */
const firstBufferBytes = 64 * 1024;
const maxBufferBytes = 4 * 1024 * 1024;
/**
 * A piece of at least this size is written directly. For a smaller one a copy costs less than another write.
 */
const directBytes = 2 * 1024 * 1024;

export const temporarySuffix = ".tmp";
export const packSuffix = ".pack";

/**
 * Keeps large buffers for the next writer: new ones cost page faults and garbage collections.
 */
export class BufferPool {
  readonly #idle: Uint8Array[] = [];
  take(bytes: number): Uint8Array {
    return (bytes === maxBufferBytes ? this.#idle.pop() : undefined) ?? new Uint8Array(bytes);
  }
  put(buffer: Uint8Array | undefined): void {
    if (buffer?.length === maxBufferBytes && this.#idle.length < 2) this.#idle.push(buffer);
  }
}

export class PackFileWriter {
  readonly #files: Files;
  readonly #random: Random;
  readonly #pool: BufferPool;
  readonly #temporary: string;
  readonly #entries: UnsealedEntry[] = [];
  #file: OpenFile | undefined;
  /** The buffer; undefined until something is put into it. */
  #buffer: Uint8Array | undefined;
  #nextBufferBytes = firstBufferBytes;
  /** The buffer that is written, or was: the next one, where it is as large. */
  #spare: Uint8Array | undefined;
  #buffered = 0;
  /** Position in the file of the buffer's first byte. */
  #bufferAt = 0;
  #entryAt = packHeaderBytes;
  #fileEnd = 0;
  /** The last write that `#flush` has started. */
  #writing: Promise<void> = Promise.resolve();

  constructor(files: Files, folder: string, random: Random, pool: BufferPool) {
    this.#files = files;
    this.#random = random;
    this.#pool = pool;
    this.#temporary = join(folder, `${Buffer.from(random.bytes(8)).toString("hex")}${temporarySuffix}`);
  }

  get entries(): readonly UnsealedEntry[] {
    return this.#entries;
  }

  /** Adds bytes to the current object. The caller may reuse the piece once this resolves. */
  async push(piece: Uint8Array): Promise<void> {
    if (this.#position() === 0) {
      this.#buffer = this.#takeBuffer();
      this.#buffer.set(encodePackHeader(1), 0);
      this.#buffered = packHeaderBytes;
    }
    if (piece.length >= directBytes) {
      await this.#flush();
      const at = this.#bufferAt;
      this.#bufferAt += piece.length;
      await this.#writing;
      await this.#write(piece, at);
      return;
    }
    for (let done = 0; done < piece.length;) {
      if (this.#buffered === this.#buffer?.length) await this.#flush();
      this.#buffer ??= this.#takeBuffer();
      const part = piece.subarray(done, done + this.#buffer.length - this.#buffered);
      this.#buffer.set(part, this.#buffered);
      this.#buffered += part.length;
      done += part.length;
    }
  }
  #takeBuffer(): Uint8Array {
    const bytes = this.#nextBufferBytes;
    this.#nextBufferBytes = Math.min(maxBufferBytes, bytes * 2);
    return this.#pool.take(bytes);
  }

  #position(): number {
    return this.#bufferAt + this.#buffered;
  }

  /** Starts writing what is buffered; the next flush waits for it. */
  async #flush(): Promise<void> {
    if (this.#buffered === 0 || this.#buffer === undefined) return;
    await this.#writing;
    const full = this.#buffer.subarray(0, this.#buffered);
    const at = this.#bufferAt;
    this.#bufferAt += this.#buffered;
    this.#buffered = 0;
    const isLargeEnough = this.#spare?.length === this.#nextBufferBytes;
    [this.#buffer, this.#spare] = [isLargeEnough ? this.#spare : undefined, this.#buffer];
    this.#writing = this.#write(full, at);
    // The next call that awaits it gets the error; until then it must not count as unhandled.
    this.#writing.catch(() => undefined);
  }

  async #write(bytes: Uint8Array, at: number): Promise<void> {
    this.#file ??= await this.#files.open(this.#temporary, "create");
    await this.#file.write(bytes, at);
    this.#fileEnd = Math.max(this.#fileEnd, at + bytes.length);
  }

  /** Ends the current object and adds it to the index. */
  endEntry(description: EntryDescription): void {
    const end = this.#position();
    this.#entries.push(describedEntry(description, this.#entryAt, Math.max(0, end - this.#entryAt)));
    this.#entryAt = Math.max(end, packHeaderBytes);
  }

  /** The stored bytes of an object that was ended before. */
  async readBack({
    offset,
    storedBytes,
    id,
  }: Pick<PackEntry, "offset" | "storedBytes" | "id">): Promise<Uint8Array> {
    await this.#flush();
    await this.#writing;
    const bytes = new Uint8Array(storedBytes);
    const got = storedBytes === 0 ? 0 : await (this.#file as OpenFile).read(bytes, offset);
    if (got !== storedBytes) throw readBackShort(id, this.#temporary, got, storedBytes);
    return bytes;
  }

  /** Discards the current object: the next one overwrites it. */
  async dropEntry(): Promise<void> {
    if (this.#entryAt >= this.#position()) return;
    if (this.#entryAt >= this.#bufferAt) {
      this.#buffered = this.#entryAt - this.#bufferAt;
      return;
    }
    await this.#writing;
    this.#bufferAt = this.#entryAt;
    this.#buffered = 0;
  }

  /**
   * Ends the pack: index, trailer, fsync. Then the pack is durable under a temporary name; `publish` renames
   * it. `onSyncError` gets the error of a failed fsync, which affects the complete store and not only this
   * save.
   */
  async finish(seal: Seal, onSyncError: (error: unknown) => void): Promise<PackIndex> {
    const entries = sealEntries(this.#entries, seal);
    const format = packFormatOf(entries);
    const index = encodePackIndex(entries);
    await this.push(new Uint8Array(0));
    const indexOffset = this.#position();
    await this.push(index);
    await this.push(encodePackTrailer(format, indexOffset, index, entries.length));
    await this.#flush();
    await this.#writing;
    const file = this.#file;
    if (file === undefined)
      throw new StemmaError(
        "INTERNAL",
        "A pack was finished before anything was written to it. Report this with what led to it.",
      );
    const bytes = this.#position();
    this.#returnBuffers();
    if (this.#fileEnd > bytes) await file.truncate(bytes);
    // Which format the entries need was not known when the header was written.
    if (format !== 1) await file.write(encodePackHeader(format), 0);
    try {
      await file.sync();
    } catch (error) {
      onSyncError(error);
      throw error;
    }
    this.#file = undefined;
    // The file is durable even if closing fails, so nothing waits for it.
    file.close().catch(() => undefined);
    const name = packName(index, this.#random.bytes(8));
    return new CompactPack({ name, bytes, index, format, count: entries.length });
  }

  /** Renames the finished pack to its name; durable once the folder is fsynced. */
  async publish(pack: PackIndex): Promise<void> {
    await this.#files.rename(this.#temporary, join(dirname(this.#temporary), `${pack.name}${packSuffix}`));
  }

  /** Returns the buffers to the pool. Call only when no write is in progress. */
  #returnBuffers(): void {
    this.#pool.put(this.#buffer);
    this.#pool.put(this.#spare);
    this.#buffer = this.#spare = undefined;
  }

  /** Removes the temporary file, if the disk allows. */
  async discard(): Promise<void> {
    await this.#writing.catch(() => undefined);
    this.#returnBuffers();
    await this.#file?.close().catch(() => undefined);
    this.#file = undefined;
    await this.#files.remove(this.#temporary).catch(() => undefined);
  }
}
