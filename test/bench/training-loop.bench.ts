/**
 * Our training loop against `fit` of TensorFlow.js, which controls and counts nothing, on the same backend, the same
 * models and samples, without validation. In turn, in one process: `stemma bench training-loop [--quick] [-o json]`.
 * Ours also draws the order of the samples from a counted stream, reads the loss of every step, checks that every
 * weight stays finite, and counts tensors. Asserts nothing.
 */
import { parseArgs } from "node:util";
import { fuseActivations } from "../../shared/train/backends/fused-layers.js";
import { startWasmBackend } from "../../shared/train/backends/wasm.js";
import { leNet5, mobileNetV2, sequenceRegressor } from "../../shared/train/builders/models.js";
import type { SamplePart, SampleSet } from "../../shared/train/datasets/dataset.js";
import { fit } from "../../shared/train/fit.js";
import type { FitPlan } from "../../shared/train/fit-plan.js";
import type { StoredModel } from "../../shared/train/recipes/recipe.js";
import { Streams } from "../../shared/random/streams.js";
import type { TfLayersModel } from "../../shared/train/tensorflow.js";
import { buildTrainable, type Trainable } from "../../shared/train/trainable.js";
import { median } from "./save-floors.js";

const { values: options } = parseArgs({
  options: {
    output: { type: "string", short: "o", default: "table" },
    quick: { type: "boolean", default: false },
  },
});
const rounds = options.quick ? 2 : 9;
const learningRate = 0.001;

interface Case {
  readonly name: string;
  readonly samples: SampleSet;
  readonly batchSize: number;
  readonly epochs: number;
  readonly optimizer: "adam" | "sgd";
  readonly make: (streams: Streams) => StoredModel;
}

/** Samples of random numbers; what is learnt does not matter here. */
function randomSamples(
  form: Pick<SampleSet, "task" | "inputShape" | "targetSize" | "classes">,
  count: number,
): SampleSet {
  const stream = new Streams("1", 0).stream("samples");
  const numbers = (length: number): Float32Array =>
    Float32Array.from({ length }, () => stream.uniformBetween(-1, 1));
  const size = form.inputShape.reduce((product, length) => product * length, 1);
  const targets =
    form.task === "classification"
      ? Float32Array.from({ length: count }, () => stream.integer(form.classes))
      : numbers(count * form.targetSize);
  const none: SamplePart = { count: 0, inputs: new Float32Array(), targets: new Float32Array() };
  return {
    ...form,
    train: { count, inputs: numbers(count * size), targets },
    validation: none,
    heldOut: none,
    withoutParts: ["validation", "heldOut"],
    description: {},
  };
}

const images = (size: number, classes: number, count: number): SampleSet =>
  randomSamples({ task: "classification", inputShape: [size, size, 3], targetSize: 1, classes }, count);

const scale = options.quick ? 4 : 1;
const cases: readonly Case[] = [
  {
    name: "LSTM of a battery (24 units, windows of 10 by 3), batch 16, Adam",
    samples: randomSamples(
      { task: "regression", inputShape: [10, 3], targetSize: 1, classes: 0 },
      1600 / scale,
    ),
    batchSize: 16,
    epochs: 2,
    optimizer: "adam",
    make: (streams) =>
      sequenceRegressor({ kind: "LSTM", inputShape: [10, 3], units: 24, outputs: 1, mean: 0 }, streams),
  },
  {
    name: "LeNet-5, 32 px, batch 32, Adam",
    samples: images(32, 10, 1280 / scale),
    batchSize: 32,
    epochs: 2,
    optimizer: "adam",
    make: (streams) => leNet5([32, 32, 3], 10, streams),
  },
  {
    name: "MobileNetV2 (width 0.35), 96 px, batch 16, SGD",
    samples: images(96, 10, 96 / scale),
    batchSize: 16,
    epochs: 1,
    optimizer: "sgd",
    make: (streams) => mobileNetV2([96, 96, 3], 0.35, 10, streams),
  },
];

const backend = await startWasmBackend();
const { tf } = backend;

