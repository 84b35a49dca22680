/**
 * Blocks that are used again after they were hashed or sent: as garbage, those of many downloads take more memory than
 * everything else. A few are kept; more of them only until the garbage collector wants their memory, so that a process
 * that sends nothing any more does not keep what a thousand downloads needed at once.
 */
import { allocateBlock, reuseBlock } from "../block-frame.js";

const maxKept = 16;
const maxSpare = 128;

interface Spare {
  readonly length: number;
  readonly block: WeakRef<Uint8Array>;
}

export class SpareBlocks {
  readonly #blocks: Uint8Array[] = [];
  readonly #spares: Spare[] = [];

  /** A block of this length; its content is undefined. */
  take(byteLength: number): Uint8Array {
    const kept = this.#blocks.findLastIndex(({ length }) => length === byteLength);
    if (kept >= 0) return this.#blocks.splice(kept, 1)[0] as Uint8Array;
    for (;;) {
      const at = this.#spares.findLastIndex(({ length }) => length === byteLength);
      if (at < 0) return allocateBlock(byteLength);
      const block = this.#spares.splice(at, 1)[0]?.block.deref();
      if (block !== undefined) return block;
    }
  }

  /** Gives back what nothing refers to any more; once: twice, it would be two blocks at the same time. */
  put(block: Uint8Array): void {
    reuseBlock(block);
    this.#blocks.push(block);
    // The oldest: its length may be one that no block has any more.
    const oldest = this.#blocks.length > maxKept ? this.#blocks.shift() : undefined;
    if (oldest === undefined) return;
    this.#spares.push({ length: oldest.length, block: new WeakRef(oldest) });
    if (this.#spares.length > maxSpare) this.#spares.shift();
  }
}
