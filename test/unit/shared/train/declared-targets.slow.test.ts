/**
 * Trainings on declared targets: several outputs with losses of their own, masks, labels and autoencoders; data
 * without validation or held-out samples; what does not fit is refused before anything is computed.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { Streams } from "../../../../shared/random/streams.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { startWasmBackend, type StartedBackend } from "../../../../shared/train/backends/wasm.js";
import { GraphBuilder } from "../../../../shared/train/builders/graph-builder.js";
import { canonicalSamples, sampleSetHash } from "../../../../shared/train/datasets/canonical-samples.js";
import { loadDataset } from "../../../../shared/train/datasets/registry.js";
import type { StoredModel } from "../../../../shared/train/recipes/recipe.js";
import { runTraining, type TrainedModel } from "../../../../shared/train/run-training.js";
import { runEvaluation } from "../../../../shared/train/run-evaluation.js";
import { jobFormat, type DatasetReference, type TrainingJob } from "../../../../shared/train/training.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { seededNumbers } from "../../../helpers/manual-clock.js";

let backend: StartedBackend;
before(async () => {
  backend = await startWasmBackend();
});
after(() => {
  backend.close();
});

/** [3, 2] in; wear (1 number), mode (3 classes), mask (a class at each of 3 positions), faults (2 labels). */
function network(): StoredModel {
  const graph = new GraphBuilder();
  const input = graph.input([3, 2]);
  const flat = graph.flatten(input);
  const hidden = graph.dense(flat, 6, 8, "tanh");
  const wear = graph.dense(hidden, 8, 1);
  const mode = graph.dense(hidden, 8, 3, "softmax");
  const mask = graph.dense(input, 2, 2);
  const faults = graph.dense(hidden, 8, 2, "sigmoid");
  return graph.build([wear, mode, mask, faults], new Streams("1", 0));
}

const targets = "wear:number,mode:class:3,mask:classes:2:3,faults:labels:2";

/** Lines of samples whose targets follow from their values. */
function lines(
  count: number,
  change: (sample: Record<string, unknown>, at: number) => void = () => undefined,
): string {
  const random = seededNumbers(4);
  return Array.from({ length: count }, (_, at) => {
    const values = Array.from({ length: 6 }, () => random() * 2 - 1);
    const sum = values.reduce((a, b) => a + b, 0);
    const sample = {
      id: `s${at}`,
      shape: [3, 2],
      values,
      split: at % 5 === 0 ? "held-out" : at % 5 === 1 ? "validation" : "train",
      targets: {
        wear: sum / 3,
        mode: sum < -0.5 ? 0 : sum < 0.5 ? 1 : 2,
        mask: [0, 1, 2].map((row) => (values[2 * row]! > values[2 * row + 1]! ? 1 : 0)),
        faults: { shape: [2], values: [sum > 0 ? 1 : 0, values[0]! > 0 ? 1 : 0] },
      },
    };
    change(sample, at);
    return JSON.stringify(sample);
  }).join("\n");
}

async function filesWith(text: string): Promise<ReturnType<typeof memoryFiles>> {
  const files = memoryFiles();
  await files.makeFolder("/data");
  const file = await files.open("/data/measured.jsonl", "create");
  await file.write(new TextEncoder().encode(text), 0);
  await file.close();
  return files;
}

const reference = (parameters: DatasetReference["parameters"] = {}): DatasetReference => ({
  reader: "samples",
  location: "/data",
  parameters: { targets, ...parameters },
});

interface Options {
  readonly text?: string;
  readonly dataset?: DatasetReference["parameters"];
  readonly parameters?: TrainingJob["parameters"];
  readonly model?: StoredModel | undefined;
  readonly recipe?: string;
}

const ports = (files: ReturnType<typeof memoryFiles>) => ({
  tf: backend.tf,
  files,
  monotonic: () => 0,
  engine: "e".repeat(64) as Hash,
  backend: { backend: "wasm", reason: "test" } as const,
});

