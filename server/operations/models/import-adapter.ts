/**
 * Imports of LoRA adapters: a file with an adapter's tensors and an attached adapter_config.json is compared with the
 * model that it adapts, in the place of the comparison of two models of one network.
 */
import { decodeNames } from "../../../shared/model/names.js";
import type { Leaf } from "../../../shared/model/model.js";
import { adapterConfigName, readAdapterConfig } from "../../../shared/forms/peft/adapter-config.js";
import { isAdapterName, loraPairs } from "../../../shared/forms/peft/lora-pairs.js";
import type { ImportOptions } from "../../interface/api/server-operations.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

/**
 * @returns false for a model that is not an adapter, which nothing is compared for
 * @throws MODEL_FILE_MALFORMED for settings that are not supported, ARCHITECTURE_MISMATCH
 */
export async function checkAdapter(
  repository: Pick<FleetRepository, "objects" | "leaves" | "get">,
  leaves: readonly Pick<Leaf, "path" | "dtype" | "shape">[],
  base: VersionSummary,
  { attachments = [] }: Pick<ImportOptions, "attachments">,
): Promise<boolean> {
  const attached = attachments.find(({ name }) => name === adapterConfigName);
  if (attached === undefined || !leaves.some(({ path }) => isAdapterName(path))) return false;
  const config = readAdapterConfig(attached.bytes, adapterConfigName);
  const adapted = adaptedModel(repository, base);
  const shapes = await repository.leaves(adapted.versionId);
  const names = decodeNames(
    await repository.objects.read("names", adapted.record.objects.names),
    shapes.length,
  );
  loraPairs(
    leaves.map(({ path, ...header }) => ({ name: path, ...header })),
    shapes.map(({ dtype, shape }, i) => ({ name: names.leaves[i] as string, dtype, shape })),
    config,
  );
  return true;
}

/** The model below a series of adapters, of which each was trained from the one before. */
function adaptedModel(repository: Pick<FleetRepository, "get">, base: VersionSummary): VersionSummary {
  let adapted = base;
  for (;;) {
    const [before] = isAdapter(adapted) ? adapted.record.bases : [];
    const found = before === undefined ? undefined : repository.get(before);
    if (found === undefined) return adapted;
    adapted = found;
  }
}

function isAdapter({ record }: VersionSummary): boolean {
  return record.objects.attachments?.some(({ name }) => name === adapterConfigName) === true;
}
