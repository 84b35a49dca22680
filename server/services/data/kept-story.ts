/** Stores the story that came in an imported version's file: the records of its origin and of its bases. */
import { isStemmaError } from "../../../shared/errors.js";
import { decodeStory, type ExportedStory } from "../../../shared/provenance/exported-story.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

/** Name of the attachment; its openings are left out, so that redacting the version redacts them. */
export const keptStoryName = "stemma.story.json";

/** Metadata of an imported version: the version's id where it was made. */
export const storyOfKey = "story.of";

/** Reads a kept story; undefined where none is kept, or something else has its name. */
export async function readKeptStory(
  { objects }: Pick<FleetRepository, "objects">,
  { objects: { attachments = [] } }: SaveRecord,
): Promise<ExportedStory | undefined> {
  const kept = attachments.find(({ name }) => name === keptStoryName);
  if (kept === undefined || !objects.has(kept.hash)) return undefined;
  try {
    return decodeStory(Buffer.from(await objects.read("attachment", kept.hash)).toString("utf8"));
  } catch (error) {
    if (isStemmaError(error, "STORY_INVALID")) return undefined;
    throw error;
  }
}