async function train({
  text = lines(60),
  dataset,
  parameters = {},
  ...options
}: Options = {}): Promise<TrainedModel> {
  const job: TrainingJob = {
    format: jobFormat,
    recipe: options.recipe ?? "fine-tune",
    parameters: { epochs: 15, learningRate: 0.02, batchSize: 8, ...parameters },
    dataset: reference(dataset),
    seed: "1",
    invocation: 0,
  };
  const model = "model" in options ? options.model : network();
  return runTraining(job, model && { model }, { ...ports(await filesWith(text)), environment: {} });
}

const refused =
  (code: ErrorCode, ...texts: readonly string[]) =>
  (error: unknown): boolean => {
    assert.ok(isStemmaError(error, code), String(error));
    for (const text of texts) assert.ok(error.message.includes(text), error.message);
    return true;
  };

describe("declared targets", () => {
  it("train several outputs together, bit for bit, and each is evaluated by its kind", async () => {
    const first = await train();
    const { metric, evaluation } = first.result;
    assert.ok(metric && metric.name === "loss" && metric.after < metric.before / 2, JSON.stringify(metric));
    const after = evaluation?.after;
    assert.ok(after?.task === "general" && after.loss === metric.after);
    assert.deepEqual(
      after.outputs.map(({ name, evaluation: { task } }) => [name, task]),
      [
        ["wear", "regression"],
        ["mode", "classification"],
        ["mask", "classification"],
        ["faults", "multi-label"],
      ],
    );
    const mask = after.outputs[2]!.evaluation;
    assert.ok(mask.task === "classification" && mask.accuracy > 0.8, JSON.stringify(mask));
    const second = await train();
    const bytes = ({ model }: TrainedModel): Buffer =>
      Buffer.concat(model.tensors.map((tensor) => tensor.bytes));
    assert.deepEqual(bytes(second), bytes(first));
    const evaluated = await runEvaluation(
      { format: jobFormat, evaluate: { inference: true }, dataset: reference(), base: { folder: "" } },
      first.model,
      { ...ports(await filesWith(lines(60))), peakBytes: () => 4096 },
    );
    assert.deepEqual(evaluated.evaluation, after);
    assert.equal(evaluated.inference?.peakBytes, 4096);
    assert.ok((evaluated.inference?.milliseconds ?? -1) >= 0);
  });

  it("have losses and weights by name: an output of weight 0 is not learned", async () => {
    const parameters = { losses: "wear=mean-absolute-error", lossWeights: "mask=0,mode=2.5" };
    const { result, model } = await train({ parameters });
    assert.deepEqual((result.provenance as { loss: unknown }).loss, [
      { loss: "mean-absolute-error", weight: 1 },
      { loss: "softmax-cross-entropy", weight: 2.5 },
      { loss: "softmax-cross-entropy", weight: 0 },
      { loss: "sigmoid-cross-entropy", weight: 1 },
    ]);
    const base = network();
    const unchanged = model.tensors.filter((tensor, at) =>
      Buffer.from(tensor.bytes).equals(Buffer.from(base.tensors[at]!.bytes)),
    );
    assert.equal(unchanged.length, 2, "kernel and bias of the mask's layer");
    for (const wrong of [
      { losses: "nothing=mean-squared-error" },
      { losses: "mode=hinge" },
      { losses: "faults=softmax-cross-entropy" },
      { lossWeights: "wear=-1" },
      { lossWeights: "wear" },
    ])
      await assert.rejects(train({ parameters: wrong }), refused("RECIPE_PARAMETERS_INVALID"));
  });

  it("can be the input itself: an autoencoder needs no labels", async () => {
    const graph = new GraphBuilder();
    const model = graph.build(
      graph.dense(graph.dense(graph.input([6]), 6, 3, "tanh"), 3, 6),
      new Streams("1", 0),
    );
    const text = lines(60, (sample) => {
      delete sample["targets"];
      delete sample["shape"];
    });
    const { result } = await train({ text, model, dataset: { targets: "input" } });
    assert.ok(result.metric && result.metric.after < result.metric.before);
  });

  it("are refused where model and data do not fit, naming output, target or sample", async () => {
    const rejects = (options: Options, code: ErrorCode, ...texts: readonly string[]): Promise<void> =>
      assert.rejects(train(options), refused(code, ...texts));
    await rejects({ dataset: { targets: "wear:number" } }, "ARCHITECTURE_MISMATCH", "4 outputs", "1 targets");
    await rejects(
      { dataset: { targets: "mode:class:3,wear:number,mask:classes:2:3,faults:labels:2" } },
      "ARCHITECTURE_MISMATCH",
      "output 0",
      '"mode"',
    );
    await rejects(
      { dataset: { targets: "wear:number,mode:class" } },
      "RECIPE_PARAMETERS_INVALID",
      "mode:class",
    );
    await rejects({ dataset: { targets: "a:number,a:number" } }, "RECIPE_PARAMETERS_INVALID", "twice");
    const change = (name: string, value: unknown): string =>
      lines(60, (sample, at) => {
        if (at === 7) (sample["targets"] as Record<string, unknown>)[name] = value;
      });
    await rejects({ text: change("mode", 3) }, "DATASET_MALFORMED", "s7", '"mode"');
    await rejects({ text: change("mask", [0, 1]) }, "DATASET_MALFORMED", "s7", '"mask"', "[3]");
    await rejects({ text: change("faults", [0, 0.5]) }, "DATASET_MALFORMED", "s7", '"faults"');
    await rejects({ text: change("wear", undefined) }, "DATASET_MALFORMED", "s7", '"wear"');
    await rejects(
      { text: change("mask", { shape: [2], values: [1] }) },
      "SAMPLE_INVALID",
      "8 of",
      "targets.mask",
    );
    await rejects({ model: undefined }, "RECIPE_PARAMETERS_INVALID", "--base");
    await rejects(
      { recipe: "battery-soh", parameters: { epochs: 1 } },
      "RECIPE_PARAMETERS_INVALID",
      "fine-tune",
    );
  });
});

