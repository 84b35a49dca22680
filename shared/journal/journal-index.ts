/**
 * Keeps in memory, for each entry of an opened journal, its leaf hash in the Merkle tree, and where its frame
 * begins. With it, proofs read one entry at most, however long the journal is.
 */
import type { Hash } from "../tensor/tensor.js";
import { logLeaf } from "./merkle-log.js";
import { MerkleTree } from "./merkle-tree.js";

export class JournalIndex {
  readonly #tree = new MerkleTree();
  readonly #offsets: number[] = [];

  /** Adds an entry, whose frame begins at `offset` in the last segment. */
  append(payload: Uint8Array, offset: number): void {
    this.#tree.append(logLeaf(payload));
    this.#offsets.push(offset);
  }
  /** Forgets all entries from `length` on. */
  truncate(length: number): void {
    this.#tree.truncate(length);
    this.#offsets.length = length;
  }
  offset(position: number): number {
    return this.#offsets[position] as number;
  }
  root(length?: number): Hash {
    return this.#tree.root(length);
  }
  inclusionProof(position: number, length: number): readonly Hash[] {
    return this.#tree.inclusionProof(position, length);
  }
  consistencyProof(from: number, to: number): readonly Hash[] {
    return this.#tree.consistencyProof(from, to);
  }
}
