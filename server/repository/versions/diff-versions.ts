/**
 * Diffs two versions from their trees and names (MM7), and finds out of some changed tensors how they follow from
 * what they were.
 */
import { decodeNames } from "../../../shared/model/names.js";
import { diffTrees, type Change, type ModelSide } from "../../../shared/model/tree-diff.js";
import { describeRelation } from "../../../shared/delta/derived/describe.js";
import type { Leaf } from "../../../shared/model/model.js";
import { tensorByteLength } from "../../../shared/tensor/dtype.js";
import { tensorOfSource, type Hash, type Tensor } from "../../../shared/tensor/tensor.js";
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
    changes: await withRelations(context, changes),
  };
}

/** Larger tensors are not read to compare their content, and no more bytes than this in all. */
const maxComparedTensorBytes = 16 * 2 ** 20;
const maxComparedBytes = 128 * 2 ** 20;

async function withRelations(
  { objects }: Pick<RepositoryContext, "objects">,
  changes: readonly Change[],
): Promise<ModelDiff["changes"]> {
  const read = ({ tensor }: Leaf): Promise<Tensor> => tensorOfSource(objects.openTensor(tensor));
  const found: ModelDiff["changes"][number][] = [];
  let left = maxComparedBytes;
  for (const change of changes) {
    const { a, b } = change;
    const bytes = [a, b].map((leaf) => (leaf === undefined ? 0 : tensorByteLength(leaf.dtype, leaf.shape)));
    const isCompared =
      (change.kind === "changed" || change.kind === "reshaped") && a !== undefined && b !== undefined;
    const total = bytes[0]! + bytes[1]!;
    if (!isCompared || total > left || Math.max(...bytes) > maxComparedTensorBytes) {
      found.push(change);
      continue;
    }
    left -= total;
    const relation = describeRelation(await read(b), await read(a));
    found.push(relation === undefined ? change : { ...change, relation });
  }
  return found;
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
