/** All dataset readers, by the name that jobs and records use. */
import { StemmaError } from "../../errors.js";
import type { DatasetReference } from "../training.js";
import { batterySimulated } from "./battery-simulated.js";
import type { DatasetFiles, DatasetReader, SampleSet } from "./dataset.js";
import { idx } from "./idx.js";
import { imageFolder } from "./image-folder.js";
import { imagesGenerated } from "./images-generated.js";
import { mnist } from "./mnist.js";
import { nasaBattery } from "./nasa-battery.js";
import { canonical } from "./canonical.js";
import { csv } from "./csv.js";
import { libsvm } from "./libsvm.js";
import { sampleSetHash } from "./canonical-samples.js";
import { textFolder } from "./text-folder.js";
import { samples } from "./samples.js";

const datasetReaders: readonly DatasetReader[] = [
  nasaBattery,
  batterySimulated,
  mnist,
  imagesGenerated,
  csv,
  libsvm,
  idx,
  imageFolder,
  textFolder,
  samples,
  canonical,
];

/** @throws DATASET_UNKNOWN */
function datasetReader(name: string): DatasetReader {
  const reader = datasetReaders.find((each) => each.name === name);
  if (reader === undefined)
    throw new StemmaError(
      "DATASET_UNKNOWN",
      `There is no dataset reader with the name "${name.slice(0, 60)}". Use one of ${datasetReaders.map((each) => each.name).join(", ")}.`,
      { reader: name },
    );
  return reader;
}

/** True if a reader makes its samples itself, from its parameters alone. False for an unknown name. */
export function isGenerator(name: string): boolean {
  return datasetReaders.some((each) => each.name === name && !each.needsLocation);
}

interface LoadedDataset {
  readonly set: SampleSet;
  readonly hash: ReturnType<typeof sampleSetHash>;
}

/**
 * Reads the samples of a reference and checks their hash where the reference has one.
 * @throws DATASET_UNKNOWN, DATASET_MALFORMED (also when the hash differs), DATASET_EMPTY, FILE_MISSING,
 * RECIPE_PARAMETERS_INVALID
 */
export async function loadDataset(reference: DatasetReference, files: DatasetFiles): Promise<LoadedDataset> {
  const reader = datasetReader(reference.reader);
  if (reader.needsLocation && reference.location === undefined)
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The dataset ${reader.name} needs a location. Give the folder of its files.`,
      { reader: reader.name },
    );
  const set = await reader.read(reference, files);
  const hash = sampleSetHash(set);
  if (reference.hash !== undefined && reference.hash !== hash)
    throw new StemmaError(
      "DATASET_MALFORMED",
      `The samples of ${reader.name} differ from those that this training was recorded with (hash ${hash.slice(0, 12)}, expected ${reference.hash.slice(0, 12)}). Restore the original data.`,
      { expected: reference.hash, actual: hash },
    );
  return { set, hash };
}
