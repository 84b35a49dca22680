import type { Leaf, LeafTable } from "../../shared/model/model.js";
import { checkLeafOrder, comparePaths, type ModelKind } from "../../shared/model/tree.js";

/** Leaves sorted into canonical order, checked. @throws TREE_MALFORMED */
export function sortLeaves(kind: ModelKind, leaves: LeafTable): LeafTable {
  const sorted: Leaf[] = [...leaves].sort((a, b) => comparePaths(kind, a.path, b.path));
  checkLeafOrder(kind, sorted);
  return sorted;
}
