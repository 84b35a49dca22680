/** Tells of each member of a version's story what its latest replay says of it, by the fact in the journal. */
import { decodeEnvironment } from "../../../shared/model/environment.js";
import { decodeMetadata } from "../../../shared/model/metadata.js";
import type { MemberProof } from "../../interface/api/fields.js";
import { readOpenedProvenance } from "../../services/context/opened-provenance.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { proofOfMembers, type StoryParts } from "./told-story.js";

/** @returns undefined where no replay proved it, or one of an earlier release, which compared less */
export async function recordedProof(
  repository: FleetRepository,
  { record, replayed }: Pick<VersionSummary, "record" | "replayed">,
): Promise<MemberProof | undefined> {
  if (replayed?.verdict !== "proved" || replayed.description === undefined) return undefined;
  const opened = await readOpenedProvenance(repository, record.objects);
  if (opened === undefined) return undefined;
  const parts = { ...(await storedParts(repository, record)), opened };
  return proofOfMembers(parts, { description: replayed.description });
}

/** The parts of a story that a store has beside the provenance. */
export async function storedParts(
  { objects }: Pick<FleetRepository, "objects">,
  record: VersionSummary["record"],
): Promise<Omit<StoryParts, "opened">> {
  const { metadata, environment } = record.objects;
  return {
    record,
    ...(metadata !== undefined &&
      objects.has(metadata) && { metadata: decodeMetadata(await objects.read("metadata", metadata)) }),
    ...(objects.has(environment) && {
      environment: decodeEnvironment(await objects.read("environment", environment)),
    }),
  };
}
