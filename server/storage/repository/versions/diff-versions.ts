/**
 * Diffs two versions from their trees and names (MM7), and finds out of some tensors how they follow from others
 * (diff-relations.ts).
 */
import { turnAfter } from "../../../../shared/concurrency/in-steps.js";
import { defined } from "../../../../shared/defined.js";
import { decodeNames } from "../../../../shared/model/names.js";
import { diffTrees, type ModelSide } from "../../../../shared/model/tree-diff.js";
import { maxReferences } from "../../../../shared/delta/links.js";
import type { Leaf } from "../../../../shared/model/model.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { RepositoryContext } from "../context.js";
import type { ModelDiff, VersionSummary } from "../answers/version-answers.js";
import { readLeaves } from "../state/references.js";
import { isKeptFile } from "../../../../shared/model/kept-file.js";
import { requireVersion } from "../state/version-table.js";
import { erasedError } from "../state/erased.js";

/** See FleetRepository.diff. @throws MODEL_NOT_FOUND, MODEL_RETIRED */
export async function diffVersions(context: RepositoryContext, a: Hash, b: Hash): Promise<ModelDiff> {
  // How tensors follow from each other is read from them.
  for (const id of [a, b]) await context.droppedTensors.ensure(context, id);
  const [sideA, sideB] = await Promise.all([sideOf(context, a), sideOf(context, b)]);
  const others = await otherBases(context, a, b);
  const { sameArchitecture, comparisons, changes } = diffTrees(sideA, sideB);
  await turnAfter(sideB.leaves);
  const areFiles = isKeptFile(sideA.leaves) && isKeptFile(sideB.leaves);
  const files = areFiles
    ? await (await import("./compare-files.js")).comparedFiles(context.objects, sideA.leaves, sideB.leaves)
    : undefined;
  return {
    a,
    b,
    sameArchitecture,
    opaque: [a, b].every((id) => requireKept(context, id).record.kind === "opaque"),
    comparisons,
    ...defined({ files }),
    changes:
      files === undefined
        ? await (
            await import("./diff-relations.js")
          ).withRelations(context.objects, { changes, sideA, otherBases: others })
        : changes,
  };
}

/** The leaves of the other bases of `b`, by path, where `a` is one of its bases: it may be their average. */
async function otherBases(
  context: RepositoryContext,
  a: Hash,
  b: Hash,
): Promise<readonly ReadonlyMap<string, Leaf>[]> {
  const { bases } = requireKept(context, b).record;
  if (!bases.includes(a)) return [];
  const found: ReadonlyMap<string, Leaf>[] = [];
  for (const id of bases) {
    const state = context.state.versions.get(id);
    if (id === a || state === undefined || state.retired !== undefined || state.dropped !== undefined)
      continue;
    if (found.length === maxReferences - 1) break;
    const leaves = await readLeaves(context.objects, requireVersion(context, id).record);
    found.push(new Map(leaves.map((leaf) => [leaf.path, leaf])));
  }
  return found;
}

async function sideOf(context: RepositoryContext, versionId: Hash): Promise<ModelSide> {
  const { record } = requireKept(context, versionId);
  const leaves = await readLeaves(context.objects, record);
  await turnAfter(leaves);
  const names = decodeNames(await context.objects.read("names", record.objects.names), leaves.length);
  await turnAfter(leaves);
  return { architecture: record.architecture, leaves, names: names.leaves };
}

/**
 * A version that is not retired, or that the lease is on: its objects are stored.
 * @throws MODEL_NOT_FOUND, MODEL_RETIRED, MODEL_ERASED
 */
export function requireKept(context: RepositoryContext, versionId: Hash, lease?: string): VersionSummary {
  const version = requireVersion(context, versionId);
  const retired = context.state.versions.get(versionId)?.retired;
  if (retired !== undefined && !context.leases.covers(lease, versionId)) {
    const erased = erasedError(context, versionId);
    if (erased !== undefined) throw erased;
    throw new StemmaError(
      "MODEL_RETIRED",
      `${version.name}:${version.version} was retired on ${new Date(retired.atMs).toISOString()} (${retired.because}): its name, parents and times are kept, its tensors are not. Choose another version, or restore a backup from before.`,
      { versionId },
    );
  }
  return version;
}
