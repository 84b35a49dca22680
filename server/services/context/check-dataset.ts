/** Reads data at its location: checks that it can be read, and computes its hash. */
import { regularFiles } from "../../../shared/files/regular-files.js";
import { loadDataset } from "../../../shared/train/datasets/registry.js";
import type { DatasetReference } from "../../../shared/train/training.js";

export interface CheckedDataset {
  readonly samples: number;
  /** Samples of each part, as records name them. */
  readonly parts: { readonly train: number; readonly validation: number; readonly heldOut: number };
  readonly hash: string;
  /** Columns, words, scales, split and what else the reader says of the samples. */
  readonly description: Readonly<Record<string, unknown>>;
}

/** Sentences of a reader's description on what of the files it does not read, such as bytes behind a picture's end. */
export function notReadOf({ description }: Pick<CheckedDataset, "description">): readonly string[] {
  const { transformations } = description;
  return (Array.isArray(transformations) ? transformations : []).filter(
    (each): each is string => typeof each === "string" && each.endsWith(" are not read"),
  );
}

/** @throws DATASET_UNKNOWN, DATASET_MALFORMED, DATASET_EMPTY, FILE_MISSING */
export async function checkDatasetAt({
  kind,
  location,
  parameters = {},
}: {
  readonly kind: string;
  readonly location: string;
  readonly parameters?: DatasetReference["parameters"];
}): Promise<CheckedDataset> {
  const { set, hash } = await loadDataset(
    { reader: kind, parameters, ...(location === "" ? {} : { location }) },
    regularFiles(),
  );
  const { train, validation, heldOut, description } = set;
  const parts = { train: train.count, validation: validation.count, heldOut: heldOut.count };
  return { samples: parts.train + parts.validation + parts.heldOut, parts, hash, description };
}
