/** The story of a version, as its exported file carries it. */
import { decodeProvenance, isProvenance1 } from "../../../shared/provenance/encode-provenance.js";
import { encodeStory, maxStoryArchitectureBytes } from "../../../shared/provenance/exported-story.js";
import { decodeNames } from "../../../shared/model/names.js";
import type { ObjectKind } from "../../../shared/model/model.js";
import { objectId } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { readKeptStory } from "../../services/data/kept-story.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

export type StoryStore = Pick<FleetRepository, "objects" | "isRedacted" | "leaves">;

/**
 * Makes a version's story; undefined where neither an engine of Stemma nor a recorded program trained it: then there is
 * nothing that could be run again. Redacted openings are left out, and so is the program, which a file never brings.
 */
export async function storyOfVersion(
  store: StoryStore,
  { versionId, record }: Pick<VersionSummary, "versionId" | "record">,
): Promise<string | undefined> {
  const { objects } = store;
  const read = async (kind: ObjectKind, id: Hash | undefined): Promise<Uint8Array | undefined> =>
    id !== undefined && objects.has(id) ? await objects.read(kind, id) : undefined;
  const named = record.objects;
  const provenance = await read("provenance", named.provenance);
  if (provenance === undefined || !isProvenance1(provenance)) return undefined;
  const { engine, bases, committed } = decodeProvenance(provenance);
  if (engine === undefined && !Object.hasOwn(committed, "program")) return undefined;
  const architecture = await read("architecture", named.architecture);
  const kept = bases.length === 0 ? undefined : await readKeptStory(store, record);
  const known = await Promise.all(bases.map((base) => read("record", base)));
  const baseRecords = [...known.filter((bytes) => bytes !== undefined), ...(kept?.objects.bases ?? [])];
  const names = decodeNames(await objects.read("names", named.names), (await store.leaves(versionId)).length);
  return encodeStory({
    record: await objects.read("record", versionId),
    bases: distinct(baseRecords),
    provenance,
    openings:
      named.openings === undefined || store.isRedacted(named.openings)
        ? undefined
        : await read("openings", named.openings),
    environment: await read("environment", named.environment),
    metadata: await read("metadata", named.metadata),
    architecture: (architecture?.length ?? 0) > maxStoryArchitectureBytes ? undefined : architecture,
    fileOrder: names.fileOrder,
  });
}

function distinct(records: readonly Uint8Array[]): readonly Uint8Array[] {
  return [...new Map(records.map((bytes) => [objectId("record", bytes), bytes])).values()];
}
