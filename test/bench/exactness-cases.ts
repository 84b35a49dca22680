/**
 * What `stemma bench exactness` trains: each built-in recipe on generated data, small enough to train under
 * emulation. A recipe that is not here fails test/unit/bench/exactness-cases.test.ts.
 */
import { jobFormat, type DatasetReference, type TrainingJob } from "../../shared/train/training.js";

export interface ExactnessCase {
  readonly family: string;
  readonly recipe: string;
  readonly dataset: DatasetReference;
  readonly parameters: TrainingJob["parameters"];
  /** Recipe of another case, on the same data, that trains the model this one starts from. */
  readonly startsFrom?: string;
}

const cells: DatasetReference = {
  reader: "battery-simulated",
  parameters: { vehicle: 1, cycles: 100, cells: 1 },
};
const images: DatasetReference = { reader: "images-generated", parameters: { vehicle: 1, count: 240 } };

export const exactnessCases: readonly ExactnessCase[] = [
  {
    family: "regression of sequences (LSTM)",
    recipe: "battery-soh",
    dataset: cells,
    parameters: { epochs: 3 },
  },
  {
    family: "regression of sequences (GRU)",
    recipe: "battery-soh-gru",
    dataset: cells,
    parameters: { epochs: 3 },
  },
  {
    family: "classification of images (convolutions, dropout, moved images)",
    recipe: "image-classify",
    dataset: images,
    parameters: { epochs: 2 },
  },
  {
    family: "classification of images (batch norm, depthwise convolutions)",
    recipe: "image-mobilenet",
    dataset: images,
    parameters: { epochs: 1 },
  },
  {
    family: "a model of one's own, by its targets",
    recipe: "fine-tune",
    dataset: images,
    parameters: { epochs: 1 },
    startsFrom: "image-classify",
  },
];

export function jobOf({ recipe, dataset, parameters }: ExactnessCase, baseFolder?: string): TrainingJob {
  return {
    format: jobFormat,
    recipe,
    parameters,
    dataset,
    seed: "7",
    invocation: 0,
    threads: 1,
    ...(baseFolder === undefined ? {} : { base: { folder: baseFolder } }),
  };
}
