/**
 * Checks before each write that nobody else wrote the journal: the home is still this process's, and the last
 * segment is the file that was opened, as long as this process left it. Else both would acknowledge facts, and
 * those of one would be overwritten.
 */
import type { Files, OpenFile } from "../ports.js";
import { writtenByAnother } from "./journal-errors.js";

export class SegmentGuard {
  readonly #files: Files;
  readonly #path: string;
  readonly #identity: string | undefined;

  private constructor(files: Files, path: string, identity: string | undefined) {
    this.#files = files;
    this.#path = path;
    this.#identity = identity;
  }

  /** Begins to watch a segment that this process has just opened. */
  static async of(files: Files, path: string): Promise<SegmentGuard> {
    return new SegmentGuard(files, path, await files.writer?.identityOf(path));
  }

  /**
   * @param file the opened segment
   * @param bytes its size after this process's last write
   * @throws HOME_TAKEN
   */
  async check(file: OpenFile, bytes: number): Promise<void> {
    await this.#files.writer?.assertHeld();
    const size = await file.size();
    if (size !== bytes) throw writtenByAnother(this.#path, `it has ${size} bytes instead of ${bytes}`);
    if (this.#files.writer === undefined) return;
    const identity = await this.#files.writer.identityOf(this.#path);
    if (identity !== this.#identity)
      throw writtenByAnother(
        this.#path,
        identity === undefined ? "it is gone" : "another file has taken its place",
      );
  }

  /** Checks that nobody has made the segment that follows. @throws HOME_TAKEN */
  async checkNext(path: string): Promise<void> {
    if ((await this.#files.stat(path)) !== undefined)
      throw writtenByAnother(path, "it is there before this process made it");
  }
}
