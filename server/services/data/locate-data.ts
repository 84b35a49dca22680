/** Finds where this server can read the data that a training used: for its replay, or for another training. */
import { createWriteStream } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { isUrl } from "../../../shared/data/data-url.js";
import { readDescription } from "../../../shared/data/data-description.js";
import type { DataManifest } from "../../../shared/data/data-manifest.js";
import { readData, readManifest } from "../../../shared/data/stored-data.js";
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { DataDescription } from "../../../shared/provenance/provenance.js";
import { describedMembers } from "../../../shared/provenance/training-provenance.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { isGenerator } from "../../../shared/train/datasets/registry.js";
import type { DatasetReference } from "../../../shared/train/training.js";
import { checkDatasetAt, type CheckedDataset } from "../context/check-dataset.js";
import { requireRoom } from "../context/room-for-models.js";
import type { DatasetSummary } from "../../interface/api/models/dataset-schemas.js";
import type { OperationsContext } from "../context/operations-context.js";
import { workFolderOf } from "../context/work-folder.js";
import { differencesOf, differencesText, isSameJson } from "./data-differences.js";
import { isCanonicalFile } from "./look-at-data.js";
import { placeData } from "./place-data.js";
import { requireReachableData } from "./reachable-data.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

export interface DataSought {
  readonly fleet: string;
  /** Content hash of the samples, as a provenance names it. */
  readonly hash: Hash;
  /** The data's description from the provenance's openings; undefined where that was redacted. */
  readonly description?: DataDescription | undefined;
  /** `uses.data` of the version. */
  readonly uses?: readonly Hash[] | undefined;
  /**
   * True to find only what came with the version, or a generator makes: a hash does not entitle its sender to
   * data of others.
   */
  readonly isOwnOnly?: boolean | undefined;
  /** True to find only what is in the store. */
  readonly isStoredOnly?: boolean | undefined;
}

/** The description that is stored beside samples. */
export interface StoredDescription {
  readonly description: DataDescription;
  /** True if a reader of this server gave it when the samples were stored; false if it came with a version. */
  readonly isOwn: boolean;
}

export type LocatedData =
  | {
      /** `stored`: one file below the work folder, with samples that were read from the store and verified. */
      readonly from: "stored" | "registered" | "generator";
      /** The reference for a job. It has the content hash, so the engine compares the samples once more. */
      readonly dataset: DatasetReference;
      /** The description beside stored samples; absent where there is none. */
      readonly stored?: StoredDescription | undefined;
      /** Removes what was written for it. */
      readonly release: () => Promise<void>;
    }
  | MissingData;

/** Data at a place that the request named. */
export interface NamedData {
  readonly from: "named";
  readonly dataset: DatasetReference;
  readonly stored?: undefined;
  readonly release: () => Promise<void>;
}

export interface MissingData {
  readonly from: "nowhere";
  /**
   * `not-here`: neither stored nor registered; `on-device`: left there by policy; `changed`: registered files have
   * other samples now; `unreadable`: registered files are missing or malformed; `damaged`: a stored chunk is.
   */
  readonly reason: "not-here" | "on-device" | "changed" | "unreadable" | "damaged";
  /** A message with what happened, and what to do next. */
  readonly text: string;
}

/**
 * Looks in the store first, then at registered files, which must still have the samples, then for a reader that makes
 * them again. Reads everything that it returns but a generator's samples, which the engine compares.
 * @throws DISK_FULL where stored samples cannot be written to a file; NOT_FOUND for an unknown fleet
 */
export async function locateData(context: OperationsContext, sought: DataSought): Promise<LocatedData> {
  const repository = await context.fleets.get(sought.fleet);
  const problems: MissingData[] = [];
  const { manifest, isOnDevice } = await findManifest(repository, sought, problems);
  if (manifest !== undefined) {
    const stored = await writeStored(context, repository, manifest);
    if (stored.from !== "nowhere") return { ...stored, stored: await storedDescription(repository, sought) };
    problems.push(stored);
  }
  const registered =
    sought.isOwnOnly === true || sought.isStoredOnly === true
      ? undefined
      : await findRegistered(context, repository, { ...sought, problems });
  const other =
    registered ?? (sought.isStoredOnly === true ? undefined : await generatorOf(repository, sought));
  if (other !== undefined) return other;
  return problems[0] ?? nowhere(sought.hash, isOnDevice);
}

interface FoundManifest {
  /** The manifest of the stored data set. */
  readonly manifest?: DataManifest;
  readonly isOnDevice: boolean;
}

