/** The specification of an index of prefixes: a scan over all models. */
import type { PrefixCandidate, PrefixMatch } from "../../server/storage/lineage/prefix-index.js";
import type { Hash } from "../../shared/tensor/tensor.js";

/** A model as it was added to an index. */
export interface AddedModel {
  readonly model: PrefixCandidate;
  readonly identities: readonly Hash[];
}

/** Negative where `a` is preferred: the better one, then the newer one, then the one with the smaller id. */
function compareCandidates(a: PrefixCandidate, b: PrefixCandidate): number {
  const qualityOfA = a.quality ?? -Infinity;
  const qualityOfB = b.quality ?? -Infinity;
  if (qualityOfA !== qualityOfB) return qualityOfA > qualityOfB ? -1 : 1;
  if (a.savedAtMs !== b.savedAtMs) return b.savedAtMs - a.savedAtMs;
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}

export function longestByScan(
  models: Iterable<AddedModel>,
  query: readonly Hash[],
  except?: Hash,
): PrefixMatch | undefined {
  const asked = new Set(query);
  let best: PrefixMatch | undefined;
  for (const { identities, model } of models) {
    if (model.id === except) continue;
    const layers = new Set(identities.filter((identity) => asked.has(identity))).size;
    const isBetter =
      best === undefined ||
      layers > best.layers ||
      (layers === best.layers && compareCandidates(model, best.model) < 0);
    if (layers > 0 && isBetter) best = { model, layers };
  }
  return best;
}
