/** Named data where they can be read now: at their location, or from the store where their files are gone. */
import { StemmaError } from "../../../shared/errors.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { isHash } from "../../../shared/tensor/hash.js";
import { isGenerator } from "../../../shared/train/datasets/registry.js";
import type { DatasetReference } from "../../../shared/train/training.js";
import { referenceOf, requireDataset } from "../context/named-data.js";
import type { OperationsContext } from "../context/operations-context.js";
import { workFolderOf } from "../context/work-folder.js";
import { locateData, type LocatedData, type StoredDescription } from "./locate-data.js";
import { isUrl } from "../../../shared/data/data-url.js";
import { placeData } from "./place-data.js";

export interface ReadableDataset {
  /** The reference for a job. */
  readonly dataset: DatasetReference;
  readonly from: Exclude<LocatedData["from"], "nowhere">;
  /** The description beside stored samples. */
  readonly stored?: StoredDescription | undefined;
  readonly release?: () => Promise<void>;
}

/** Registered data as they are; where their files are gone, their samples from the store, if it has them. */
export async function readableDataset(
  context: OperationsContext,
  fleet: string,
  dataset: DatasetReference,
): Promise<ReadableDataset> {
  const { location, hash, reader } = dataset;
  const registered = { dataset, from: isGenerator(reader) ? "generator" : "registered" } as const;
  if (location === undefined || hash === undefined) return registered;
  if (isUrl(location)) {
    try {
      const placed = await placeData({ kind: reader, location }, workFolderOf(context.home));
      return { ...registered, dataset: { ...dataset, location: placed.location }, release: placed.release };
    } catch (error) {
      const stored = await locateData(context, { fleet, hash, isStoredOnly: true });
      if (stored.from === "nowhere") throw error;
      return stored;
    }
  }
  if ((await nodeFiles().stat(location)) !== undefined) return registered;
  const located = await locateData(context, { fleet, hash });
  return located.from === "nowhere" ? registered : located;
}

/** Data by their registered name, or stored data by their content hash. */
export interface FoundDataset extends ReadableDataset {
  /** The data as they were registered; absent where no name is registered for them. */
  readonly registered?: DatasetReference & { readonly name: string };
}

/** @throws DATASET_UNKNOWN */
export async function findDataset(
  context: OperationsContext,
  fleet: string,
  nameOrHash: string,
): Promise<FoundDataset> {
  const repository = await context.fleets.get(fleet);
  const names = repository.datasets();
  const found =
    names.find(({ name }) => name === nameOrHash) ?? names.find(({ hash }) => hash === nameOrHash);
  if (found === undefined && isHash(nameOrHash)) {
    const located = await locateData(context, { fleet, hash: nameOrHash });
    if (located.from === "nowhere") throw new StemmaError("DATASET_UNKNOWN", located.text);
    return located;
  }
  const { name } = found ?? { name: nameOrHash };
  const reference = referenceOf(await requireDataset(context, fleet, name));
  return { ...(await readableDataset(context, fleet, reference)), registered: { ...reference, name } };
}
