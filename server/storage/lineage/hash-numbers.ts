/**
 * Numbers hashes, so that millions of them take 32 bytes each and about 8 to be found by, where a map of strings takes
 * 180 and ends at 2^24 entries. Numbers are small, and used again once their hash is removed.
 *
 * The table is open addressing in 256 shards by the first byte: a shard that is full grows alone, so that no call waits
 * for more than a 256th of the table.
 */
import type { Hash } from "../../../shared/tensor/tensor.js";

const hashWords = 8;
const wordDigits = 8;
const pageHashes = 4096;
const shards = 256;
const minShard = 8;
const none = -1;

/** Value of each hexadecimal digit by character code. */
const digitValues = Uint8Array.from(
  { length: 128 },
  (_, code) => parseInt(String.fromCharCode(code), 16) || 0,
);

export class HashNumbers {
  /** Hashes by number, as eight big-endian words each. */
  readonly #pages: Int32Array[] = [];
  /** Number + 1 by place; 0: the place is empty. */
  readonly #tables: Int32Array[] = Array.from({ length: shards }, () => new Int32Array(minShard));
  readonly #counts = new Int32Array(shards);
  readonly #asked = new Int32Array(hashWords);
  #end = 0;
  #size = 0;
  /** The number that was freed last; the first word of its place is the one that was freed before. */
  #free = none;

  get size(): number {
    return this.#size;
  }

  /** All numbers are below this. */
  get end(): number {
    return this.#end;
  }

  /** The hash's number; -1 where it has none. */
  find(hash: Hash): number {
    const asked = this.#asked;
    for (let word = 0, at = 0; word < hashWords; word++) {
      let bits = 0;
      for (const end = at + wordDigits; at < end; at++)
        bits = (bits << 4) | (digitValues[hash.charCodeAt(at)] as number);
      asked[word] = bits;
    }
    const table = this.#tables[this.#askedShard()] as Int32Array;
    return (table[this.#placeOf(table)] as number) - 1;
  }

  /** The hash's number; a new one where it has none. */
  add(hash: Hash): number {
    const known = this.find(hash);
    if (known !== none) return known;
    const number = this.#take();
    this.#pageOf(number).set(this.#asked, (number % pageHashes) * hashWords);
    const shard = this.#askedShard();
    const count = (this.#counts[shard] as number) + 1;
    this.#counts[shard] = count;
    if (4 * count > 3 * (this.#tables[shard] as Int32Array).length) this.#grow(shard);
    const table = this.#tables[shard] as Int32Array;
    table[this.#placeOf(table)] = number + 1;
    this.#size++;
    return number;
  }

  /** Frees a number that is in use. */
  remove(number: number): void {
    const page = this.#pageOf(number);
    const at = (number % pageHashes) * hashWords;
    this.#asked.set(page.subarray(at, at + hashWords));
    const shard = this.#askedShard();
    const table = this.#tables[shard] as Int32Array;
    this.#vacate(table, this.#placeOf(table));
    this.#counts[shard] = (this.#counts[shard] as number) - 1;
    page[at] = this.#free;
    this.#free = number;
    this.#size--;
  }

  hashAt(number: number): Hash {
    const at = (number % pageHashes) * hashWords;
    return Array.from(this.#pageOf(number).subarray(at, at + hashWords), (word) =>
      (word >>> 0).toString(16).padStart(wordDigits, "0"),
    ).join("") as Hash;
  }

  /** Negative where the hash of `a` is smaller. */
  compare(a: number, b: number): number {
    for (let word = 0; word < hashWords; word++) {
      const difference = (this.#wordOf(a, word) >>> 0) - (this.#wordOf(b, word) >>> 0);
      if (difference !== 0) return difference;
    }
    return 0;
  }

  #pageOf(number: number): Int32Array {
    return this.#pages[Math.floor(number / pageHashes)] as Int32Array;
  }

  #wordOf(number: number, word: number): number {
    return this.#pageOf(number)[(number % pageHashes) * hashWords + word] as number;
  }

  #askedShard(): number {
    return (this.#asked[0] as number) >>> 24;
  }

  #take(): number {
    if (this.#free === none) {
      if (this.#end === this.#pages.length * pageHashes)
        this.#pages.push(new Int32Array(pageHashes * hashWords));
      return this.#end++;
    }
    const number = this.#free;
    this.#free = this.#wordOf(number, 0);
    return number;
  }

  /** The place of the asked hash, or the empty one where it belongs. The second word says where to look first. */
  #placeOf(table: Int32Array): number {
    const mask = table.length - 1;
    for (let place = (this.#asked[1] as number) & mask; ; place = (place + 1) & mask) {
      const number = (table[place] as number) - 1;
      if (number === none || this.#isAsked(number)) return place;
    }
  }

  #isAsked(number: number): boolean {
    const page = this.#pageOf(number);
    const at = (number % pageHashes) * hashWords;
    for (let word = 0; word < hashWords; word++) if (page[at + word] !== this.#asked[word]) return false;
    return true;
  }

  #grow(shard: number): void {
    const old = this.#tables[shard] as Int32Array;
    const table = new Int32Array(2 * old.length);
    const mask = table.length - 1;
    for (const entry of old) {
      if (entry === 0) continue;
      let place = this.#wordOf(entry - 1, 1) & mask;
      while (table[place] !== 0) place = (place + 1) & mask;
      table[place] = entry;
    }
    this.#tables[shard] = table;
  }

  /** Empties a place; later entries of the same run move up, so that they are still found. */
  #vacate(table: Int32Array, place: number): void {
    const mask = table.length - 1;
    let empty = place;
    for (let next = (empty + 1) & mask; table[next] !== 0; next = (next + 1) & mask) {
      const entry = table[next] as number;
      const home = this.#wordOf(entry - 1, 1) & mask;
      if (((next - home) & mask) < ((next - empty) & mask)) continue;
      table[empty] = entry;
      empty = next;
    }
    table[empty] = 0;
  }
}
