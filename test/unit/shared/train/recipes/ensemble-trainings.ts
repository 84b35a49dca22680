/** What the tests of ensembles share: data, trainings in this process, and their repetition in the engine's. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import type { Hash, Tensor } from "../../../../../shared/tensor/tensor.js";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { readModelFiles } from "../../../../../shared/train/engine/model-files.js";
import {
  runTraining,
  type TrainedModel,
  type TrainingPorts,
} from "../../../../../shared/train/run-training.js";
import type { TensorFlow } from "../../../../../shared/train/tensorflow.js";
import { trainInChild } from "../../../../../shared/train/train-in-child.js";
import { jobFormat, type DatasetReference, type TrainingJob } from "../../../../../shared/train/training.js";
import { exampleTable } from "../../../../helpers/example-table.js";

export const job = (
  recipe: string,
  dataset: DatasetReference,
  change: Partial<TrainingJob> = {},
): TrainingJob => ({
  format: jobFormat,
  recipe,
  parameters: {},
  dataset,
  seed: "12345",
  invocation: 4,
  ...change,
});

export const hashOf = (tensors: readonly Tensor[]): string => {
  const hash = createHash("sha256");
  for (const { bytes } of tensors) hash.update(bytes);
  return hash.digest("hex").slice(0, 16);
};

export interface EnsembleTrainings {
  readonly tf: () => TensorFlow;
  readonly folder: () => string;
  /** One table with targets of each kind. */
  readonly tables: Readonly<Record<"classes" | "numbers" | "labels", () => DatasetReference>>;
  readonly trainHere: (training: TrainingJob, ports?: Partial<TrainingPorts>) => Promise<TrainedModel>;
  /**
   * Trains here, one member after the other, and where asked for in the engine's process with other threads; asserts
   * the same bytes, the committed hash, and that it learnt.
   */
  readonly isRepeated: (
    isInChildToo: boolean,
    training: TrainingJob,
    expected: string,
  ) => Promise<TrainedModel>;
}

/** Starts a backend and writes the table before the tests of the file, and ends both after them. */
export function ensembleTrainings(): EnsembleTrainings {
  let backend: StartedBackend;
  let folder: string;
  before(async () => {
    backend = await startWasmBackend();
    folder = await mkdtemp(join(tmpdir(), "stemma-ensembles-"));
    await writeFile(join(folder, "table.csv"), exampleTable());
  });
  after(async () => {
    backend.close();
    await rm(folder, { recursive: true, force: true });
  });
  const table = (parameters: DatasetReference["parameters"]): DatasetReference => ({
    reader: "csv",
    location: join(folder, "table.csv"),
    parameters: { scaling: "standard", ...parameters },
  });
  const trainHere: EnsembleTrainings["trainHere"] = (training, ports = {}) =>
    runTraining(training, undefined, {
      tf: backend.tf,
      files: nodeFiles(),
      monotonic: () => performance.now(),
      engine: "0".repeat(64) as Hash,
      backend: { backend: "wasm", reason: "test" },
      environment: {},
      ...ports,
    });
  const isRepeated: EnsembleTrainings["isRepeated"] = async (isInChildToo, training, expected) => {
    const here = await trainHere(training);
    if (isInChildToo) await isRepeatedInChild(here, training, await mkdtemp(join(folder, "work-")));
    assert.equal(hashOf(here.model.tensors), expected, "another machine or time");
    const { metric } = here.result;
    assert.ok(
      metric !== null && metric.after < metric.before === metric.lowerIsBetter,
      JSON.stringify(metric),
    );
    return here;
  };
  return {
    tf: () => backend.tf,
    folder: () => folder,
    tables: {
      classes: () => table({ task: "classification", ignored: "sum,odd,large" }),
      numbers: () => table({ targets: "sum", ignored: "class,odd,large" }),
      labels: () => table({ task: "multi-label", targets: "odd,large", ignored: "sum,class" }),
    },
    trainHere,
    isRepeated,
  };
}

async function isRepeatedInChild(
  here: TrainedModel,
  training: TrainingJob,
  workFolder: string,
): Promise<void> {
  const child = await trainInChild({ ...training, threads: 2 }, { workFolder });
  const there = await readModelFiles(
    await readFile(child.modelFile),
    await readFile(child.architectureFile),
    workFolder,
  );
  assert.equal(hashOf(there.tensors), hashOf(here.model.tensors), "another process");
  assert.deepEqual(child.result.measurements, here.result.measurements);
  assert.deepEqual(child.result.provenance["random"], here.result.provenance["random"]);
}
