/**
 * A file that may be deleted at any time: a head, then entries that are appended without fsync. What is incomplete at
 * its end is overwritten. Whoever reads it checks each entry.
 */
import { SerialQueue } from "../../../../shared/concurrency/serial-queue.js";
import type { Files } from "../../../../shared/ports.js";

export interface CacheFileOptions {
  readonly path: string;
  /** First bytes of the file: magic and format. */
  readonly head: Uint8Array;
  /** Entries that would make the file longer are not written. */
  readonly maxBytes: number;
}

export class CacheFile {
  readonly #files: Files;
  readonly #options: CacheFileOptions;
  #end = 0;
  readonly #writes = new SerialQueue();

  constructor(files: Files, options: CacheFileOptions) {
    this.#files = files;
    this.#options = options;
  }

  /** Reads the file's content after its head; empty where it is missing, unreadable, of another format or too long. */
  async read(): Promise<Uint8Array> {
    const { path, head, maxBytes } = this.#options;
    try {
      const stat = await this.#files.stat(path);
      if (stat === undefined || stat.size > maxBytes) return new Uint8Array();
      const bytes = Buffer.from(await this.#files.read(path));
      return bytes.subarray(0, head.length).equals(head) ? bytes.subarray(head.length) : new Uint8Array();
    } catch {
      return new Uint8Array();
    }
  }

  /** Entries are appended after this many bytes of entries; what follows them is cut off. */
  appendAfter(entryBytes: number): void {
    this.#end = entryBytes === 0 ? 0 : this.#options.head.length + entryBytes;
  }

  /** Forgets what the file has: the next entries are its first ones. */
  startAgain(): void {
    this.#writes
      .run(async () => {
        this.#end = 0;
        await this.#append([]);
      })
      .catch(() => undefined);
  }

  /** Appends entries. Never rejects: what is missing is computed or read again. */
  append(entries: readonly Uint8Array[]): Promise<void> {
    if (entries.length > 0) this.#writes.run(() => this.#append(entries)).catch(() => undefined);
    return this.#writes.idle();
  }

  async #append(entries: readonly Uint8Array[]): Promise<void> {
    const { path, head, maxBytes } = this.#options;
    const bytes = Buffer.concat(this.#end === 0 ? [head, ...entries] : entries);
    if (this.#end + bytes.length > maxBytes) return;
    const file = await this.#files.open(path, "append");
    try {
      await file.write(bytes, this.#end);
      this.#end += bytes.length;
      await file.truncate(this.#end);
    } finally {
      await file.close();
    }
  }
}
