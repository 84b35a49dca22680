/**
 * Chooses the tensors that a version's tensors are coded against. Those are the base's tensor at the same
 * path, and the one that the base's base has there, so that the last training step can be extrapolated; for a
 * checkpoint's, the tensor of the checkpoint after it. Pure.
 */
import { linksTo, maxReferences, type Links } from "../../delta/links.js";
import type { LeafTable } from "../../model/model.js";
import type { Hash } from "../../tensor/tensor.js";

/** A version that both sides have completely. */
export interface HeldVersion {
  readonly versionId: Hash;
  readonly bases: readonly Hash[];
  readonly leaves: LeafTable;
}

/**
 * Max tensors of the same stream that have to be decoded before one: a receiver decodes them again where it
 * cannot store them as they came.
 */
export const maxOwnDepth = 4;

export type TensorReferences = Links<Hash>;

function byPath(leaves: LeafTable): ReadonlyMap<string, Hash> {
  return new Map(leaves.map(({ path, tensor }) => [path, tensor]));
}

/**
 * @param bases of the version, in its record's order
 * @param held versions that may be coded against
 * @returns by tensor id; a tensor that several leaves share gets the references of the first. A tensor
 * without a counterpart has no entry
 */
export function referencesOfTensors(
  { bases, leaves }: Pick<HeldVersion, "bases" | "leaves">,
  held: readonly HeldVersion[],
): ReadonlyMap<Hash, TensorReferences> {
  const known = new Map(held.map((version) => [version.versionId, version]));
  const chain = bases.flatMap((id) => {
    const base = known.get(id);
    const before = base?.bases.map((one) => known.get(one)).find((one) => one !== undefined);
    return base === undefined
      ? []
      : [{ base: byPath(base.leaves), before: before === undefined ? undefined : byPath(before.leaves) }];
  });
  const references = new Map<Hash, TensorReferences>();
  for (const { path, tensor } of leaves) {
    if (references.has(tensor)) continue;
    const step = chain.find(({ base }) => base.has(path));
    const base = step?.base.get(path);
    if (base === undefined || base === tensor) continue;
    const all = new Set(chain.map((each) => each.base.get(path)).filter((id) => id !== undefined));
    // A version of several bases may be their average.
    if (all.size > 1 && !all.has(tensor)) {
      references.set(tensor, linksTo([...all].slice(0, maxReferences)));
      continue;
    }
    const previous = step?.before?.get(path);
    references.set(
      tensor,
      previous === undefined || previous === base || previous === tensor ? { base } : { base, previous },
    );
  }
  return references;
}

/**
 * Returns what checkpoints' tensors are coded against in the stream that brings them and the model: the tensor at the
 * same path of the next checkpoint; of the model for the last one, and where the chain would be too long.
 * @param checkpoints ascending
 * @param tensors the stream's tensors in their order: a reference comes before what is coded against it
 */
export function ownReferences(
  model: LeafTable,
  checkpoints: readonly LeafTable[],
  tensors: readonly Hash[],
): ReadonlyMap<Hash, TensorReferences> {
  const positions = new Map(tensors.map((id, index) => [id, index]));
  const references = new Map<Hash, TensorReferences>();
  const depths = new Map<Hash, number>();
  const depthOf = (id: Hash | undefined): number => (id === undefined ? 0 : (depths.get(id) ?? 0));
  const last = byPath(model);
  const ofModel = new Set(last.values());
  let next = last;
  for (const leaves of [...checkpoints].reverse()) {
    for (const { path, tensor } of leaves) {
      const nearest = next.get(path);
      const base = depthOf(nearest) < maxOwnDepth ? nearest : last.get(path);
      if (base === undefined || base === tensor || references.has(tensor) || ofModel.has(tensor)) continue;
      if ((positions.get(base) ?? Infinity) >= (positions.get(tensor) ?? -1)) continue;
      references.set(tensor, { base });
      depths.set(tensor, 1 + depthOf(base));
    }
    next = byPath(leaves);
  }
  return references;
}
