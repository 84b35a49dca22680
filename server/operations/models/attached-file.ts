/** Reads a file that is kept with a version. */
import type { CallOutput } from "../../interface/api/server-operations.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { versionRetired } from "../../storage/repository/state/state-errors.js";
import { noSuchFile } from "./model-errors.js";

/** @throws MODEL_PART_MISSING, MODEL_RETIRED */
export async function attachedFile(
  { objects }: Pick<FleetRepository, "objects">,
  summary: VersionSummary,
  file: string,
): Promise<CallOutput<"attachment">> {
  const { record, retired } = summary;
  if (retired !== undefined) throw versionRetired(summary, "has no files any more");
  const { attachments = [] } = record.objects;
  const found = attachments.find(({ name }) => name === file);
  if (found === undefined) throw noSuchFile(summary, file, attachments);
  const bytes = await objects.read("attachment", found.hash);
  return { ...found, byteLength: bytes.length, base64: Buffer.from(bytes).toString("base64") };
}
