/** Makes Merkle trees with all their leaves in memory. */
import type { logNode } from "../../shared/journal/merkle-log.js";
import { MerkleTree, type Subtree } from "../../shared/journal/merkle-tree.js";

/** @param options `combine` counts steps */
export function wholeTree(
  leaves: Iterable<Uint8Array>,
  { level = 4, combine }: { readonly level?: number; readonly combine?: typeof logNode } = {},
): MerkleTree {
  const subtrees: Subtree[] = [];
  const tree = new MerkleTree({ level, combine, subtreeAt: (index) => subtrees[index] as Subtree });
  for (const leaf of leaves) {
    const complete = tree.append(leaf);
    if (complete !== undefined) subtrees.push(complete);
  }
  return tree;
}
