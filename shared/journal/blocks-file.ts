/**
 * The file with the ends of a journal's blocks (journal-blocks.ts). It is written without fsync: what is missing or
 * torn is found out by the next opening, which reads more entries then.
 */
import { StemmaError } from "../errors.js";
import { writeDurably } from "../files/durable-write.js";
import type { Files } from "../ports.js";
import { blockRecordBytes, BlockEnds, blocksHeaderBytes } from "./journal-blocks.js";

export class BlocksFile {
  /** Blocks in the file; undefined: it is not there, or not as it should be. */
  #count: number | undefined;

  constructor(
    private readonly files: Files,
    private readonly path: string,
  ) {}

  /** Reads the ends that the file has. @throws FILE_FAILED */
  async read(level: number): Promise<BlockEnds> {
    if ((await this.files.stat(this.path)) === undefined) return new BlockEnds(level);
    return BlockEnds.read(await this.files.read(this.path), level);
  }

  /** The number of blocks in the file that are those of the journal; with 0 the file is written again. */
  found(blocks: number): void {
    this.#count = blocks === 0 ? undefined : blocks;
  }

  /** Writes the ends that the file lacks. A failure leaves it for the next time. */
  async write(ends: BlockEnds): Promise<void> {
    if (ends.count === (this.#count ?? 0)) return;
    try {
      if (this.#count === undefined) await this.#writeAll(ends);
      else await this.#add(ends, this.#count);
      this.#count = ends.count;
    } catch (error) {
      if (!(error instanceof StemmaError)) throw error;
      this.#count = undefined;
    }
  }

  async #writeAll(ends: BlockEnds): Promise<void> {
    await writeDurably(this.files, this.path, Buffer.concat([ends.header(), ends.recordsFrom(0)]));
  }

  async #add(ends: BlockEnds, count: number): Promise<void> {
    const file = await this.files.open(this.path, "update");
    try {
      await file.write(ends.recordsFrom(count), blocksHeaderBytes + count * blockRecordBytes);
    } finally {
      await file.close();
    }
  }
}
