/** Diffs two versions from their trees and names, without reading tensors (MM7). */
import { decodeNames } from "../../../shared/model/names.js";
import { diffTrees, type ModelSide } from "../../../shared/model/tree-diff.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { StemmaError } from "../../../shared/errors.js";
import type { RepositoryContext } from "../context.js";
import type { ModelDiff, VersionSummary } from "../fleet-repository.js";
import { readLeaves } from "../state/references.js";
import { requireVersion } from "../state/version-table.js";

/** See FleetRepository.diff. @throws MODEL_NOT_FOUND, MODEL_RETIRED */
export async function diffVersions(context: RepositoryContext, a: Hash, b: Hash): Promise<ModelDiff> {
  const [sideA, sideB] = await Promise.all([sideOf(context, a), sideOf(context, b)]);
  const { sameArchitecture, comparisons, changes } = diffTrees(sideA, sideB);
  return {
    a,
    b,
    sameArchitecture,
    opaque: [a, b].every((id) => requireKept(context, id).record.kind === "opaque"),
    comparisons,
    changes,
  };
}

async function sideOf(context: RepositoryContext, versionId: Hash): Promise<ModelSide> {
  const { record } = requireKept(context, versionId);
  const leaves = await readLeaves(context.objects, record);
  const names = decodeNames(await context.objects.read("names", record.objects.names), leaves.length);
  return { architecture: record.architecture, leaves, names: names.leaves };
}

/** A version that is not retired, so that its objects are in the store. @throws MODEL_NOT_FOUND, MODEL_RETIRED */
export function requireKept(context: RepositoryContext, versionId: Hash): VersionSummary {
  const version = requireVersion(context, versionId);
  const retired = context.state.versions.get(versionId)?.retired;
  if (retired !== undefined) {
    throw new StemmaError(
      "MODEL_RETIRED",
      `${version.name}:${version.version} was retired on ${new Date(retired.atMs).toISOString()} (${retired.because}): its name, parents and times are kept, its tensors are not. Choose another version, or restore a backup from before.`,
      { versionId },
    );
  }
  return version;
}
