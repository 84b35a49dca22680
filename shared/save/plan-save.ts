/**
 * Plans how a model is saved against its base. It finds what changed (from the trees alone, without
 * recovering the base), the approach, and the owner of each tensor. Pure; reads no store.
 */
import type { Approach, LeafTable } from "../model/model.js";
import { ownedByThis, ownerMapOf, ownerOf, type OwnerMap } from "../model/owner-map.js";
import { diffTrees, type TreeDiff } from "../model/tree-diff.js";
import type { Hash } from "../tensor/tensor.js";

/** The known parts of a base version without its tensors. */
export interface SaveBase {
  readonly versionId: Hash;
  /** Architecture hash, or `zeroHash`. */
  readonly architecture: Hash;
  readonly leaves: LeafTable;
  readonly ownerMap: OwnerMap;
}

export interface SavePlan {
  readonly approach: Extract<Approach, "snapshot" | "update">;
  /** Leaf indices whose tensors this version changed or added; the others are the base's. */
  readonly changed: readonly number[];
  readonly ownerMap: OwnerMap;
  readonly diff: TreeDiff | undefined;
}

/**
 * The approach is `requested`, or else `update` where a tensor is inherited from the base and `snapshot`
 * where none is. A tensor that only moved or was renamed is inherited. A reshaped one (MH18) is new.
 */
export function planSave(
  model: { readonly architecture: Hash; readonly leaves: LeafTable },
  base: SaveBase | undefined,
  requested?: "snapshot" | "update",
): SavePlan {
  if (base === undefined)
    return {
      approach: "snapshot",
      changed: model.leaves.map((_, i) => i),
      ownerMap: ownedByThis(model.leaves.length),
      diff: undefined,
    };
  const diff = diffTrees(base, model);
  const changed: number[] = [];
  const owners = model.leaves.map((_, i) => {
    const from = diff.unchangedLeaves[i];
    if (from === undefined) {
      changed.push(i);
      return undefined;
    }
    return ownerOf(base.ownerMap, from, base.versionId);
  });
  const inheritsAny = changed.length < model.leaves.length || model.leaves.length === 0;
  return {
    approach: requested ?? (inheritsAny ? "update" : "snapshot"),
    changed,
    ownerMap: ownerMapOf(owners),
    diff,
  };
}