/** The stored data set that the version names, or that was stored under the same content. */
async function findManifest(
  repository: FleetRepository,
  { hash, uses = [], isOwnOnly = false }: DataSought,
  problems: MissingData[],
): Promise<FoundManifest> {
  let isOnDevice = false;
  try {
    for (const id of uses) {
      const manifest = await readManifest(repository.objects, id);
      if (manifest?.content !== hash) continue;
      if (manifest.kept === "chunks") return { manifest, isOnDevice };
      isOnDevice ||= manifest.kept === "device";
    }
    const stored = isOwnOnly ? undefined : await repository.dataObject(hash);
    if (stored !== undefined) return { manifest: stored.manifest, isOnDevice };
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    problems.push({ from: "nowhere", reason: "damaged", text: error.message });
  }
  return { isOnDevice };
}

/** The description beside the samples; where there are several, the one that agrees with the record. */
async function storedDescription(
  repository: FleetRepository,
  { hash, description, uses = [], isOwnOnly = false }: DataSought,
): Promise<StoredDescription | undefined> {
  const own = isOwnOnly ? [] : ((await repository.dataObject(hash))?.descriptions ?? []);
  const isOwn = own.length > 0;
  const found: DataDescription[] = [];
  for (const id of isOwn ? own : uses) {
    const stored = await readDescription(repository.objects, id);
    if (stored?.content === hash) found.push(stored.description);
  }
  const best = found.find((each) => description !== undefined && isStoredAs(each, description)) ?? found[0];
  return best && { description: best, isOwn };
}

function isStoredAs(stored: DataDescription, recorded: DataDescription): boolean {
  return (
    stored.reader === recorded.reader &&
    isSameJson(stored.parameters, recorded.parameters) &&
    isDescribedAs(stored as never, recorded)
  );
}

async function writeStored(
  { home }: OperationsContext,
  { objects }: FleetRepository,
  manifest: DataManifest,
): Promise<LocatedData> {
  await requireRoom(home, manifest.byteLength);
  await mkdir(workFolderOf(home), { recursive: true });
  const folder = await mkdtemp(join(workFolderOf(home), "data-"));
  const release = (): Promise<void> => rm(folder, { recursive: true, force: true });
  const location = join(folder, "samples");
  try {
    await pipeline(Readable.from(readData(objects, manifest)), createWriteStream(location));
  } catch (error) {
    await release();
    if (!isStemmaError(error)) throw error;
    return { from: "nowhere", reason: "damaged", text: error.message };
  }
  const dataset = { reader: "canonical", parameters: {}, location, hash: manifest.content };
  return { from: "stored", dataset, release };
}

type FoundData = Exclude<LocatedData, MissingData>;

/**
 * Registered data that still have the samples; where several have, those that are described as the record does.
 * Read as the record says, where that gives the same samples, so that its description can be compared.
 */
async function findRegistered(
  { home }: OperationsContext,
  repository: FleetRepository,
  { hash, description, problems }: Pick<DataSought, "hash" | "description"> & { problems: MissingData[] },
): Promise<LocatedData | undefined> {
  let other: FoundData | undefined;
  for (const registered of repository.datasets()) {
    // A generator reads no files, whatever location was named with it.
    const hasFiles = registered.location !== "" && !isGenerator(registered.kind);
    if (registered.hash !== hash || !hasFiles) continue;
    const found = await readRegistered(registered, { hash, description }, workFolderOf(home));
    if (found.from === "nowhere") problems.push(found);
    else if (found.isAsDescribed) {
      await other?.release();
      return found;
    } else if (other === undefined) other = found;
    else await found.release();
  }
  return other;
}

async function readRegistered(
  { name, kind, location, parameters }: DatasetSummary,
  { hash, description }: Pick<DataSought, "hash" | "description">,
  workFolder: string,
): Promise<(FoundData & { readonly isAsDescribed: boolean }) | MissingData> {
  let release: (() => Promise<void>) | undefined;
  try {
    const placed = await placeData({ kind, location }, workFolder);
    ({ release } = placed);
    const dataset = { kind, location: placed.location };
    const recorded = await readAsRecorded(dataset, { hash, description, parameters });
    const found = recorded ?? { parameters, ...(await checkDatasetAt({ ...dataset, parameters })) };
    if (found.hash === hash)
      return {
        from: "registered",
        dataset: { reader: kind, parameters: found.parameters, location: placed.location, hash },
        isAsDescribed: description === undefined || isDescribedAs(found.description, description),
        release,
      };
    await release();
    return {
      from: "nowhere",
      reason: "changed",
      text:
        `The data of ${name} at ${location} have other samples now (hash ${found.hash.slice(0, 16)}, ` +
        `${hash.slice(0, 16)} is registered). Restore them.`,
    };
  } catch (error) {
    await release?.();
    return {
      from: "nowhere",
      reason: "unreadable",
      text: `The data ${name} cannot be read at ${location}: ${messageOf(error)}`,
    };
  }
}

