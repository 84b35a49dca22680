/**
 * Every family of models learns, and gives the same bytes in another process with another number of threads: what a
 * replay relies on. The committed hashes hold on every machine.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { fuseActivations } from "../../../../../shared/train/backends/fused-layers.js";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { readModelFiles } from "../../../../../shared/train/engine/model-files.js";
import { runTraining, type TrainedModel } from "../../../../../shared/train/run-training.js";
import { trainInChild } from "../../../../../shared/train/train-in-child.js";
import { jobFormat, type DatasetReference, type TrainingJob } from "../../../../../shared/train/training.js";
import { exampleTable } from "../../../../helpers/example-table.js";
import { drawn } from "../../../../helpers/test-depth.js";
import { dataFolder, refusal, skipWithout } from "../datasets/dataset-fixtures.js";

let backend: StartedBackend;
let folder: string;
before(async () => {
  backend = await startWasmBackend();
  folder = await mkdtemp(join(tmpdir(), "stemma-families-"));
  await writeFile(join(folder, "table.csv"), exampleTable());
});
after(async () => {
  backend.close();
  await rm(folder, { recursive: true, force: true });
});

const tableData = (parameters: DatasetReference["parameters"]): DatasetReference => ({
  reader: "csv",
  location: join(folder, "table.csv"),
  parameters: { scaling: "standard", ...parameters },
});
const job = (recipe: string, dataset: DatasetReference, change: Partial<TrainingJob> = {}): TrainingJob => ({
  format: jobFormat,
  recipe,
  parameters: {},
  dataset,
  seed: "12345",
  invocation: 0,
  ...change,
});

const trainHere = (training: TrainingJob): Promise<TrainedModel> =>
  runTraining(training, undefined, {
    tf: backend.tf,
    files: nodeFiles(),
    monotonic: () => performance.now(),
    engine: "0".repeat(64) as Hash,
    backend: { backend: "wasm", reason: "test" },
    environment: {},
    fuseActivations,
  });
const hashOf = (tensors: readonly { readonly bytes: Uint8Array }[]): string => {
  const hash = createHash("sha256");
  for (const { bytes } of tensors) hash.update(bytes);
  return hash.digest("hex").slice(0, 16);
};

/** Recipes that also train in the engine's own process: two that the run's seed draws, or all. */
const inChild = new Set(
  drawn(
    [
      "linear-regression",
      "logistic-regression",
      "multi-label",
      "classifier-chain",
      "factorization-regression",
      "factorization-classification",
      "sequence-regression",
      "sequence-classification",
      "anomaly-detect",
      "k-means",
    ],
    2,
  ),
);

/**
 * Trains here, and some in the engine's own process; asserts the committed hash of both, and that it learnt. The hash
 * was made by both.
 */
async function isRepeated(training: TrainingJob, expected: string): Promise<TrainedModel["result"]> {
  const here = await trainHere(training);
  if (inChild.has(training.recipe)) {
    const workFolder = join(folder, training.recipe);
    const child = await trainInChild({ ...training, threads: 4 }, { workFolder });
    const there = await readModelFiles(
      await readFile(child.modelFile),
      await readFile(child.architectureFile),
      workFolder,
    );
    assert.equal(hashOf(there.tensors), hashOf(here.model.tensors), "another process");
  }
  assert.equal(hashOf(here.model.tensors), expected, "another machine or time");
  const { metric } = here.result;
  assert.ok(metric !== null && metric.after < metric.before === metric.lowerIsBetter, JSON.stringify(metric));
  return here.result;
}

