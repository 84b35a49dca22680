/**
 * Computes the hashes of RFC 6962's tree over a growing list of byte strings (section 2.1), and checks proofs
 * about it. Those show that an entry is in a list, and that one list is the start of another. merkle-tree.ts
 * makes the proofs. Pure; does not depend on the journal.
 */
import { Sha256, hashBytes } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

const leafTag = new Uint8Array([0]);
const nodeTag = new Uint8Array([1]);

/** Returns the leaf hash H(0x00 ‖ entry). */
export function logLeaf(entry: Uint8Array): Uint8Array {
  return new Sha256().update(leafTag).update(entry).digestBytes();
}
/** H(0x01 ‖ left ‖ right). */
export function logNode(left: Uint8Array, right: Uint8Array): Uint8Array {
  return new Sha256().update(nodeTag).update(left).update(right).digestBytes();
}
export const toHash = (bytes: Uint8Array): Hash => Buffer.from(bytes).toString("hex") as Hash;

/** Number of entries of a log, and its root. */
export interface LogRoot {
  readonly length: number;
  readonly root: Hash;
}

/** The statement of an inclusion proof: the entry with this leaf hash is at `position` in a log of `length` entries. */
export interface Inclusion extends LogRoot {
  readonly leaf: Uint8Array;
  readonly position: number;
  readonly proof: readonly Hash[];
}

const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;

/**
 * True if `proof` leads from the leaf hash at `position` to the root of a log of `length` entries (RFC 9162
 * section 2.1.3.2, the same tree). Bounded by the proof's own length.
 * @public A program that holds a proof of the journal checks it with this function (docs/formats.md).
 */
export function verifyInclusion({ leaf, position, length, proof, root }: Inclusion): boolean {
  if (!isCount(position) || !isCount(length) || position >= length) return false;
  // Walk up with the indices of the node and of the last node of its level.
  let at = position;
  let last = length - 1;
  let hash = leaf;
  for (const sibling of proof) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      hash = logNode(hashBytes(sibling), hash);
      while (at % 2 === 0 && at !== 0) {
        at /= 2;
        last = Math.floor(last / 2);
      }
    } else hash = logNode(hash, hashBytes(sibling));
    at = Math.floor(at / 2);
    last = Math.floor(last / 2);
  }
  return last === 0 && toHash(hash) === root;
}

/** The statement of a consistency proof: the log `from` is the start of the log `to`. */
export interface Consistency {
  readonly from: LogRoot;
  readonly to: LogRoot;
  readonly proof: readonly Hash[];
}

/**
 * True if `proof` shows that the first entries of the log `to` are exactly those of the log `from` (RFC 9162
 * section 2.1.4.2). An empty log is the start of every log, and a log of itself; both have an empty proof.
 * Bounded by the proof's own length.
 * @public A program that holds two heads of the journal checks them with this function (docs/formats.md).
 */
export function verifyConsistency({ from, to, proof }: Consistency): boolean {
  if (!isCount(from.length) || !isCount(to.length) || from.length > to.length) return false;
  if (from.length === to.length) return proof.length === 0 && from.root === to.root;
  if (from.length === 0) return proof.length === 0 && from.root === emptyRoot;
  let at = from.length - 1;
  let last = to.length - 1;
  while (at % 2 === 1) {
    at = Math.floor(at / 2);
    last = Math.floor(last / 2);
  }
  // A log whose length is a power of two is one node of the longer tree: the proof leaves it out.
  const path = at === 0 ? [from.root, ...proof] : proof;
  const [first, ...siblings] = path;
  if (first === undefined) return false;
  let fromHash = hashBytes(first);
  let toRoot = fromHash;
  for (const sibling of siblings) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      fromHash = logNode(hashBytes(sibling), fromHash);
      toRoot = logNode(hashBytes(sibling), toRoot);
      while (at % 2 === 0 && at !== 0) {
        at /= 2;
        last = Math.floor(last / 2);
      }
    } else toRoot = logNode(toRoot, hashBytes(sibling));
    at = Math.floor(at / 2);
    last = Math.floor(last / 2);
  }
  return last === 0 && toHash(fromHash) === from.root && toHash(toRoot) === to.root;
}

/** H(""): the root of an empty log. */
export const emptyRoot = new Sha256().digest();
