/**
 * Plans a recovery: which tensors have to be read, which version owns each, and which are missing. Pure:
 * takes a record and the small objects it names.
 */
import { StemmaError } from "../errors.js";
import type { LeafTable, SaveRecord } from "../model/model.js";
import { describePart, type RecoveredPart } from "./recovered-part.js";
import { ownerOf, type OwnerMap } from "../model/owner-map.js";
import { treeRoot, type ModelKind } from "../model/tree.js";
import { tensorByteLength } from "../tensor/dtype.js";
import type { Hash } from "../tensor/tensor.js";

export interface PlannedTensor {
  readonly leaf: number;
  readonly path: string;
  readonly tensor: Hash;
  readonly owner: Hash;
  readonly byteLength: number;
}

export interface RecoveryPlan {
  readonly versionId: Hash;
  /** Root of the tree that is recovered. */
  readonly root: Hash;
  /** One per leaf, in canonical order. Each takes one look-up, however long the chain of bases (EV8). */
  readonly tensors: readonly PlannedTensor[];
  /** Versions that own a tensor of this one; usually itself too. */
  readonly owners: ReadonlySet<Hash>;
  readonly byteLength: number;
  /** Tensors that the store does not have. */
  readonly missing: readonly PlannedTensor[];
}

/** A version's record, and the small objects of it that a plan needs. */
export interface VersionObjects {
  readonly versionId: Hash;
  readonly record: SaveRecord;
  readonly part: RecoveredPart;
  readonly tree: { readonly kind: ModelKind; readonly leaves: LeafTable };
  readonly ownerMap: OwnerMap;
}

/**
 * @param has whether the store holds a tensor
 * @throws ROOT_MISMATCH where the tree's root is not the record's, TREE_MALFORMED where its kind is not
 */
export function resolveRecovery(
  { versionId, record, part, tree, ownerMap }: VersionObjects,
  has: (tensor: Hash) => boolean,
): RecoveryPlan {
  const kind = part === "optimizer" ? "opaque" : record.kind;
  if (tree.kind !== kind)
    throw new StemmaError(
      "TREE_MALFORMED",
      `Version ${versionId} is of kind ${record.kind}, but its tree of ${describePart(part)} of ` +
        `kind ${tree.kind}. Check the store.`,
      { versionId },
    );
  const root = treeRoot(tree.leaves);
  // The record has the root of the model; those of other trees follow from the tree's id.
  if (part === "model" && root !== record.root)
    throw new StemmaError(
      "ROOT_MISMATCH",
      `The tree of version ${versionId} has the root ${root}, but its record has ${record.root}. Check the store, and fetch the version again.`,
      { expected: record.root, actual: root },
    );
  const tensors = tree.leaves.map(({ path, dtype, shape, tensor }, leaf): PlannedTensor => ({
    leaf,
    path,
    tensor,
    owner: ownerOf(ownerMap, leaf, versionId),
    byteLength: tensorByteLength(dtype, shape),
  }));
  return {
    versionId,
    root,
    tensors,
    owners: new Set(tensors.map(({ owner }) => owner)),
    byteLength: tensors.reduce((sum, { byteLength }) => sum + byteLength, 0),
    missing: tensors.filter(({ tensor }) => !has(tensor)),
  };
}

/** @throws RECOVERY_INCOMPLETE naming what is missing */
export function refuseMissing(plan: RecoveryPlan): void {
  const [first] = plan.missing;
  if (first === undefined) return;
  throw new StemmaError(
    "RECOVERY_INCOMPLETE",
    `${plan.missing.length} of ${plan.tensors.length} tensors of version ${plan.versionId} are not in the store; the first is ${JSON.stringify(first.path)} (${first.tensor}). Run storage check, and restore them from a backup or the device.`,
    { missing: plan.missing.map(({ tensor }) => tensor) },
  );
}
