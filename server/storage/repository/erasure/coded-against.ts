/** Finds the tensors that have to be rewritten, so that others can go. Pure. */
import { listReferences, type Links } from "../../../../shared/delta/links.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

/**
 * The tensors that stay and are coded against one that does not, of which `doomed` is one, or is needed by it.
 * @param linksOf undefined for what is not a tensor here
 */
export function codedAgainst(
  doomed: ReadonlySet<Hash>,
  live: Pick<ReadonlySet<Hash>, "has">,
  tensors: Iterable<Hash>,
  linksOf: (id: Hash) => Links<Hash> | undefined,
): readonly Hash[] {
  const referencesOf = (id: Hash): readonly Hash[] => listReferences(linksOf(id) ?? {});
  const known = new Map<Hash, boolean>();
  /** True if a tensor that does not stay is doomed, or keeps one that is. Chains are short and have no cycles. */
  const holds = (id: Hash): boolean => {
    const answered = known.get(id);
    if (answered !== undefined) return answered;
    const found = doomed.has(id) || referencesOf(id).some((next) => !live.has(next) && holds(next));
    known.set(id, found);
    return found;
  };
  return [...tensors].filter(
    (id) => live.has(id) && referencesOf(id).some((next) => !live.has(next) && holds(next)),
  );
}
