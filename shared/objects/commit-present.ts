/** Commits references to objects, in every kind of store. */
import type { Hash } from "../tensor/tensor.js";
import type { Leases } from "./leases.js";
import { referencedMissing } from "./object-errors.js";
import type { ObjectIndex } from "./object-index.js";

const maxReportedIds = 1000;

/**
 * Checks that the store has all of `needed`, then runs `action`, which makes references to them durable. The
 * caller holds the lock that a collection takes too. @throws REFERENCE_MISSING
 */
export async function commitPresent<T>(
  { index, leases }: { readonly index: ObjectIndex; readonly leases: Leases },
  needed: Iterable<Hash>,
  action: () => Promise<T>,
): Promise<T> {
  const ids = [...needed];
  const missing = ids.filter((id) => !index.isUsable(id));
  if (missing.length > 0) throw referencedMissing(missing, ids.length, maxReportedIds);
  const result = await action();
  leases.referenced(ids);
  return result;
}