/** The data read by the record's own parameters; undefined where these are the registered ones, or do not give them. */
async function readAsRecorded(
  dataset: { readonly kind: string; readonly location: string },
  {
    hash,
    description,
    parameters,
  }: Pick<DataSought, "hash" | "description"> & Pick<DatasetSummary, "parameters">,
): Promise<(CheckedDataset & Pick<DatasetSummary, "parameters">) | undefined> {
  if (description?.reader !== dataset.kind) return undefined;
  const recorded = readerParametersOf(description);
  if (isSameJson(recorded, parameters)) return undefined;
  try {
    const found = await checkDatasetAt({ ...dataset, parameters: recorded });
    return found.hash === hash ? { ...found, parameters: recorded } : undefined;
  } catch (error) {
    if (isStemmaError(error)) return undefined;
    throw error;
  }
}

/**
 * Data at a place that somebody names, read as a record says. A file that `stemma data fetch` wrote is read as it is.
 * @throws FILE_MISSING, DATASET_MALFORMED, DATASET_EMPTY, RECIPE_PARAMETERS_INVALID, NOT_ALLOWED
 */
export async function dataAt(
  { home, grant }: OperationsContext,
  given: string,
  { hash, description }: Pick<DataSought, "hash" | "description">,
): Promise<NamedData | MissingData> {
  if (description === undefined)
    return {
      from: "nowhere",
      reason: "unreadable",
      text: "its description of the data was redacted, so nobody knows how they were read.",
    };
  requireReachableData(grant, { location: given });
  const { reader } = description;
  const { location, release } = await placeData(
    { kind: reader, location: isUrl(given) ? given : resolve(given) },
    workFolderOf(home),
  );
  try {
    const isStoredForm = await isCanonicalFile(location);
    const dataset = isStoredForm
      ? { reader: "canonical", parameters: {}, location }
      : { reader, parameters: readerParametersOf(description), location };
    const found = await checkDatasetAt({ kind: dataset.reader, ...dataset });
    if (found.hash === hash) return { from: "named", dataset: { ...dataset, hash }, release };
    await release();
    return {
      from: "nowhere",
      reason: "changed",
      text:
        `the data at ${given}, read as the record says, have other samples (hash ${found.hash.slice(0, 16)}, ` +
        `recorded ${hash.slice(0, 16)})${reasonOf(isStoredForm ? [] : differencesOf(description, { ...found, ...dataset }))}. ` +
        "Name the file that it was trained with.",
    };
  } catch (error) {
    await release();
    throw error;
  }
}

function reasonOf(differences: Parameters<typeof differencesText>[0]): string {
  return differences.length === 0
    ? "; columns, split and counts are as recorded, so values in the file differ"
    : `: ${differencesText(differences)}`;
}

/** Canonical JSON reads whole numbers as 64-bit integers, which readers do not take. */
export function readerParametersOf({ parameters = {} }: DataDescription): DatasetReference["parameters"] {
  return Object.fromEntries(
    Object.entries(parameters).map(([name, value]) => [
      name,
      typeof value === "bigint" ? Number(value) : value,
    ]),
  );
}

function isDescribedAs(found: Readonly<Record<string, unknown>>, recorded: DataDescription): boolean {
  return describedMembers.every((name) => isSameJson(found[name], recorded[name]));
}

/** Samples that a reader makes: as the record says, where that gives them; else as they are registered. */
async function generatorOf(
  repository: FleetRepository,
  { hash, description }: DataSought,
): Promise<LocatedData | undefined> {
  const registered = repository.datasets().find((each) => each.hash === hash && isGenerator(each.kind));
  if (description !== undefined && isGenerator(description.reader)) {
    const recorded = { reader: description.reader, parameters: readerParametersOf(description), hash };
    const known = registered && { kind: description.reader, location: "", parameters: registered.parameters };
    if (
      known === undefined ||
      isSameJson(recorded.parameters, known.parameters) ||
      (await readAsRecorded(known, { hash, description, parameters: known.parameters })) !== undefined
    )
      return locatedAt("generator", recorded);
  }
  return (
    registered && locatedAt("generator", { reader: registered.kind, parameters: registered.parameters, hash })
  );
}

function locatedAt(from: "registered" | "generator", dataset: DatasetReference): LocatedData {
  return { from, dataset, release: () => Promise.resolve() };
}

function nowhere(hash: Hash, isOnDevice: boolean): MissingData {
  const which = `The data with the content hash ${hash.slice(0, 16)}`;
  return isOnDevice
    ? {
        from: "nowhere",
        reason: "on-device",
        text: `${which} were left on the device that trained with them, so only it can replay the training.`,
      }
    : {
        from: "nowhere",
        reason: "not-here",
        text:
          `${which} are neither stored nor registered in this fleet. Register them with \`stemma data add\`, ` +
          "and store them with `stemma data push`.",
      };
}
