/** Reads data as a model's record says: reader, parameters, columns and split, so that nobody types them again. */
import { resolve } from "node:path";
import { isUrl } from "../../../shared/data/data-url.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { decodeStory } from "../../../shared/provenance/exported-story.js";
import { valueOf, type OpenedProvenance } from "../../../shared/provenance/openings.js";
import type { DataDescription } from "../../../shared/provenance/provenance.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { isGenerator } from "../../../shared/train/datasets/registry.js";
import type { DatasetReference } from "../../../shared/train/training.js";
import { modelNotFound } from "../../storage/repository/state/state-errors.js";
import { readOpenedProvenance } from "../context/opened-provenance.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { differencesOf, type DataDifference } from "./data-differences.js";
import { readByAnother, readingNotRecorded } from "./data-errors.js";
import { readerParametersOf } from "./locate-data.js";
import { readWithFiles, type ReadFiles } from "./raw-files.js";

export type Like = { readonly model: string } | { readonly story: string };

/** The data of a model, as its record tells of them. */
export interface RecordedData {
  /** The model, for texts. */
  readonly of: string;
  readonly hash: Hash;
  readonly description: DataDescription;
}

interface Addressed {
  readonly kind: string;
  readonly location: string;
  readonly parameters: DatasetReference["parameters"];
}

export interface DataLike extends Addressed, ReadFiles {
  /** True where the samples are those that the model was trained with. */
  readonly isSame: boolean;
  /** Settings, and what follows from them, that differ from the record's; empty where only values in the file do. */
  readonly differences: readonly DataDifference[];
}

/** @throws MODEL_NOT_FOUND, STORY_INVALID; NOT_FOUND where the record does not tell of one data set */
export async function recordedData(
  repository: FleetRepository | undefined,
  like: Like,
): Promise<RecordedData> {
  if ("story" in like) {
    const { opened, record, versionId } = decodeStory(like.story);
    return toldOf(`${record.name} (${versionId.slice(0, 12)})`, opened);
  }
  if (repository === undefined) throw modelNotFound(like.model);
  const { name, version, record } = repository.resolve(like.model);
  return toldOf(`${name}:${version}`, await readOpenedProvenance(repository, record.objects));
}

function toldOf(of: string, opened: OpenedProvenance | undefined): RecordedData {
  const refuse = (why: string): StemmaError => readingNotRecorded(of, why);
  const hashes = opened?.provenance.data ?? [];
  const [hash] = hashes;
  if (opened === undefined || hash === undefined)
    throw refuse("it was imported, reduced, or saved by another program");
  if (hashes.length > 1) throw refuse("it was trained from several data sets");
  const data: unknown = valueOf(opened, "data");
  if (!Array.isArray(data)) throw refuse("it was redacted");
  return { of, hash, description: data[0] as DataDescription };
}

/**
 * Reads data as a record says. Where these are others than the record's, what the model learned from its own data
 * (scales, words, vocabulary, labels) stays as recorded, so that the model can be trained on.
 * @throws the errors of reading the data
 */
export async function readDataLike(
  { description, hash, of }: RecordedData,
  { kind, location, set }: { kind?: string | undefined; location: string; set: Addressed["parameters"] },
  workFolder: string,
): Promise<DataLike> {
  if (kind !== undefined && kind !== description.reader) throw readByAnother(of, description.reader, kind);
  const { reader } = description;
  const recorded = readerParametersOf(description);
  const data = {
    kind: reader,
    location: isGenerator(reader) || isUrl(location) || location === "" ? location : resolve(location),
  };
  const read = async (followed: Addressed["parameters"]): Promise<DataLike> => {
    const parameters = { ...followed, ...set };
    const found = await readWithFiles({ ...data, parameters }, workFolder);
    const isSame = found.hash === hash;
    const wanted = { ...description, parameters: followed };
    const differences = isSame ? [] : differencesOf(wanted, { ...found, reader, parameters });
    return { ...found, ...data, parameters, isSame, differences };
  };
  const asRecorded = await read(recorded).catch((error: unknown) => {
    if (!isStemmaError(error)) throw error;
    return error;
  });
  const pinned = learnedParameters(description, recorded);
  const isPinned = JSON.stringify(pinned) !== JSON.stringify(recorded);
  if (!(asRecorded instanceof StemmaError) && (asRecorded.isSame || !isPinned)) return asRecorded;
  if (!isPinned) throw asRecorded as StemmaError;
  return await read(pinned);
}

interface Column {
  readonly name?: unknown;
  readonly role?: unknown;
  readonly words?: unknown;
  readonly centre?: unknown;
  readonly scale?: unknown;
}

/** The recorded parameters, with those that the reader found in the data. Pure. */
export function learnedParameters(
  { reader, columns }: DataDescription,
  recorded: Addressed["parameters"],
): Addressed["parameters"] {
  const all = (Array.isArray(columns) ? columns : []) as readonly Column[];
  const inputs = all.filter(({ role }) => role === "input");
  const words = all.find(({ role, words: found }) => role === "target" && Array.isArray(found))?.words;
  // These say where the model's own data were, which other data do not share.
  const { segments: _, query: __, database: ___, ...kept } = recorded;
  const classNames = words === undefined ? {} : { classNames: (words as readonly unknown[]).map(String) };
  switch (reader) {
    case "csv": {
      const scales = inputs.flatMap(({ name, centre, scale }) =>
        typeof centre === "number" && typeof scale === "number" ? [`${String(name)}=${centre}:${scale}`] : [],
      );
      const { scaling: ____, ...unscaled } = kept;
      return { ...classNames, ...(scales.length === 0 ? kept : { ...unscaled, scales }) };
    }
    case "libsvm":
      return { ...(words === undefined ? {} : { labels: classNames.classNames ?? [] }), ...kept };
    case "image-folder":
      return { ...classNames, ...kept };
    case "text-folder":
      return { vocabulary: inputs.map(({ name }) => String(name)), ...classNames, ...kept };
    default:
      return kept;
  }
}
