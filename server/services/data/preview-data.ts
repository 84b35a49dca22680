/** Reads data as `data add` would, and keeps nothing. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { regularFiles } from "../../../shared/files/regular-files.js";
import type { DatasetReference } from "../../../shared/train/training.js";
import { checkDatasetAt, notReadOf, type CheckedDataset } from "../context/check-dataset.js";
import { addressedData } from "./addressed-data.js";
import { kindOfData } from "./look-at-data.js";
import { withPlacedData } from "./place-data.js";

interface GivenData {
  readonly kind?: string | undefined;
  readonly location: string;
  readonly parameters: DatasetReference["parameters"];
}

/** @throws the errors of reading the data */
export async function previewData(
  given: GivenData,
): Promise<
  Pick<CheckedDataset, "samples" | "hash"> & { readonly kind: string; readonly notRead: readonly string[] }
> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-data-"));
  try {
    const data = await addressedData(
      { ...given, kind: given.kind ?? (await kindOfData(given.location)) },
      { files: regularFiles(), rowsFolder: folder },
    );
    const found = await withPlacedData(data, folder, checkDatasetAt);
    return { kind: data.kind, samples: found.samples, hash: found.hash, notRead: notReadOf(found) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
