/**
 * Keeps RFC 6962's tree over a growing list of leaf hashes in memory. So roots and proofs of any length of
 * the list cost O(log n). 34 bytes for each leaf: the hashes of small subtrees are computed again from their
 * leaves. Pure; merkle-log.ts checks the proofs.
 */
import type { Hash } from "../tensor/tensor.js";
import { emptyRoot, logNode, toHash } from "./merkle-log.js";

/** Levels above the leaves that are not kept: a subtree of at most 8 leaves is computed again. */
const firstKeptLevel = 4;

export class MerkleTree {
  readonly #leaves = new HashList();
  /** Perfect subtrees of 2^(firstKeptLevel + i) leaves. */
  readonly #levels: HashList[] = [];
  readonly #combine: typeof logNode;

  /** @param combine counts steps in tests */
  constructor(combine: typeof logNode = logNode) {
    this.#combine = combine;
  }

  /** Number of leaves. */
  get length(): number {
    return this.#leaves.length;
  }

  /** Adds a leaf hash. */
  append(leaf: Uint8Array): void {
    this.#leaves.push(leaf);
    for (let level = firstKeptLevel; this.length % 2 ** level === 0; level++) {
      const list = (this.#levels[level - firstKeptLevel] ??= new HashList());
      const index = this.length / 2 ** level - 1;
      list.push(this.#combine(this.#node(level - 1, 2 * index), this.#node(level - 1, 2 * index + 1)));
    }
  }

  /** Forgets all leaves from `length` on. */
  truncate(length: number): void {
    this.#leaves.truncate(length);
    for (const [i, list] of this.#levels.entries())
      list.truncate(Math.floor(length / 2 ** (firstKeptLevel + i)));
  }

  /** Root of the first `length` leaves. */
  root(length = this.length): Hash {
    this.#requireLength(length);
    return length === 0 ? emptyRoot : toHash(this.#range(0, length));
  }

  /**
   * PATH(position, D[length]) of RFC 6962 section 2.1.1: the siblings from the leaf to the root, lowest first.
   */
  inclusionProof(position: number, length = this.length): readonly Hash[] {
    this.#requireLength(length);
    if (!Number.isInteger(position) || position < 0 || position >= length)
      throw new RangeError(`no leaf ${position} among ${length}`);
    const siblings: Uint8Array[] = [];
    let start = 0;
    let end = length;
    while (end - start > 1) {
      const middle = start + splitOf(end - start);
      if (position < middle) {
        siblings.push(this.#range(middle, end));
        end = middle;
      } else {
        siblings.push(this.#range(start, middle));
        start = middle;
      }
    }
    return siblings.reverse().map(toHash);
  }

  /**
   * PROOF(from, D[to]) of RFC 6962 section 2.1.2; empty where `from` is 0 or equals `to`.
   */
  consistencyProof(from: number, to = this.length): readonly Hash[] {
    this.#requireLength(to);
    if (!Number.isInteger(from) || from < 0 || from > to)
      throw new RangeError(`${from} leaves are not the start of ${to}`);
    if (from === 0) return [];
    const hashes: Uint8Array[] = [];
    let start = 0;
    let end = to;
    // The older tree consists of complete subtrees of the longer one: go down to the last of them.
    while (end !== from) {
      const middle = start + splitOf(end - start);
      if (from <= middle) {
        hashes.push(this.#range(middle, end));
        end = middle;
      } else {
        hashes.push(this.#range(start, middle));
        start = middle;
      }
    }
    // Where that subtree is the complete older tree, its root is known to whoever checks the proof.
    if (start > 0) hashes.push(this.#range(start, end));
    return hashes.reverse().map(toHash);
  }

  #requireLength(length: number): void {
    if (!Number.isInteger(length) || length < 0 || length > this.length)
      throw new RangeError(`the tree has ${this.length} leaves, not ${length}`);
  }

  /** Hash over the leaves from `start` up to `end`, which is not included; `start` as in the recursion of RFC 6962. */
  #range(start: number, end: number): Uint8Array {
    const size = end - start;
    const level = Math.log2(size);
    if (Number.isInteger(level)) return this.#node(level, start / size);
    const middle = start + splitOf(size);
    return this.#combine(this.#range(start, middle), this.#range(middle, end));
  }

  /** Hash of the perfect subtree of 2^level leaves with this index among those of its level. */
  #node(level: number, index: number): Uint8Array {
    if (level === 0) return this.#leaves.at(index);
    const kept = this.#levels[level - firstKeptLevel];
    if (kept !== undefined) return kept.at(index);
    return this.#combine(this.#node(level - 1, 2 * index), this.#node(level - 1, 2 * index + 1));
  }
}

/** The largest power of two smaller than n (n ≥ 2). */
function splitOf(n: number): number {
  let split = 1;
  while (split * 2 < n) split *= 2;
  return split;
}

const chunkHashes = 1024;
const hashLength = 32;

/** A growing list of hashes without an object for each. */
class HashList {
  readonly #chunks: Uint8Array[] = [];
  #length = 0;

  get length(): number {
    return this.#length;
  }
  push(hash: Uint8Array): void {
    const offset = this.#length % chunkHashes;
    if (offset === 0) this.#chunks.push(new Uint8Array(chunkHashes * hashLength));
    this.#chunks.at(-1)?.set(hash, offset * hashLength);
    this.#length++;
  }
  /** A view of the hash. */
  at(index: number): Uint8Array {
    const chunk = this.#chunks[Math.floor(index / chunkHashes)];
    if (chunk === undefined || index >= this.#length)
      throw new RangeError(`no hash ${index} among ${this.#length}`);
    const offset = (index % chunkHashes) * hashLength;
    return chunk.subarray(offset, offset + hashLength);
  }
  truncate(length: number): void {
    this.#length = length;
    this.#chunks.length = Math.ceil(length / chunkHashes);
  }
}
