/** Finds a fleet's named data, and describes it for a training or an evaluation. */
import { noSuchData } from "../../../shared/missing-errors.js";
import { isHash } from "../../../shared/tensor/hash.js";
import type { DatasetReference } from "../../../shared/train/training.js";
import type { DatasetSummary } from "../../interface/api/models/dataset-schemas.js";
import type { OperationsContext } from "./operations-context.js";

/** @throws DATASET_UNKNOWN */
export async function requireDataset(
  { fleets }: OperationsContext,
  fleet: string,
  name: string,
): Promise<DatasetSummary> {
  const found = (await fleets.get(fleet)).datasets().find((dataset) => dataset.name === name);
  if (found === undefined) throw noSuchData(fleet, name);
  return found;
}

/** Named data as a training refers to it. */
export function referenceOf({ kind, location, parameters, hash }: DatasetSummary): DatasetReference {
  return {
    reader: kind,
    parameters,
    ...(location === "" ? {} : { location }),
    ...(hash !== null && isHash(hash) ? { hash } : {}),
  };
}
