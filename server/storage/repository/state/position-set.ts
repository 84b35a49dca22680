/** A set of positions in the journal as bits: as many as there are facts, and not one object for each. */
const firstBytes = 1024;

export class PositionSet {
  #bits = new Uint8Array(firstBytes);

  has(position: number): boolean {
    return ((this.#bits[position >>> 3] ?? 0) & maskOf(position)) !== 0;
  }

  /** @returns false where it was there already */
  add(position: number): boolean {
    if (this.has(position)) return false;
    const at = position >>> 3;
    if (at >= this.#bits.length) this.#grow(at + 1);
    this.#bits[at] = (this.#bits[at] as number) | maskOf(position);
    return true;
  }

  /** @returns false where it was not there */
  delete(position: number): boolean {
    if (!this.has(position)) return false;
    const at = position >>> 3;
    this.#bits[at] = (this.#bits[at] as number) & ~maskOf(position);
    return true;
  }

  #grow(bytes: number): void {
    const bits = new Uint8Array(Math.max(bytes, 2 * this.#bits.length));
    bits.set(this.#bits);
    this.#bits = bits;
  }
}

function maskOf(position: number): number {
  return 1 << (position & 7);
}
