/** A set of small integers as bits, least significant bit first: the blocks that are written. */
import { bitmapMismatch } from "./transfer-errors.js";

export class Bitmap {
  readonly size: number;
  readonly #bytes: Uint8Array;
  #count = 0;

  constructor(size: number) {
    this.size = size;
    this.#bytes = new Uint8Array(Math.ceil(size / 8));
  }

  /** @throws TRANSFER_MANIFEST_INVALID where the bytes do not fit the size */
  static fromBytes(size: number, bytes: Uint8Array): Bitmap {
    const bitmap = new Bitmap(size);
    const spare = size % 8;
    const last = bytes.at(-1) ?? 0;
    if (bytes.length !== bitmap.#bytes.length || (spare !== 0 && last >> spare !== 0))
      throw bitmapMismatch(bytes.length, size);
    bitmap.#bytes.set(bytes);
    for (const byte of bytes) for (let bits = byte; bits !== 0; bits &= bits - 1) bitmap.#count++;
    return bitmap;
  }

  get count(): number {
    return this.#count;
  }
  get isFull(): boolean {
    return this.#count === this.size;
  }
  has(index: number): boolean {
    return ((this.#bytes[index >> 3] ?? 0) & (1 << (index & 7))) !== 0;
  }
  add(index: number): void {
    if (index < 0 || index >= this.size || this.has(index)) return;
    this.#bytes[index >> 3] = (this.#bytes[index >> 3] ?? 0) | (1 << (index & 7));
    this.#count++;
  }
  /** The first number from `from` on that is not in the set; `size` when there is none. */
  firstMissing(from = 0): number {
    for (let index = from; index < this.size; index++) {
      if ((index & 7) === 0 && this.#bytes[index >> 3] === 0xff) {
        index += 7;
        continue;
      }
      if (!this.has(index)) return index;
    }
    return this.size;
  }
  toBytes(): Uint8Array {
    return this.#bytes.slice();
  }
}