describe("families of models are repeated to the same bytes", () => {
  it("linear regression", async () => {
    const data = tableData({ targets: "sum", ignored: "class,odd,large" });
    const { metric } = await isRepeated(
      job("linear-regression", data, { parameters: { learningRate: 1 } }),
      "fe8a240737b580ae",
    );
    assert.ok(metric!.after < 0.5, `${metric!.after} in the target's unit`);
  });
  it("logistic regression", async () => {
    const data = tableData({ task: "classification", ignored: "sum,odd,large" });
    await isRepeated(job("logistic-regression", data), "8b8fbb52c9ec5823");
  });
  it("multi-label, with batch normalisation and dropout", async () => {
    const data = tableData({ task: "multi-label", targets: "odd,large", ignored: "sum,class" });
    const { evaluation } = await isRepeated(
      job("multi-label", data, { parameters: { epochs: 20 } }),
      "f12ad8894df24bf9",
    );
    const [output] = evaluation!.after.task === "general" ? evaluation!.after.outputs : [];
    assert.ok(output?.evaluation.task === "multi-label" && output.evaluation.labels.length === 2);
  });
  it("several labels by a chain of classifiers", async () => {
    const data = tableData({ task: "multi-label", targets: "odd,large", ignored: "sum,class" });
    await isRepeated(job("classifier-chain", data, { parameters: { epochs: 20 } }), "f918d2db40595910");
  });
  it("factorisation machines, which learn a product that a linear model cannot", async () => {
    const products = join(folder, "products.csv");
    const rows = Array.from(
      { length: 150 },
      (_, row) => [(row * 7) % 11, (row * 5) % 13, (row * 3) % 17] as const,
    );
    await writeFile(
      products,
      `a,b,c,product\n${rows.map(([a, b, c]) => `${a},${b},${c},${(a - 5) * (b - 6)}`).join("\n")}\n`,
    );
    const data: DatasetReference = { reader: "csv", location: products, parameters: { scaling: "standard" } };
    const parameters = { epochs: 60, patience: 0, learningRate: 0.02, factors: 4 };
    const { metric } = await isRepeated(
      job("factorization-regression", data, { parameters }),
      "2b8ddc949496742a",
    );
    const linear = await trainHere(
      job("linear-regression", data, { parameters: { epochs: 60, learningRate: 1 } }),
    );
    assert.ok(metric!.after < linear.result.metric!.after / 4, `${metric!.after}`);
  });
  it("factorisation machines for classes, whose weights are balanced", async () => {
    const data = tableData({ task: "classification", ignored: "sum,odd,large" });
    const parameters = { classWeights: "balanced", epochs: 20 };
    await isRepeated(job("factorization-classification", data, { parameters }), "58aa8e95961e9ba9");
  });
  it("sequences with an LSTM, for numbers, and with a GRU, dropout and class weights, for classes", async () => {
    const cells: DatasetReference = {
      reader: "battery-simulated",
      parameters: { vehicle: 1, cycles: 100, cells: 1 },
    };
    await isRepeated(job("sequence-regression", cells, { parameters: { units: 8 } }), "a8c452c7b9f3cb0b");
    const images: DatasetReference = { reader: "images-generated", parameters: { vehicle: 1, count: 240 } };
    const parameters = { cell: "gru", units: 8, dropout: 0.1, classWeights: "balanced", epochs: 4 };
    await isRepeated(job("sequence-classification", images, { parameters }), "db4c546d02dfaa1e");
  });
  it("anomaly detection by an autoencoder", async () => {
    const data = tableData({ task: "anomaly", ignored: "class,odd,large" });
    const { evaluation } = await isRepeated(
      job("anomaly-detect", data, { parameters: { epochs: 20 } }),
      "a54d0df5c5de3173",
    );
    const [output] = evaluation!.after.task === "general" ? evaluation!.after.outputs : [];
    assert.ok(output?.evaluation.task === "regression" && output.evaluation.reconstruction !== undefined);
  });
  it("clusters by k-means, until no centre moves", async () => {
    const data = tableData({ task: "anomaly", ignored: "sum,class,odd,large" });
    const result = await isRepeated(
      job("k-means", data, { parameters: { clusters: 5 } }),
      "f6c54682c83be64f",
    );
    assert.ok(result.stoppedEarly && result.epochs < 50, `${result.epochs}`);
    const losses = result.measurements.map(({ loss }) => loss);
    assert.ok(
      losses.every((loss, epoch) => epoch === 0 || loss <= losses[epoch - 1]!),
      losses.join(),
    );
    const [output] = result.evaluation!.after.task === "general" ? result.evaluation!.after.outputs : [];
    assert.ok(output?.evaluation.task === "regression");
    const { clusters, samples } = output.evaluation;
    assert.equal(clusters?.length, 5);
    assert.equal(
      clusters.reduce((sum, each) => sum + each),
      samples,
    );
  });
  it("refuse data of another form", async () => {
    const wrong: TrainingJob[] = [
      job("multi-label", tableData({ task: "anomaly", ignored: "class" })),
      job("anomaly-detect", tableData({ targets: "sum", ignored: "class" })),
      job("anomaly-detect", tableData({ task: "anomaly", ignored: "class" }), { parameters: { code: 9 } }),
      job("k-means", tableData({ task: "multi-label", targets: "odd,large", ignored: "class" })),
      job("k-means", tableData({ task: "anomaly", ignored: "class" }), { parameters: { clusters: 97 } }),
      job("k-means", tableData({ task: "anomaly", ignored: "class" }), { parameters: { clusters: 0 } }),
      job("k-means", tableData({ task: "anomaly", ignored: "class" }), { parameters: { learningRate: 1 } }),
    ];
    for (const each of wrong)
      await assert.rejects(trainHere(each), refusal("RECIPE_PARAMETERS_INVALID"), each.recipe);
    for (const rows of [
      ["a,b", "1e30,1", "2e30,2", "3e30,3"],
      ["a,b", "1e15,1e-15", "1e15,2e-15", "1e15,3e-15"],
    ]) {
      const location = join(folder, "large.csv");
      await writeFile(
        location,
        [rows[0], ...Array.from({ length: 4 }, () => rows.slice(1)).flat()].join("\n"),
      );
      const data: DatasetReference = { reader: "csv", location, parameters: { task: "anomaly" } };
      await assert.rejects(
        trainHere(job("k-means", data, { parameters: { clusters: 2 } })),
        refusal("NOT_A_NUMBER"),
      );
    }
  });
  it("k-means finds the best three clusters of iris", { skip: skipWithout("iris") }, async () => {
    const { measurements } = (
      await trainHere(
        job(
          "k-means",
          {
            reader: "csv",
            location: join(dataFolder, "iris", "bezdekIris.data"),
            parameters: {
              task: "anomaly",
              ignored: "Class",
              heldOutThousandths: 0,
              validationThousandths: 0,
            },
          },
          { parameters: { clusters: 3 } },
        ),
      )
    ).result;
    // The sum of squared distances that the literature gives, over 150 rows of four numbers.
    assert.equal((measurements.at(-1)!.loss * 600).toFixed(1), "78.9");
  });
  it("MERIT's case: iris, AdaGrad, seed 12345 (ME15)", { skip: skipWithout("iris") }, async () => {
    const { provenance, evaluation } = (
      await trainHere(
        job("logistic-regression", {
          reader: "csv",
          location: join(dataFolder, "iris", "bezdekIris.data"),
          parameters: { task: "classification", heldOutThousandths: 300, validationThousandths: 0 },
        }),
      )
    ).result;
    assert.deepEqual(provenance["optimizer"], {
      name: "adagrad",
      momentum: 0,
      nesterov: false,
      decay: 0.9,
      centered: false,
      beta1: 0.9,
      beta2: 0.999,
      epsilon: 0.1,
      initialAccumulator: 0,
      stateBefore: "initial",
    });
    assert.equal(provenance["iterations"], 5 * 105);
    assert.ok(evaluation!.after.task === "classification" && evaluation!.after.accuracy > 0.85);
  });
});