interface Built {
  readonly trainable: Trainable;
  readonly model: TfLayersModel;
}

function build({ make }: Case): Built {
  const stored = make(new Streams("1", 0));
  let model: TfLayersModel | undefined;
  const trainable = buildTrainable(tf, stored.architecture, stored.tensors, {
    streams: new Streams("1", 0),
    fuseActivations: (built) => {
      model = built;
      return fuseActivations(built);
    },
  });
  if (model === undefined) throw new Error("No model was built.");
  return { trainable, model };
}

async function trainOurs(each: Case, { trainable }: Built): Promise<void> {
  const plan: FitPlan = {
    epochs: each.epochs,
    batchSize: each.batchSize,
    loss: each.samples.task === "classification" ? "softmax-cross-entropy" : "mean-squared-error",
    optimizer: { name: each.optimizer },
    schedule: { name: "constant", rate: learningRate },
    patience: 0,
    frozenLayers: [],
    clipNorm: 0,
    shiftPixels: 0,
    checkpointEveryEpochs: 0,
  };
  await fit({ tf, model: trainable, samples: each.samples, plan, streams: new Streams("2", 0) });
}

async function trainTheirs({ samples, batchSize, epochs, optimizer }: Case, { model }: Built): Promise<void> {
  const { train, inputShape, classes, targetSize, task } = samples;
  const isClass = task === "classification";
  const inputs = tf.tensor(train.inputs, [train.count, ...inputShape]);
  const targets = isClass
    ? tf.tidy(() => tf.oneHot(tf.tensor1d([...train.targets], "int32"), classes).toFloat())
    : tf.tensor(train.targets, [train.count, targetSize]);
  model.compile({
    optimizer: tf.train[optimizer](learningRate),
    loss: isClass
      ? (labels, logits) => tf.losses.softmaxCrossEntropy(labels, logits)
      : (labels, outputs) => tf.losses.meanSquaredError(labels, outputs),
  });
  await model.fit(inputs, targets, { epochs, batchSize, shuffle: true, yieldEvery: "never", verbose: 0 });
  tf.dispose([inputs, targets]);
}

interface Time {
  readonly clock: number;
  readonly processor: number;
}

async function timed(each: Case, train: (each: Case, built: Built) => Promise<void>): Promise<Time> {
  const built = build(each);
  const start = performance.now();
  const before = process.cpuUsage();
  await train(each, built);
  const { user, system } = process.cpuUsage(before);
  const time = { clock: performance.now() - start, processor: (user + system) / 1000 };
  built.trainable.dispose();
  return time;
}

const results = [];
for (const each of cases) {
  // Once without the clock, so that both find compiled code.
  await timed(each, trainOurs);
  await timed(each, trainTheirs);
  const ours: Time[] = [];
  const theirs: Time[] = [];
  for (let round = 0; round < rounds; round++) {
    ours.push(await timed(each, trainOurs));
    theirs.push(await timed(each, trainTheirs));
  }
  const steps = each.epochs * Math.ceil(each.samples.train.count / each.batchSize);
  const perStep = (times: readonly Time[]): Time => ({
    clock: median(times.map(({ clock }) => clock)) / steps,
    processor: median(times.map(({ processor }) => processor)) / steps,
  });
  const [own, free] = [perStep(ours), perStep(theirs)];
  results.push({
    name: each.name,
    msPerStep: own,
    fitMsPerStep: free,
    ratio: own.processor / free.processor,
  });
}
backend.close();

if (options.output === "json") process.stdout.write(`${JSON.stringify(results)}\n`);
else {
  const lines = results.map(
    ({ name, msPerStep, fitMsPerStep, ratio }) =>
      `${name}\n  ${msPerStep.processor.toFixed(2)} ms of processor time a step, ` +
      `fit ${fitMsPerStep.processor.toFixed(2)}: ${ratio.toFixed(3)} (aim 1.03; ` +
      `clock ${msPerStep.clock.toFixed(2)} and ${fitMsPerStep.clock.toFixed(2)} ms)`,
  );
  process.stdout.write(`${lines.join("\n")}\n`);
}
