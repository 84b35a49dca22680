/**
 * Operations on named data: list, add, check, show, push, fetch, remove. Add keeps the data's hash, check and
 * show read the data again, push and fetch copy samples into and out of the store.
 */
import { join } from "node:path";
import { defined } from "../../../shared/defined.js";
import { encodeDescription } from "../../../shared/data/data-description.js";
import { readData } from "../../../shared/data/stored-data.js";
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { regularFiles } from "../../../shared/files/regular-files.js";
import { isHash } from "../../../shared/tensor/hash.js";
import { canonicalSamples } from "../../../shared/train/datasets/canonical-samples.js";
import { loadDataset } from "../../../shared/train/datasets/registry.js";
import { notReadOf } from "../../services/context/check-dataset.js";
import { referenceOf, requireDataset } from "../../services/context/named-data.js";
import { requireRoom } from "../../services/context/room-for-models.js";
import { workFolderOf } from "../../services/context/work-folder.js";
import { addressedData } from "../../services/data/addressed-data.js";
import { withPlacedData } from "../../services/data/place-data.js";
import { readDataLike, recordedData } from "../../services/data/like-data.js";
import { kindOfData } from "../../services/data/look-at-data.js";
import { changedText, explainRefusedData, fileChange, readWithFiles } from "../../services/data/raw-files.js";
import { requireReachableData } from "../../services/data/reachable-data.js";
import { provenStream } from "../../interface/api/proven-stream.js";
import type { DatasetDetails, DatasetSummary } from "../../interface/api/models/dataset-schemas.js";
import type {
  CallOutput,
  DataStream,
  OperationInput,
  ServerOperations,
} from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { samplesNotStored } from "./model-errors.js";
import { counted } from "../../../shared/printable.js";

type DatasetOperations = Pick<
  ServerOperations,
  | "datasets"
  | "addDataset"
  | "checkDataset"
  | "showDataset"
  | "pushDataset"
  | "fetchDataset"
  | "removeDataset"
>;

export function datasetOperations(context: OperationsContext): DatasetOperations {
  const { fleets, home } = context;
  return {
    datasets: async ({ fleet }) => (await fleets.get(fleet)).datasets(),
    addDataset: (input) => addDataset(context, input),
    checkDataset: async ({ fleet, name }) => {
      const dataset = await requireDataset(context, fleet, name);
      const { samples, hash, files } = await readWithFiles(dataset, workFolderOf(home));
      const ok = dataset.hash === null || dataset.hash === hash;
      return {
        ok,
        samples,
        hash,
        expected: dataset.hash,
        message: ok
          ? `${counted(samples, "sample")} of ${name}, hash ${hash.slice(0, 16)}. ${fileChange(dataset.files, files, true)}`.trim()
          : changedText(dataset, { hash, files }),
        ...defined({ files }),
      };
    },
    showDataset: async ({ fleet, name }) =>
      detailsOf(context, await fleets.get(fleet), await requireDataset(context, fleet, name)),
    pushDataset: async ({ fleet, name }, options) => {
      const repository = await fleets.get(fleet);
      const dataset = await requireDataset(context, fleet, name);
      await requireRoom(home);
      const { set, hash } = await withPlacedData(dataset, workFolderOf(home), (placed) =>
        loadDataset(referenceOf(placed), regularFiles()),
      ).catch((error: unknown) => explainRefusedData(error, dataset, workFolderOf(home)));
      const pushed = await repository.pushDataset(name, canonicalSamples(set), {
        signal: options?.signal,
        description: isHash(hash)
          ? encodeDescription(hash, referenceOf(dataset), set.description)
          : undefined,
      });
      const { object, manifest, newBytes, newChunks } = pushed;
      const { byteLength: bytes, chunks } = manifest;
      return { name, hash, object, bytes, chunks: chunks.length, newBytes, newChunks };
    },
    fetchDataset: async ({ fleet, name }) =>
      openStored(await fleets.get(fleet), await requireDataset(context, fleet, name)),
    removeDataset: async ({ fleet, name, evenIfUsed = false }) =>
      (await fleets.get(fleet)).removeDataset(name, { evenIfUsed }),
  };
}

