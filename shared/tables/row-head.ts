/**
 * The numbers in front of each row of a block: the bytes that its key shares with the one before, the other bytes of
 * its key, and the bytes of its value. Each takes seven bits a byte, the low ones first; all but its last byte have
 * the eighth. Pure.
 */

/** Bytes that the three numbers take at most. */
const longest = 3 * 5;

export function encodeRowHead(shared: number, own: number, valueBytes: number): Buffer {
  const bytes = Buffer.allocUnsafe(longest);
  return bytes.subarray(0, write(bytes, valueBytes, write(bytes, own, write(bytes, shared, 0))));
}

function write(bytes: Buffer, number: number, from: number): number {
  let at = from;
  let rest = number;
  for (; rest > 0x7f; rest >>>= 7) bytes[at++] = (rest & 0x7f) | 0x80;
  bytes[at++] = rest;
  return at;
}

/** Reads heads of rows; one object serves for all rows of a block. */
export class RowHead {
  /** Bytes of the key that are those of the key before. */
  shared = 0;
  /** The other bytes of the key. */
  own = 0;
  valueBytes = 0;
  #at = 0;

  constructor(private readonly block: Buffer) {}

  /** Reads the head at `at`. @returns where the row's own bytes of its key begin */
  read(at: number): number {
    this.#at = at;
    this.shared = this.#number();
    this.own = this.#number();
    this.valueBytes = this.#number();
    return this.#at;
  }

  #number(): number {
    const { block } = this;
    let byte = block[this.#at++] as number;
    if (byte < 0x80) return byte;
    let number = byte & 0x7f;
    for (let shift = 7; byte >= 0x80; shift += 7) {
      byte = block[this.#at++] as number;
      number |= (byte & 0x7f) << shift;
    }
    return number;
  }
}
