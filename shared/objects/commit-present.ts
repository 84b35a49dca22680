/** Commits references to objects, in every kind of store. */
import { StemmaError } from "../errors.js";
import type { Hash } from "../tensor/tensor.js";
import type { Leases } from "./leases.js";
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
  if (missing.length > 0)
    throw new StemmaError(
      "REFERENCE_MISSING",
      `${missing.length} of ${ids.length} objects to be referenced are not in this store; the first is ${missing[0]}. Send them and try again.`,
      { missing: missing.slice(0, maxReportedIds), count: missing.length },
    );
  const result = await action();
  leases.referenced(ids);
  return result;
}
