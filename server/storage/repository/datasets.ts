/**
 * Stored data sets of a fleet: registered data whose samples were copied into the store as chunks. They stay while a
 * name is registered for their content, and while a kept version was trained with them.
 */
import { placeManifest, type DataManifest } from "../../../shared/data/data-manifest.js";
import { readManifest } from "../../../shared/data/stored-data.js";
import { storeData, type StoreDataOptions } from "../../../shared/data/store-data.js";
import { defined } from "../../../shared/defined.js";
import { StemmaError } from "../../../shared/errors.js";
import { noSuchData } from "../../../shared/missing-errors.js";
import { objectId } from "../../../shared/tensor/hash.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { RepositoryContext } from "./context.js";
import type { VersionSummary } from "./answers/version-answers.js";
import { dataChanged, dataWithoutHash } from "./repository-errors.js";
import type { DatasetState, FleetState } from "./state/state.js";
import { keptVersions } from "./state/references.js";
import { requireVersion } from "./state/version-table.js";
import { counted } from "../../../shared/printable.js";

/** A stored data set. */
export interface DataObject {
  /** Object id of the manifest. */
  readonly object: Hash;
  readonly manifest: DataManifest;
  /** Descriptions by readers when the samples were stored; empty where an earlier release stored them. */
  readonly descriptions: readonly Hash[];
}

export interface PushedData extends DataObject {
  /** Chunks that the store did not have, and the bytes that they take coded. */
  readonly newChunks: number;
  readonly newBytes: number;
}

export interface RemovedData {
  readonly name: string;
  /** Kept versions that were trained with it. */
  readonly versions: number;
}

/** The stored data set with this content; undefined where it was never stored, or is not here any more. */
export async function findDataObject(
  context: RepositoryContext,
  content: Hash,
): Promise<DataObject | undefined> {
  const { objects, state } = context;
  const object = state.dataObjects.get(content);
  if (object === undefined || !objects.has(object)) return undefined;
  const manifest = await readManifest(objects, object);
  if (manifest === undefined) return undefined;
  // A version that names the manifest keeps it, also where its chunks were dropped.
  const isGone = manifest.chunks.some(({ id }) => !objects.has(id)) && wereDropped(context, content);
  const descriptions = (state.dataDescriptions.get(content) ?? []).filter((id) => objects.has(id));
  return isGone ? undefined : { object, manifest, descriptions };
}

/** True if chunks of these data may be absent without damage, because they were dropped of a version. */
function wereDropped(context: RepositoryContext, content: Hash): boolean {
  return versionsWithData(context, content).some(({ dataDropped }) => dataDropped !== undefined);
}

/**
 * Stores the samples of registered data. What is stored already is not written again.
 * @param pieces their canonical bytes
 * @throws DATASET_UNKNOWN, DATASET_MALFORMED where they are not those that were registered; DISK_FULL
 */
export async function pushDataset(
  context: RepositoryContext,
  name: string,
  pieces: Iterable<Uint8Array>,
  options?: StoreDataOptions,
): Promise<PushedData> {
  const { hash } = requireRegistered(context, context.state, name);
  const { object, manifest, description, newChunks, newBytes, release } = await storeData(
    context.objects,
    pieces,
    options,
  );
  try {
    if (manifest.content !== hash) throw dataChanged(name, manifest.content, hash);
    const chunks = manifest.chunks.map(({ id }) => id);
    await context.queue.submit({
      requiredObjects: [object, ...chunks, ...(description === undefined ? [] : [description])],
      decide: ({ state }) => {
        const now = requireRegistered(context, state, name);
        if (now.hash !== hash) throw dataChanged(name, hash, now.hash);
        const isKnown =
          state.dataObjects.get(hash) === object &&
          (description === undefined || state.dataDescriptions.get(hash)?.includes(description) === true);
        return isKnown
          ? []
          : [{ type: "data", atMs: context.clock.now(), ...now, object, ...defined({ description }) }];
      },
      onApplied: () => {
        context.references.addStoredData(object, chunks);
      },
    });
    const descriptions = context.state.dataDescriptions.get(hash) ?? [];
    return { object, manifest, descriptions, newChunks, newBytes };
  } finally {
    release();
  }
}

/**
 * Forgets a registration. The files, and stored chunks that a version needs, stay.
 * @throws DATASET_UNKNOWN, DATASET_IN_USE where kept versions were trained with it and `evenIfUsed` is not set
 */
export async function removeDataset(
  context: RepositoryContext,
  name: string,
  { evenIfUsed }: { readonly evenIfUsed: boolean },
): Promise<RemovedData> {
  let versions = 0;
  await context.queue.submit({
    requiredObjects: [],
    // Decided alone, so that it sees every version that is recorded before it.
    isExclusive: true,
    decide: ({ state }) => {
      const dataset = requireRegistered(context, state, name);
      versions = dataset.hash === null ? 0 : versionsWithData(context, dataset.hash).length;
      const isLast = [...state.datasets.values()].every(
        (other) => other.name === name || other.hash !== dataset.hash,
      );
      if (versions > 0 && isLast && !evenIfUsed)
        throw new StemmaError(
          "DATASET_IN_USE",
          `${counted(versions, "version that is kept was", "versions that are kept were")} trained with ${name}, and no other name is registered for the ` +
            "same samples. Keep it, so that their trainings can be replayed; or remove it with --even-if-used.",
          { name, versions },
        );
      return [{ type: "data", atMs: context.clock.now(), ...dataset, removed: true }];
    },
  });
  return { name, versions };
}

/** Kept versions that name data of this content, wherever they are kept, in journal order. */
export function versionsWithData(context: RepositoryContext, content: Hash): readonly VersionSummary[] {
  const { records, state } = context;
  const stored = state.dataObjects.get(content);
  const objects = new Set([
    ...(stored === undefined ? [] : [stored]),
    ...(["reference", "generator", "device"] as const).map((kept) =>
      objectId("data", placeManifest(content, kept)),
    ),
  ]);
  return [...keptVersions(state)]
    .filter((versionId) => records.get(versionId)?.uses?.data?.some((id) => objects.has(id)) === true)
    .map((versionId) => requireVersion(context, versionId));
}

function requireRegistered(
  { fleet }: Pick<RepositoryContext, "fleet">,
  state: FleetState,
  name: string,
): DatasetState & { readonly hash: Hash } {
  const found = state.datasets.get(name);
  if (found?.hash != null) return { ...found, hash: found.hash };
  if (found === undefined) throw noSuchData(fleet, name);
  throw dataWithoutHash(name);
}
