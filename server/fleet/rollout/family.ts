/** Finds a version's family: the version and everything that was trained from it. */
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

/** A version and everything that was trained from it. */
export function familyOf(
  repository: Pick<FleetRepository, "descendants">,
  versionId: Hash,
): ReadonlySet<Hash> {
  const { descendants } = repository.descendants(versionId);
  return new Set([versionId, ...descendants.map(({ version }) => version.versionId)]);
}