async function addDataset(
  { fleets, home, grant }: OperationsContext,
  { fleet, name, like, dryRun = false, parameters: set = {}, ...given }: OperationInput<"addDataset">,
): Promise<CallOutput<"addDataset">> {
  requireReachableData(grant, given);
  const repository =
    dryRun && !(await fleets.names()).includes(fleet)
      ? undefined
      : await fleets.get(fleet, { create: !dryRun });
  const recorded = like && (await recordedData(repository, like));
  const found =
    recorded === undefined
      ? await readGiven(home, { fleet, set, ...given })
      : await readDataLike(recorded, { ...given, set }, workFolderOf(home));
  const { kind, location, parameters, hash, samples, files } = found;
  if (!isHash(hash)) throw new StemmaError("INTERNAL", `The reader ${kind} gave no hash of its samples.`);
  const dataset = { name, kind, location, parameters, hash, ...defined({ files }) };
  if (!dryRun) await repository?.append({ type: "data", atMs: home.ports.clock.now(), ...dataset });
  const notRead = [...notReadOf(found)];
  return {
    ...dataset,
    samples,
    ...(notRead.length === 0 ? {} : { notRead }),
    ...("isSame" in found && recorded !== undefined
      ? { like: { of: recorded.of, isSame: found.isSame, differences: found.differences } }
      : {}),
  };
}

interface GivenToRead {
  readonly fleet: string;
  readonly kind?: string | undefined;
  readonly location: string;
  readonly set: DatasetSummary["parameters"];
}

async function readGiven(home: OperationsContext["home"], { fleet, set, ...given }: GivenToRead) {
  const { kind, location, parameters } = await addressedData(
    { location: given.location, kind: given.kind ?? (await kindOfData(given.location)), parameters: set },
    { files: home.ports.files, rowsFolder: join(home.fleetFolder(fleet), "query-rows") },
  );
  const read = await readWithFiles({ kind, location, parameters }, workFolderOf(home));
  return { kind, location, parameters, ...read };
}

async function detailsOf(
  { home }: OperationsContext,
  repository: FleetRepository,
  dataset: DatasetSummary,
): Promise<DatasetDetails> {
  const { hash } = dataset;
  const stored = isHash(hash) ? await repository.dataObject(hash) : undefined;
  return {
    ...dataset,
    stored:
      stored === undefined
        ? null
        : {
            object: stored.object,
            bytes: stored.manifest.byteLength,
            chunks: stored.manifest.chunks.length,
          },
    source: await readSource(home, dataset),
    usedBy: isHash(hash)
      ? repository
          .versionsWithData(hash)
          .map(({ versionId, name, version }) => ({ versionId, name, version }))
      : [],
  };
}

/** Reads what the reader finds at the location now. */
async function readSource(
  home: OperationsContext["home"],
  dataset: DatasetSummary,
): Promise<DatasetDetails["source"]> {
  try {
    const { samples, hash, description, files } = await readWithFiles(dataset, workFolderOf(home));
    const { format, columns, transformations, split } = description;
    const isSame = dataset.hash === null || dataset.hash === hash;
    return {
      state: isSame ? "unchanged" : "changed",
      ...(isSame ? {} : { message: changedText(dataset, { hash, files }) }),
      ...defined({ files }),
      samples,
      format,
      columns,
      transformations,
      split,
    };
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return { state: "unreadable", message: messageOf(error), samples: null };
  }
}

/** @throws NOT_FOUND where its samples are not stored */
async function openStored(repository: FleetRepository, { name, hash }: DatasetSummary): Promise<DataStream> {
  const stored = isHash(hash) ? await repository.dataObject(hash) : undefined;
  if (stored === undefined || !isHash(hash)) throw samplesNotStored(name);
  const { object, manifest } = stored;
  const { byteLength } = manifest;
  return provenStream({
    expected: { name, hash, object, byteLength },
    byteLength,
    chunks: readData(repository.objects, manifest),
  });
}
