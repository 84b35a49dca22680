/**
 * Takes over the story in a file that Stemma exported, so that the model can be replayed on another server.
 * An import checks that it is of these very tensors, and keeps it. What the story tells is not proved by
 * that: only a replay does.
 */
import { defined } from "../../../shared/defined.js";
import { isStemmaError } from "../../../shared/errors.js";
import { decodeArchitecture } from "../../../shared/model/architecture.js";
import { decodeEnvironment } from "../../../shared/model/environment.js";
import { decodeMetadata } from "../../../shared/model/metadata.js";
import type { ModelSource, Names, SaveRecord } from "../../../shared/model/model.js";
import { treeRoot } from "../../../shared/model/tree.js";
import {
  decodeStory,
  encodeStory,
  withoutValues,
  storyKey,
  type ExportedStory,
} from "../../../shared/provenance/exported-story.js";
import type { DataDescription } from "../../../shared/provenance/provenance.js";
import { modelSourceOfSafetensors } from "../../../shared/save/model-source.js";
import { openSafetensors } from "../../../shared/save/open-safetensors.js";
import type { SaveUses } from "../../../shared/save/save-uses.js";
import type { ByteFile } from "../../../shared/tensor/safetensors-reader.js";
import type { ImportOptions } from "../../interface/api/server-operations.js";
import { storeNamedEngine } from "../../services/context/own-engine.js";
import { keptStoryName, storyOfKey } from "../../services/data/kept-story.js";
import { findBase } from "../../services/data/find-base.js";
import { dataOfTraining } from "../../services/data/data-of-training.js";
import type { SaveOptions } from "../../storage/repository/answers/save-answers.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { notTheStorysModel } from "./model-errors.js";

/**
 * The story in the file's metadata; undefined where there is none, or it is not to be read.
 * @throws STORY_INVALID, SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED
 */
export async function storyInFile(
  file: ByteFile,
  where: string,
  { story = "keep", onto }: Pick<ImportOptions, "story" | "onto">,
): Promise<ExportedStory | undefined> {
  if (story === "ignore" || onto !== undefined) return undefined;
  const text = (await openSafetensors(file, where)).metadata?.[storyKey];
  return text === undefined ? undefined : decodeStory(text);
}

/**
 * The model of a file with a story, whose tensors are those of the story.
 * @param modelJson takes the place of the architecture in the story
 * @throws STORY_MISMATCH
 */
export async function modelOfStory(
  { file, where }: { readonly file: ByteFile; readonly where: string },
  story: ExportedStory,
  modelJson: Uint8Array | undefined,
): Promise<ModelSource> {
  let model: ModelSource;
  try {
    model = await modelSourceOfSafetensors(
      file,
      where,
      modelJson === undefined ? await describedBy(file, where, story) : { modelJson },
    );
  } catch (error) {
    if (!isStemmaError(error, "ARCHITECTURE_MISMATCH")) throw error;
    throw notTheStorysModel(where, "the file has other tensors than the model of its story", error);
  }
  requireRoot(where, story.record, model);
  const { fileHeader: _, fileMetadata = {}, ...names } = model.names;
  const { [storyKey]: __, ...others } = fileMetadata;
  return {
    ...model,
    names: { ...names, ...(Object.keys(others).length === 0 ? {} : { fileMetadata: others }) },
  };
}

/** The tensors of the file are those of the leaves, in the order that the story states. */
async function describedBy(
  file: ByteFile,
  where: string,
  { objects: { architecture, fileOrder } }: ExportedStory,
): Promise<Parameters<typeof modelSourceOfSafetensors>[2]> {
  if (architecture === undefined) return {};
  const { tensors } = await openSafetensors(file, where);
  const leaves = new Array<string>(tensors.length).fill("");
  for (const [position, { name }] of tensors.entries()) leaves[fileOrder?.[position] ?? position] = name;
  const names: Names = { leaves, ...defined({ fileOrder }) };
  return { architecture: { architecture: decodeArchitecture(architecture), names } };
}

function requireRoot(where: string, record: SaveRecord, { kind, leaves }: ModelSource): void {
  const root = treeRoot(leaves);
  if (kind === record.kind && root === record.root) return;
  if (kind !== record.kind)
    throw notTheStorysModel(
      where,
      "its architecture was too large for the file, so name its model.json with --arch",
    );
  throw notTheStorysModel(where, `the tensors have the root ${root}, the story is of ${record.root}`);
}

/**
 * The version here that the training began from: the one that the story names, or one with the same content.
 * @param named what the caller named as base
 * @throws STORY_MISMATCH where the caller names another
 */
export async function baseOfStory(
  repository: Pick<FleetRepository, "get" | "list">,
  story: ExportedStory,
  named: VersionSummary | undefined,
): Promise<VersionSummary | undefined> {
  const [versionId] = story.opened.provenance.bases;
  const record = versionId === undefined ? undefined : story.bases.get(versionId);
  if (named === undefined) return versionId && (await findBase(repository, versionId, record));
  if (named.versionId === versionId || named.record.contentId === record?.contentId) return named;
  throw notTheStorysModel(
    "The file",
    `it was trained from ${versionId === undefined ? "nothing" : versionId.slice(0, 12)}, not from ` +
      `${named.name}:${named.version}; leave --base out`,
  );
}

/** Returns what the save of an imported model takes over from its story. */
export async function savedStory(
  repository: FleetRepository,
  { versionId, record, opened, objects }: ExportedStory,
): Promise<
  Pick<SaveOptions, "provenance" | "openings" | "environment" | "metadata" | "attachments"> & {
    readonly uses: SaveUses;
  }
> {
  const { provenance, openings, environment, metadata } = objects;
  const kept = encodeStory(withoutValues(objects));
  const engine = record.uses?.engine;
  await storeNamedEngine(repository, engine);
  const descriptions = (opened.openings["data"]?.value ?? []) as unknown as readonly DataDescription[];
  const data = await Promise.all(
    opened.provenance.data.map((hash, i) => dataOfTraining(repository, hash, descriptions[i]?.reader ?? "")),
  );
  return defined({
    provenance,
    openings,
    environment: environment && decodeEnvironment(environment),
    metadata: { ...(metadata === undefined ? {} : decodeMetadata(metadata)), [storyOfKey]: versionId },
    attachments: kept === undefined ? undefined : [{ name: keptStoryName, bytes: Buffer.from(kept) }],
    uses: {
      ...defined({ engine: engine && { id: engine } }),
      ...(data.length === 0 ? {} : { data: data.flat() }),
    },
  });
}
