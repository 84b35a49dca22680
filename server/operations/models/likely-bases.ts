/**
 * Finds the versions that an import which names no base may have been trained from: those with the same tensors,
 * whatever their values. It is a hint for a person: nothing of it is recorded.
 */
import { isStemmaError } from "../../../shared/errors.js";
import { isKeptFile } from "../../../shared/model/kept-file.js";
import type { ModelSource, UnhashedLeaf, UnhashedModel } from "../../../shared/model/model.js";
import { tensorByteLength } from "../../../shared/tensor/dtype.js";
import { hasSameHeader } from "../../../shared/tensor/same-header.js";
import type { ImportReport } from "../../interface/api/models/import-schemas.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

type LikelyBases = NonNullable<ImportReport["likelyBases"]>;
type Reads = Pick<FleetRepository, "list" | "leaves">;

const maxNamed = 3;
/** The newest versions that are looked at: of the import's name, and of the fleet. */
const maxOfName = 20;
const maxOfFleet = 200;
/** The most versions whose tensors' names and shapes are read. */
const maxRead = 20;

/**
 * Looks at the newest versions that are not retired, first at those of the import's name, for the same tensors: with an
 * architecture at the same places of its layers, without one under the same names.
 */
export async function likelyBases(
  repository: Reads,
  model: ModelSource | UnhashedModel,
  name: string,
): Promise<LikelyBases> {
  // Two files have nothing in common for having as many bytes.
  if (isKeptFile("unhashedLeaves" in model ? model.unhashedLeaves : model.leaves)) return [];
  const hasSameTensors = comparison(repository, model);
  const found = new Map<string, LikelyBases[number]>();
  for (const query of [{ name, limit: maxOfName }, { limit: maxOfFleet }]) {
    const { versions } = await repository.list({ ...query, order: "newest" });
    for (const version of versions) {
      if (found.size === maxNamed) break;
      const { versionId, name, version: number } = version;
      if (await hasSameTensors(version)) found.set(versionId, { versionId, name, version: number });
    }
  }
  return [...found.values()];
}

/** Answers for each version; trees are read once, and only so many. */
function comparison(
  repository: Reads,
  model: ModelSource | UnhashedModel,
): (version: VersionSummary) => Promise<boolean> {
  const leaves = "unhashedLeaves" in model ? model.unhashedLeaves : model.leaves;
  const bytes = leaves.reduce((sum, { dtype, shape }) => sum + tensorByteLength(dtype, shape), 0);
  const known = new Map<string, boolean>();
  return async ({ versionId, record: { kind, objects }, tensorBytes }) => {
    // Some older facts state no size.
    if (kind !== model.kind || (tensorBytes !== bytes && tensorBytes !== 0)) return false;
    const before = known.get(objects.tree);
    if (before !== undefined || known.size === maxRead) return before ?? false;
    const isSame = await hasTheseTensors(repository, versionId, leaves);
    known.set(objects.tree, isSame);
    return isSame;
  };
}

async function hasTheseTensors(
  repository: Reads,
  versionId: VersionSummary["versionId"],
  leaves: readonly UnhashedLeaf[],
): Promise<boolean> {
  try {
    const others = await repository.leaves(versionId);
    return (
      others.length === leaves.length &&
      leaves.every((leaf, i) => {
        const other = others[i];
        return other?.path === leaf.path && hasSameHeader(leaf, other);
      })
    );
  } catch (error) {
    // A version whose tree cannot be read now must not stop an import.
    if (isStemmaError(error)) return false;
    throw error;
  }
}
