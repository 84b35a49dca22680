/** Reads data at its location: checks that it can be read, and computes its hash. */
import { nodeFiles } from "../../../shared/files/node-files.js";
import { loadDataset } from "../../../shared/train/datasets/registry.js";
import type { DatasetReference } from "../../../shared/train/training.js";

/** @throws DATASET_UNKNOWN, DATASET_MALFORMED, DATASET_EMPTY, FILE_MISSING */
export async function checkDatasetAt({
  kind,
  location,
  parameters = {},
}: {
  readonly kind: string;
  readonly location: string;
  readonly parameters?: DatasetReference["parameters"];
}): Promise<{ readonly samples: number; readonly hash: string }> {
  const { set, hash } = await loadDataset(
    { reader: kind, parameters, ...(location === "" ? {} : { location }) },
    nodeFiles(),
  );
  return { samples: set.train.count + set.validation.count + set.heldOut.count, hash };
}
