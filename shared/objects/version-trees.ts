/**
 * Reads all trees of a version: the model's, those of its checkpoints and the optimizer's. A record may name 256
 * checkpoints, and a tree may have a million leaves: each tree is read once, however often the record names it,
 * and one after the other.
 */
import type { Leaf, LeafTable } from "../model/model.js";
import { treesOf, type ReferringRecord, type TreeReference } from "../model/record-objects.js";
import { decodeTree } from "../model/tree-object.js";
import type { ModelKind } from "../model/tree.js";
import { hasSameHeader } from "../tensor/same-header.js";
import type { Hash } from "../tensor/tensor.js";
import type { ObjectReader } from "./object-store.js";

export type VersionTree = TreeReference & { readonly kind: ModelKind; readonly leaves: LeafTable };

/** A stored tree. */
export interface DistinctTree {
  /** The parts of the version that it belongs to, in the order of `treesOf`. */
  readonly references: readonly [TreeReference, ...TreeReference[]];
  readonly kind: ModelKind;
  readonly leaves: LeafTable;
}

/**
 * Every stored tree once; the model's is the first. Only one is in memory, unless the caller keeps it.
 * @throws OBJECT_MISSING, OBJECT_HASH_MISMATCH, OBJECT_KIND_MISMATCH, TREE_MALFORMED
 */
export async function* distinctTrees(
  objects: Pick<ObjectReader, "read">,
  record: ReferringRecord,
): AsyncGenerator<DistinctTree, void, undefined> {
  const found = new Map<Hash, [TreeReference, ...TreeReference[]]>();
  for (const reference of treesOf(record)) {
    const known = found.get(reference.tree);
    if (known === undefined) found.set(reference.tree, [reference]);
    else known.push(reference);
  }
  for (const [tree, references] of found)
    yield { references, ...decodeTree(await objects.read("tree", tree)) };
}

/** Every tree with its leaves, in the order of `treesOf`, all in memory. @throws as distinctTrees */
export async function readTrees(
  objects: Pick<ObjectReader, "read">,
  record: ReferringRecord,
): Promise<readonly VersionTree[]> {
  const found = new Map<Hash, Pick<DistinctTree, "kind" | "leaves">>();
  for await (const { references, kind, leaves } of distinctTrees(objects, record))
    found.set(references[0].tree, { kind, leaves });
  return treesOf(record).map((reference) => ({
    ...reference,
    ...(found.get(reference.tree) as Pick<DistinctTree, "kind" | "leaves">),
  }));
}

/** Collects the leaves of trees, one for each tensor that is declared with one dtype and shape. */
export class DistinctLeaves {
  readonly #found = new Map<Hash, Leaf>();
  /** The leaves of a wrong record that declare a tensor of `#found` with another dtype or shape. */
  readonly #others = new Map<string, Leaf>();

  add(leaves: LeafTable): void {
    for (const leaf of leaves) {
      const known = this.#found.get(leaf.tensor);
      if (known === undefined) this.#found.set(leaf.tensor, leaf);
      else if (!hasSameHeader(known, leaf))
        this.#others.set(`${leaf.tensor} ${leaf.dtype} ${leaf.shape.join()}`, leaf);
    }
  }

  all(): readonly Leaf[] {
    return [...this.#found.values(), ...this.#others.values()];
  }
}

/** The leaves of all trees of a version, as DistinctLeaves. @throws as distinctTrees */
export async function readDistinctLeaves(
  objects: Pick<ObjectReader, "read">,
  record: ReferringRecord,
): Promise<readonly Leaf[]> {
  const found = new DistinctLeaves();
  for await (const { leaves } of distinctTrees(objects, record)) found.add(leaves);
  return found.all();
}
