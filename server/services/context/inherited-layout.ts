/** The layout of a version that Stemma made from one in a layout: with it, devices that use PyTorch go on with it. */
import { isStemmaError } from "../../../shared/errors.js";
import { inheritedLayout, layoutIdOf } from "../../../shared/layouts/base-layout.js";
import { layoutName } from "../../../shared/layouts/layout.js";
import { architectureHash } from "../../../shared/model/architecture.js";
import type { ModelSource, UnhashedModel } from "../../../shared/model/model.js";
import type { SaveModelOptions } from "../../../shared/save/save-model.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

/** Versions that are looked at for one with a layout. */
const maxAncestors = 100_000;

type Named = Pick<VersionSummary, "versionId" | "record">;

/**
 * The nearest version with a layout that is stored: the version itself, its bases, theirs; all with its architecture. A
 * retired version's may be collected.
 */
export function versionWithLayout<Version extends Named>(
  store: { readonly get: (id: Hash) => Version | undefined; readonly objects: { has(id: Hash): boolean } },
  summary: Version,
): { readonly from: Version; readonly layout: Hash } | undefined {
  const seen = new Set<Hash>([summary.versionId]);
  const queue = [summary];
  for (const from of queue) {
    const layout = layoutIdOf(from.record);
    if (layout !== undefined && store.objects.has(layout)) return { from, layout };
    for (const id of from.record.bases) {
      const base = seen.has(id) || seen.size >= maxAncestors ? undefined : store.get(id);
      if (base === undefined || base.record.architecture !== summary.record.architecture) continue;
      seen.add(id);
      queue.push(base);
    }
  }
  return undefined;
}

/**
 * The attachments of a model that was made from a base: the base's layout, with the tensors of the model. None where
 * the base has none of this architecture, or one that cannot be used.
 */
export async function layoutFrom(
  repository: Pick<FleetRepository, "get" | "objects">,
  base: VersionSummary | undefined,
  model: ModelSource | UnhashedModel,
): Promise<Pick<SaveModelOptions, "attachments">> {
  const { architecture } = model;
  if (base === undefined || architecture === undefined) return {};
  if (base.record.architecture !== architectureHash(architecture)) return {};
  const found = versionWithLayout(repository, base);
  if (found === undefined) return {};
  try {
    const layout = await repository.objects.read("attachment", found.layout);
    return { attachments: [{ name: layoutName, bytes: await inheritedLayout(model, layout) }] };
  } catch (error) {
    if (isStemmaError(error, "MODEL_FILE_MALFORMED")) return {};
    throw error;
  }
}
