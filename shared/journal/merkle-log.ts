/**
 * The RFC 6962 tree over a growing list of byte strings: its root (section 2.1), and proofs that a leaf is in
 * it (section 2.1.1). Pure; does not depend on the journal.
 */
import { Sha256, hashBytes, sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

const leafTag = new Uint8Array([0]);
const nodeTag = new Uint8Array([1]);

/** H(0x00 ‖ entry). */
export function logLeaf(entry: Uint8Array): Uint8Array {
  return new Sha256().update(leafTag).update(entry).digestBytes();
}
function node(left: Uint8Array, right: Uint8Array): Uint8Array {
  return new Sha256().update(nodeTag).update(left).update(right).digestBytes();
}
const toHash = (bytes: Uint8Array): Hash => Buffer.from(bytes).toString("hex") as Hash;

/**
 * Root of everything appended so far, in O(log n) space: the roots of the perfect subtrees that make up the
 * list.
 */
export class MerkleLog {
  #length = 0;
  #subtrees: readonly Uint8Array[] = [];

  get length(): number {
    return this.#length;
  }

  /** Adds a leaf hash. */
  append(leaf: Uint8Array): void {
    const subtrees = [...this.#subtrees];
    let merged = leaf;
    for (let size = this.#length; size % 2 === 1; size = (size - 1) / 2)
      merged = node(subtrees.pop() as Uint8Array, merged);
    subtrees.push(merged);
    this.#subtrees = subtrees;
    this.#length++;
  }

  /** An independent copy. */
  fork(): MerkleLog {
    const copy = new MerkleLog();
    copy.#length = this.#length;
    copy.#subtrees = this.#subtrees;
    return copy;
  }

  root(): Hash {
    let root = this.#subtrees.at(-1);
    if (root === undefined) return sha256();
    for (let i = this.#subtrees.length - 2; i >= 0; i--) root = node(this.#subtrees[i] as Uint8Array, root);
    return toHash(root);
  }
}

/** The largest power of two smaller than n (n ≥ 2). */
function splitOf(n: number): number {
  let split = 1;
  while (split * 2 < n) split *= 2;
  return split;
}

function rootOfLeaves(leaves: readonly Uint8Array[]): Uint8Array {
  const log = new MerkleLog();
  for (const leaf of leaves) log.append(leaf);
  return hashBytes(log.root());
}

/**
 * PATH(m, D[n]) of RFC 6962 section 2.1.1: the siblings from the leaf at `position` to the root, lowest
 * first. `leaves` are leaf hashes.
 */
export function inclusionProof(leaves: readonly Uint8Array[], position: number): readonly Hash[] {
  if (!Number.isInteger(position) || position < 0 || position >= leaves.length)
    throw new RangeError(`no leaf ${position} among ${leaves.length}`);
  if (leaves.length === 1) return [];
  const split = splitOf(leaves.length);
  const left = leaves.slice(0, split);
  const right = leaves.slice(split);
  return position < split
    ? [...inclusionProof(left, position), toHash(rootOfLeaves(right))]
    : [...inclusionProof(right, position - split), toHash(rootOfLeaves(left))];
}

/**
 * What an inclusion proof shows: the entry with this leaf hash is at `position` in a log of `length` entries.
 */
export interface Inclusion {
  readonly leaf: Uint8Array;
  readonly position: number;
  readonly length: number;
  readonly proof: readonly Hash[];
  /** Of the complete log. */
  readonly root: Hash;
}

/**
 * Whether `proof` leads from the leaf hash at `position` to the root of a log of `length` entries. Bounded by
 * the proof's own length.
 * @public A program that holds a proof of the journal checks it with this function (docs/formats.md).
 */
export function verifyInclusion({ leaf, position, length, proof, root }: Inclusion): boolean {
  if (!Number.isSafeInteger(position) || !Number.isSafeInteger(length) || position < 0 || position >= length)
    return false;
  // RFC 9162 section 2.1.3.2, the same tree: walk up with the indices of the node and of the last node of its
  // level.
  let at = position;
  let last = length - 1;
  let hash = leaf;
  for (const sibling of proof) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      hash = node(hashBytes(sibling), hash);
      while (at % 2 === 0 && at !== 0) {
        at /= 2;
        last = Math.floor(last / 2);
      }
    } else hash = node(hash, hashBytes(sibling));
    at = Math.floor(at / 2);
    last = Math.floor(last / 2);
  }
  return last === 0 && toHash(hash) === root;
}
