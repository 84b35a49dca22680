/**
 * Finds how tensors that differ between two versions follow from others by content. A changed one follows
 * from what it was, and one at a place that only the newer version has from any of the older version, found
 * by signatures. Reads a bounded number of bytes.
 */
import { describeRelation } from "../../../../shared/delta/derived/describe.js";
import type { Leaf } from "../../../../shared/model/model.js";
import type { Change, ModelSide } from "../../../../shared/model/tree-diff.js";
import { tensorByteLength } from "../../../../shared/tensor/dtype.js";
import { hasSameHeader } from "../../../../shared/tensor/same-header.js";
import { isSigned, SignatureBuilder, SignatureIndex } from "../../../../shared/tensor/tensor-signature.js";
import {
  tensorOfSource,
  type Hash,
  type Tensor,
  type TensorSource,
} from "../../../../shared/tensor/tensor.js";
import type { ModelDiff } from "../answers/version-answers.js";

/** Larger tensors are not read to compare their content, and no more bytes than these in all. */
export const diffLimits = { tensorBytes: 16 * 2 ** 20, bytes: 128 * 2 ** 20 };
/** Tensors that one elsewhere is compared with, those first that are most like it. */
const maxRelatives = 2;

type Changes = ModelDiff["changes"];

export interface TensorReader {
  openTensor(id: Hash): TensorSource;
}
export interface RelationSearch {
  readonly changes: readonly Change[];
  /** The older version. */
  readonly sideA: ModelSide;
  /** The leaves by path of other bases of the newer version, where the older one is one of its bases. */
  readonly otherBases: readonly ReadonlyMap<string, Leaf>[];
  readonly limits?: typeof diffLimits;
}

/** @throws OBJECT_HASH_MISMATCH, PACK_CORRUPT where a tensor that is read is damaged */
export async function withRelations(
  objects: TensorReader,
  { changes, sideA, otherBases, limits = diffLimits }: RelationSearch,
): Promise<Changes> {
  const reader = new BoundedReader(objects, limits);
  const found = new Map<Change, string>();
  for (const change of changes) {
    const { kind, a, b } = change;
    if ((kind !== "changed" && kind !== "reshaped") || a === undefined || b === undefined) continue;
    const others = otherBases.map((leaves) => leaves.get(b.path)).filter((leaf) => leaf !== undefined);
    const [child, ...references] = (await reader.read([b, a, ...others])) ?? [];
    const relation = child === undefined ? undefined : describeRelation(child, references);
    if (relation !== undefined) found.set(change, relation);
  }
  for (const [change, relation] of await relationsElsewhere(reader, changes, sideA))
    found.set(change, relation);
  return changes.map((change) => {
    const relation = found.get(change);
    return relation === undefined ? change : { ...change, relation };
  });
}

/** Finds how tensors at places that only the newer version has follow from the older version's. */
async function relationsElsewhere(
  reader: BoundedReader,
  changes: readonly Change[],
  { leaves, names }: ModelSide,
): Promise<ReadonlyMap<Change, string>> {
  const found = new Map<Change, string>();
  const added = changes.filter(({ kind, b }) => kind === "added" && b !== undefined && isSigned(b));
  if (added.length === 0) return found;
  const index = new SignatureIndex<number>();
  const removed = new Set(changes.filter(({ kind }) => kind === "removed").map(({ path }) => path));
  // Removed tensors are the likeliest: they are read first.
  const order = leaves
    .map((leaf, i) => ({ leaf, i }))
    .filter(({ leaf }) => isSigned(leaf))
    .sort((x, y) => Number(removed.has(y.leaf.path)) - Number(removed.has(x.leaf.path)) || x.i - y.i);
  // Half of what may be read is left for the tensors to compare.
  for (const { leaf, i } of order) {
    const [tensor] = (await reader.read([leaf], 0.5)) ?? [];
    if (tensor !== undefined) index.add(i, signatureOf(tensor));
  }
  for (const change of added) {
    const [child] = (await reader.read([change.b!])) ?? [];
    if (child === undefined) continue;
    for (const i of index.find(-1, signatureOf(child), maxRelatives)) {
      const [reference] = (await reader.read([leaves[i]!])) ?? [];
      if (reference === undefined) continue;
      const relation = describeRelation(child, [reference]) ?? likeness(child, reference);
      if (relation === undefined) continue;
      found.set(change, `from ${names?.[i] ?? leaves[i]!.path}: ${relation}`);
      break;
    }
  }
  return found;
}

function likeness(child: Tensor, reference: Tensor): string | undefined {
  return hasSameHeader(child, reference) ? "other numbers, with signs in common" : undefined;
}

function signatureOf(tensor: Tensor): ReturnType<SignatureBuilder["finish"]> {
  const builder = new SignatureBuilder(tensor);
  builder.update(tensor.bytes);
  return builder.finish();
}

/** Reads tensors until a number of bytes was read. */
class BoundedReader {
  #budget: number;
  constructor(
    private readonly objects: TensorReader,
    private readonly limits: typeof diffLimits,
  ) {
    this.#budget = limits.bytes;
  }

  /**
   * All of these tensors, or undefined where one is too large or too little may still be read.
   * @param reserved share of all bytes that is kept for later reads
   */
  async read(leaves: readonly Leaf[], reserved = 0): Promise<readonly Tensor[] | undefined> {
    const bytes = leaves.map(({ dtype, shape }) => tensorByteLength(dtype, shape));
    const total = bytes.reduce((sum, each) => sum + each, 0);
    const isTooLarge = bytes.some((each) => each > this.limits.tensorBytes);
    if (isTooLarge || total > this.#budget - reserved * this.limits.bytes) return undefined;
    this.#budget -= total;
    const tensors: Tensor[] = [];
    for (const { tensor } of leaves) tensors.push(await tensorOfSource(this.objects.openTensor(tensor)));
    return tensors;
  }
}