describe("data without some parts", () => {
  it("trains all epochs without validation samples, and the measurements state it", async () => {
    const { result } = await train({ dataset: { parts: "train,held-out" }, parameters: { epochs: 7 } });
    assert.deepEqual([result.epochs, result.stoppedEarly, result.samples.validation], [7, false, 0]);
    const ends = result.measurements.filter(({ validation }) => validation !== undefined);
    assert.deepEqual(
      ends.map(({ validation }) => validation),
      new Array(7).fill(null),
    );
    assert.equal((result.provenance as { earlyStopping: unknown }).earlyStopping, null);
    await assert.rejects(
      train({ dataset: { parts: "train,held-out" }, parameters: { patience: 3 } }),
      refused("RECIPE_PARAMETERS_INVALID", "patience"),
    );
  });

  it("measures nothing without held-out samples", async () => {
    const { result } = await train({ dataset: { parts: ["train"] }, parameters: { epochs: 2 } });
    assert.equal(result.metric, null);
    assert.equal(result.evaluation, undefined);
    assert.equal(result.samples.train, 36, "samples of the other parts are not trained on");
    await assert.rejects(
      train({ dataset: { parts: "validation" } }),
      refused("RECIPE_PARAMETERS_INVALID", "train"),
    );
    await assert.rejects(
      train({ text: lines(60, (sample) => (sample["split"] = "train")) }),
      refused("DATASET_EMPTY", "heldOut"),
    );
  });
});

it("gives the same samples from their canonical bytes, with the same id", async () => {
  for (const parameters of [{}, { parts: "train" }, { targets: "mask:classes:2:3,mask2:input" }]) {
    const text = lines(20, (sample) => {
      (sample["targets"] as Record<string, unknown>)["mask2"] = 1;
    });
    const { set, hash } = await loadDataset(reference(parameters), await filesWith(text));
    const bytes = Buffer.concat([...canonicalSamples(set)]);
    const files = await filesWith("");
    const file = await files.open("/data/object", "create");
    await file.write(bytes, 0);
    const stored = (length: number): DatasetReference => ({
      reader: "canonical",
      parameters: {},
      location: length === bytes.length ? "/data/object" : "/data/cut",
      hash,
    });
    const again = await loadDataset(stored(bytes.length), files);
    assert.equal(sampleSetHash(again.set), hash);
    assert.deepEqual(again.set.train, set.train);
    assert.deepEqual(again.set.outputs, set.outputs);
    const cut = await files.open("/data/cut", "create");
    await cut.write(bytes.subarray(0, bytes.length - 3), 0);
    await assert.rejects(loadDataset(stored(0), files), refused("DATASET_MALFORMED"));
  }
});
