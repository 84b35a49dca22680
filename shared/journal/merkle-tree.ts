/**
 * Keeps RFC 6962's tree over a growing list of leaf hashes. So roots and proofs of any length of the list cost
 * O(log n). It keeps the hashes from a level upwards; the subtrees below are kept, or made again, by its owner.
 * Pure; merkle-log.ts checks the proofs.
 */
import type { Hash } from "../tensor/tensor.js";
import { emptyRoot, logNode, toHash } from "./merkle-log.js";

const hashLength = 32;

/** The hashes of a perfect subtree of 2^level leaves, or of its first leaves. */
export class Subtree {
  /** The leaves, then the level above them, and so on up to the root. */
  readonly #hashes: Uint8Array;
  #length = 0;

  constructor(
    readonly level: number,
    private readonly combine: typeof logNode = logNode,
  ) {
    this.#hashes = new Uint8Array((2 ** (level + 1) - 1) * hashLength);
  }

  get isComplete(): boolean {
    return this.#length === 2 ** this.level;
  }

  append(leaf: Uint8Array): void {
    let index = this.#length++;
    this.#place(0, index).set(leaf);
    for (let level = 1; index % 2 === 1; level++) {
      index = (index - 1) / 2;
      const hash = this.combine(this.#place(level - 1, 2 * index), this.#place(level - 1, 2 * index + 1));
      this.#place(level, index).set(hash);
    }
  }

  /** The hash over 2^level leaves, the one with this index on its level; its leaves were appended. */
  node(level: number, index: number): Uint8Array {
    if ((index + 1) * 2 ** level > this.#length)
      throw new RangeError(`no node ${index} of level ${level} over ${this.#length} leaves`);
    return this.#place(level, index);
  }

  #place(level: number, index: number): Uint8Array {
    const before = 2 ** (this.level + 1) - 2 ** (this.level + 1 - level);
    return this.#hashes.subarray((before + index) * hashLength, (before + index + 1) * hashLength);
  }
}

export interface MerkleTreeOptions {
  /** Hashes over 2^level leaves and more are kept. */
  readonly level: number;
  /** Returns a complete subtree of this level, counted from 0; absent: only the newest root is asked for. */
  readonly subtreeAt?: ((index: number) => Subtree) | undefined;
  /** Counts steps in tests. */
  readonly combine?: typeof logNode | undefined;
}

export class MerkleTree {
  /** Hashes over 2^(level + i) leaves. */
  readonly #levels: HashList[] = [];
  readonly #options: MerkleTreeOptions;
  readonly #combine: typeof logNode;
  #newest: Subtree;
  #length = 0;

  constructor(options: MerkleTreeOptions) {
    this.#options = options;
    this.#combine = options.combine ?? logNode;
    this.#newest = new Subtree(options.level, this.#combine);
  }

  /** Number of leaves. */
  get length(): number {
    return this.#length;
  }

  /** Adds a leaf hash. Returns the subtree that it completes. */
  append(leaf: Uint8Array): Subtree | undefined {
    const { level } = this.#options;
    const newest = this.#newest;
    newest.append(leaf);
    this.#length++;
    if (!newest.isComplete) return undefined;
    this.#keep(newest.node(level, 0));
    this.#newest = new Subtree(level, this.#combine);
    return newest;
  }

  /** Adds a perfect subtree of 2^level leaves after others like it. */
  appendSubtree(root: Uint8Array): void {
    const leaves = 2 ** this.#options.level;
    if (this.#length % leaves > 0)
      throw new RangeError(`${this.#length} leaves do not end with a subtree of ${leaves}`);
    this.#length += leaves;
    this.#keep(root);
  }

  #keep(root: Uint8Array): void {
    let hash = root;
    for (let level = this.#options.level; ; level++) {
      const list = (this.#levels[level - this.#options.level] ??= new HashList());
      list.push(hash);
      if (this.#length % 2 ** (level + 1) > 0) return;
      hash = this.#combine(list.at(list.length - 2), list.at(list.length - 1));
    }
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
    const kept = this.#levels[level - this.#options.level];
    if (kept !== undefined) return kept.at(index);
    const nodes = 2 ** (this.#options.level - level);
    const block = Math.floor(index / nodes);
    const isNewest = (block + 1) * 2 ** this.#options.level > this.#length;
    const subtree = isNewest ? this.#newest : this.#options.subtreeAt?.(block);
    if (subtree === undefined) throw new RangeError(`the leaves of subtree ${block} are not kept`);
    return subtree.node(level, index % nodes);
  }
}

/** The largest power of two smaller than n (n ≥ 2). */
function splitOf(n: number): number {
  let split = 1;
  while (split * 2 < n) split *= 2;
  return split;
}

const chunkHashes = 1024;

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
}
