/**
 * Chooses the tensors that a version's tensors are coded against: the base's tensor at the same path, and the
 * one that the base's base has there, so that the last training step can be extrapolated. Pure.
 */
import type { Links } from "../../delta/links.js";
import type { LeafTable } from "../../model/model.js";
import type { Hash } from "../../tensor/tensor.js";

/** A version that both sides have completely. */
export interface HeldVersion {
  readonly versionId: Hash;
  readonly bases: readonly Hash[];
  readonly leaves: LeafTable;
}

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
    const previous = step?.before?.get(path);
    references.set(
      tensor,
      previous === undefined || previous === base || previous === tensor ? { base } : { base, previous },
    );
  }
  return references;
}
