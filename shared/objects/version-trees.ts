/** Reads all trees of a version: the model's, those of its checkpoints and the optimizer's. */
import type { Leaf, LeafTable } from "../model/model.js";
import { treesOf, type ReferringRecord, type TreeReference } from "../model/record-objects.js";
import { decodeTree } from "../model/tree-object.js";
import type { ModelKind } from "../model/tree.js";
import type { ObjectReader } from "./object-store.js";

export type VersionTree = TreeReference & { readonly kind: ModelKind; readonly leaves: LeafTable };

/**
 * Every tree with its leaves, in the order of `treesOf`; the model's is the first.
 * @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH, OBJECT_KIND_MISMATCH, TREE_MALFORMED
 */
export async function readTrees(
  objects: Pick<ObjectReader, "read">,
  record: ReferringRecord,
): Promise<readonly VersionTree[]> {
  return await Promise.all(
    treesOf(record).map(async (reference) => ({
      ...reference,
      ...decodeTree(await objects.read("tree", reference.tree)),
    })),
  );
}

/** The leaves of all trees, one for each tensor that is declared with one dtype and shape. */
export function leavesOfTrees(trees: readonly VersionTree[]): readonly Leaf[] {
  const found = new Map<string, Leaf>();
  for (const { leaves } of trees)
    for (const leaf of leaves) found.set(`${leaf.tensor} ${leaf.dtype} ${leaf.shape.join()}`, leaf);
  return [...found.values()];
}
