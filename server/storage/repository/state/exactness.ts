/**
 * Keeps exact models and reduced ones (made lossy by a float scheme) under different names. A name without a
 * version refers to its newest version, and this must not change from exact to reduced. Pure.
 */
import type { VersionSummary } from "../answers/version-answers.js";
import { exactAndReduced } from "./state-errors.js";

/**
 * @param newest the name's newest version, which may be retired
 * @throws MODEL_REDUCED
 */
export function checkExactness(
  name: string,
  scheme: string | undefined,
  newest: Pick<VersionSummary, "record"> | undefined,
): void {
  if (newest === undefined || (newest.record.scheme === undefined) === (scheme === undefined)) return;
  const [existing, added] = scheme === undefined ? ["reduced", "an exact"] : ["exact", "a reduced"];
  throw exactAndReduced(name, existing, added, scheme === undefined ? "exact" : "small");
}
