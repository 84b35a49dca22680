/** A cache of decoded tensors that others are coded against. Chains that overlap are decoded once. */
import { LRUCache } from "lru-cache";
import type { Hash } from "../tensor/tensor.js";

export class DecodedCache {
  readonly #capacityBytes: number;
  readonly #tensors: LRUCache<Hash, Uint8Array>;

  /** @param capacityBytes 0 keeps nothing */
  constructor(capacityBytes: number) {
    this.#capacityBytes = capacityBytes;
    this.#tensors = new LRUCache({
      maxSize: Math.max(1, capacityBytes),
      // The library wants sizes of at least 1; an empty tensor has none.
      sizeCalculation: ({ length }) => Math.max(1, length),
    });
  }

  /** Bytes of the tensors in the cache. */
  get bytes(): number {
    return this.#tensors.calculatedSize;
  }

  has(id: Hash): boolean {
    return this.#tensors.has(id);
  }

  /** The caller must not write to the bytes. */
  get(id: Hash): Uint8Array | undefined {
    return this.#tensors.get(id);
  }

  /** True if a tensor of this size is kept. One larger than half the capacity would evict everything else. */
  accepts(byteLength: number): boolean {
    return 2 * byteLength <= this.#capacityBytes;
  }

  /** Keeps what it accepts, evicting what was used longest ago. Nothing may write to `bytes` any more. */
  put(id: Hash, bytes: Uint8Array): void {
    if (!this.accepts(bytes.length)) return;
    // A small view would keep all of a large buffer in memory.
    this.#tensors.set(id, 2 * bytes.length < bytes.buffer.byteLength ? bytes.slice() : bytes);
  }

  drop(id: Hash): void {
    this.#tensors.delete(id);
  }
}
