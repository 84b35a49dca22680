/**
 * What `stemma bench exactness` trains: each built-in recipe on generated data, small enough to train under
 * emulation. A recipe that is not here fails test/unit/bench/exactness-cases.test.ts.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { exampleTable } from "../helpers/example-table.js";
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

const tablePath = (folder: string): string => join(folder, "table.csv");

/** Writes the files that the cases read. */
export async function writeExampleData(folder: string): Promise<void> {
  await writeFile(tablePath(folder), exampleTable());
}

/** @param folder of the files that `writeExampleData` has written */
export function exactnessCases(folder: string): readonly ExactnessCase[] {
  const table = (parameters: DatasetReference["parameters"]): DatasetReference => ({
    reader: "csv",
    location: tablePath(folder),
    parameters: { scaling: "standard", ...parameters },
  });
  return [
    ...sequenceAndImageCases,
    {
      family: "linear regression (AdaGrad, one sample a step)",
      recipe: "linear-regression",
      dataset: table({ targets: "sum", ignored: "class,odd,large" }),
      parameters: {},
    },
    {
      family: "logistic regression (AdaGrad, one sample a step)",
      recipe: "logistic-regression",
      dataset: table({ task: "classification", ignored: "sum,odd,large" }),
      parameters: {},
    },
    {
      family: "several labels (batch norm, dropout)",
      recipe: "multi-label",
      dataset: table({ task: "multi-label", targets: "odd,large", ignored: "sum,class" }),
      parameters: { epochs: 5 },
    },
    {
      family: "several labels (classifier chain)",
      recipe: "classifier-chain",
      dataset: table({ task: "multi-label", targets: "odd,large", ignored: "sum,class" }),
      parameters: { epochs: 5 },
    },
    {
      family: "factorisation machine for numbers",
      recipe: "factorization-regression",
      dataset: table({ targets: "sum", ignored: "class,odd,large" }),
      parameters: { epochs: 5 },
    },
    {
      family: "factorisation machine for classes (class weights)",
      recipe: "factorization-classification",
      dataset: table({ task: "classification", ignored: "sum,odd,large" }),
      parameters: { epochs: 5, classWeights: "balanced" },
    },
    {
      family: "anomaly detection (autoencoder)",
      recipe: "anomaly-detect",
      dataset: table({ task: "anomaly", ignored: "class,odd,large" }),
      parameters: { epochs: 5 },
    },
    {
      family: "clusters (k-means)",
      recipe: "k-means",
      dataset: table({ task: "anomaly", ignored: "class,odd,large" }),
      parameters: { epochs: 5, clusters: 6 },
    },
    {
      family: "ensemble for classes (bagging, by workers)",
      recipe: "bagging",
      dataset: table({ task: "classification", ignored: "sum,odd,large" }),
      parameters: { members: 10, epochs: 7 },
    },
    {
      family: "ensemble for numbers (random subspaces)",
      recipe: "random-subspaces",
      dataset: table({ targets: "sum", ignored: "class,odd,large" }),
      parameters: { inner: "linear-regression", members: 3, shareThousandths: 667 },
    },
  ];
}

const sequenceAndImageCases: readonly ExactnessCase[] = [
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
    family: "numbers from sequences (LSTM)",
    recipe: "sequence-regression",
    dataset: cells,
    parameters: { epochs: 2, units: 8 },
  },
  {
    family: "classes of sequences (GRU, dropout, class weights)",
    recipe: "sequence-classification",
    dataset: images,
    parameters: { epochs: 1, cell: "gru", units: 8, dropout: 0.1, classWeights: "balanced" },
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
