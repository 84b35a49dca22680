/** Imports of files that hold only some tensors of a base (`onto`). */
import { defined } from "../../../shared/defined.js";
import { decodeArchitecture } from "../../../shared/model/architecture.js";
import { decodeNames } from "../../../shared/model/names.js";
import type { PartialBase } from "../../../shared/save/partial-model.js";
import type { ImportOptions } from "../../interface/api/server-operations.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { leaseBesideBase, notOnto } from "./model-errors.js";

/** @throws NOT_ALLOWED for options that do not go with `onto` */
export function checkPartial({ onto, base, architecture, parts = [] }: ImportOptions): void {
  if (onto === undefined) return;
  const other =
    base !== undefined
      ? "--base: the model that the tensors are laid over is its base"
      : architecture !== undefined
        ? "--arch: the architecture is that of the base"
        : parts.some(({ iteration }) => iteration !== undefined)
          ? "--checkpoint: checkpoints are whole models"
          : undefined;
  if (other !== undefined) throw notOnto(other);
}

/**
 * The model that the imported one was derived from: a lease of a transfer names it too.
 * @throws LEASE_UNKNOWN, LEASE_EXPIRED, NOT_ALLOWED for a lease beside another base
 */
export function parentOf(
  repository: Pick<FleetRepository, "leases">,
  { base, onto, lease }: ImportOptions,
): string | undefined {
  if (lease === undefined) return base ?? onto;
  if (base !== undefined || onto !== undefined) throw leaseBesideBase();
  return repository.leases.require(lease).versionId;
}

/** @throws MODEL_RETIRED, OBJECT_MISSING, as ensureTensors */
export async function partialBaseOf(
  repository: FleetRepository,
  { versionId, record }: VersionSummary,
): Promise<PartialBase> {
  const leaves = await repository.leaves(versionId);
  await repository.ensureTensors(versionId);
  const { names, architecture } = record.objects;
  return defined({
    kind: record.kind,
    leaves,
    names: decodeNames(await repository.objects.read("names", names), leaves.length),
    architecture:
      architecture && decodeArchitecture(await repository.objects.read("architecture", architecture)),
  });
}
