/**
 * Keeps exact models and reduced ones (through a float scheme, lossy) apart by name: a name alone means its
 * newest version, and must not change from one to the other. Pure.
 */
import { StemmaError } from "../../../shared/errors.js";
import type { VersionSummary } from "../fleet-repository.js";

/** @param newest of the versions that have the name already, retired ones too @throws MODEL_REDUCED */
export function checkExactness(
  name: string,
  scheme: string | undefined,
  newest: Pick<VersionSummary, "record"> | undefined,
): void {
  if (newest === undefined || (newest.record.scheme === undefined) === (scheme === undefined)) return;
  const [has, comes] = scheme === undefined ? ["reduced", "an exact"] : ["exact", "a reduced"];
  throw new StemmaError(
    "MODEL_REDUCED",
    `The versions named ${JSON.stringify(name)} are ${has}, and ${comes} one among them could be taken for one of those. Choose another name, such as ${JSON.stringify(`${name}-${scheme === undefined ? "exact" : "small"}`)}.`,
    { name },
  );
}
