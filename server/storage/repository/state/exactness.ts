/**
 * Keeps exact models and reduced ones (made lossy by a float scheme) under different names. A name without a
 * version refers to its newest version, and this must not change from exact to reduced. Pure.
 */
import { StemmaError } from "../../../../shared/errors.js";
import type { VersionSummary } from "../answers/version-answers.js";

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
  throw new StemmaError(
    "MODEL_REDUCED",
    `The versions named ${JSON.stringify(name)} are ${existing}; ${added} one under the same name could be mistaken for one of them. Choose another name, such as ${JSON.stringify(`${name}-${scheme === undefined ? "exact" : "small"}`)}.`,
    { name },
  );
}
