/**
 * Decoded tensors that others are coded against, kept while there is room: chains that overlap are decoded
 * once. Knows no store.
 */
import type { Hash } from "../tensor/tensor.js";

export class DecodedCache {
  readonly #capacity: number;
  readonly #tensors = new Map<Hash, Uint8Array>();
  #bytes = 0;
  /** @param capacity in bytes; 0 keeps nothing */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get bytes(): number {
    return this.#bytes;
  }
  has(id: Hash): boolean {
    return this.#tensors.has(id);
  }

  /** Not to be written to. */
  get(id: Hash): Uint8Array | undefined {
    const found = this.#tensors.get(id);
    if (found !== undefined) {
      this.#tensors.delete(id);
      this.#tensors.set(id, found);
    }
    return found;
  }

  /** Whether so many bytes would be kept. What is larger than half of the room would drive out all else. */
  takes(byteLength: number): boolean {
    return 2 * byteLength <= this.#capacity;
  }

  /** Keeps what it takes. Nothing writes to `bytes` any more. */
  put(id: Hash, bytes: Uint8Array): void {
    if (!this.takes(bytes.length)) return;
    this.drop(id);
    // A small piece of a large buffer would hold all of it.
    this.#tensors.set(id, 2 * bytes.length < bytes.buffer.byteLength ? bytes.slice() : bytes);
    this.#bytes += bytes.length;
    for (const [oldest] of this.#tensors) {
      if (this.#bytes <= this.#capacity) break;
      this.drop(oldest);
    }
  }

  drop(id: Hash): void {
    const found = this.#tensors.get(id);
    if (found === undefined) return;
    this.#tensors.delete(id);
    this.#bytes -= found.length;
  }
}
