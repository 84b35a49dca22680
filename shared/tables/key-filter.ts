/**
 * A Bloom filter of keys: says of a key that it is certainly not there, or may be. Each key takes 10 bits and sets 7:
 * of 100 absent keys about one may be there. Pure.
 */
import { crc32 } from "node:zlib";

const bitsPerKey = 10;
const bitsSet = 7;
/** Starts the second checksum of a key, so that it does not follow from the first one's place. */
const secondStart = 0x9e3779b9;

/** An empty filter for at most this many keys. */
export function emptyFilter(mostKeys: number): Buffer {
  return Buffer.alloc(Math.ceil((mostKeys * bitsPerKey) / 8));
}

export function addToFilter(filter: Buffer, key: Uint8Array): void {
  forBits(filter, key, (byte, bit) => {
    filter[byte] = (filter[byte] as number) | bit;
    return true;
  });
}

/** False: no key that was added is this one. */
export function mayHave(filter: Uint8Array, key: Uint8Array): boolean {
  return filter.length > 0 && forBits(filter, key, (byte, bit) => ((filter[byte] as number) & bit) !== 0);
}

/** Calls back for the bits of a key until one answers false; returns whether none did. */
function forBits(filter: Uint8Array, key: Uint8Array, each: (byte: number, bit: number) => boolean): boolean {
  const bits = filter.length * 8;
  const first = crc32(key);
  const second = crc32(key, secondStart);
  // CRC-32 is linear: the second one is mixed, or both would differ by the same bits for all keys of a length.
  const step = (Math.imul(second ^ (second >>> 15), 0x2c1b3c6d) | 1) >>> 0;
  for (let n = 0; n < bitsSet; n++) {
    const at = (first + n * step) % bits;
    if (!each(Math.floor(at / 8), 1 << (at % 8))) return false;
  }
  return true;
}
