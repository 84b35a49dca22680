/** The version here that a training began from, which may have another id here where models came as files. */
import type { SaveRecord } from "../../../shared/model/model.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

/** Versions with the same content that are looked at. */
const maxTwins = 50;

/**
 * @param record of the version: then another one with the same content is as good, best one that also has the same
 * state of the optimizer
 */
export async function findBase(
  repository: Pick<FleetRepository, "get" | "list">,
  versionId: Hash,
  record: SaveRecord | undefined,
): Promise<VersionSummary | undefined> {
  const known = repository.get(versionId);
  if (known !== undefined && known.state !== "retired") return known;
  if (record === undefined) return undefined;
  const { versions } = await repository.list({ contentId: record.contentId, limit: maxTwins });
  const needsOptimizer = record.uses?.optimizer !== undefined;
  return (
    versions.find(({ record: { uses } }) => !needsOptimizer || uses?.optimizer === record.uses?.optimizer) ??
    versions[0]
  );
}
