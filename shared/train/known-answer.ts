/**
 * Computes the known answer of an engine, by which machines are compared. It is a tiny fixed training, and outputs and
 * gradients for numbers on which machines differ when they do not follow IEEE 754: denormals, −0, infinities and NaN
 * into ReLU and max-pool. Its root is kept in engine.json. A machine that gives another root cannot train exactly.
 *
 * WebAssembly fixes every bit of these results but the sign and the payload of a NaN that arithmetic makes
 * (WebAssembly core specification, "NaN propagation"). So every NaN counts as the same one: where a NaN appears is
 * part of the answer, its bits are not.
 */
import { Streams } from "../random/streams.js";
import { sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { GraphBuilder } from "./builders/graph-builder.js";
import { sequenceRegressor } from "./builders/models.js";
import type { SamplePart, SampleSet } from "./datasets/dataset.js";
import { fit } from "./fit.js";
import type { FitPlan } from "./fit-plan.js";
import type { StoredModel } from "./recipes/recipe.js";
import type { TensorFlow, TfLayersModel, TfTensor } from "./tensorflow.js";
import { buildTrainable, type Trainable } from "./trainable.js";

export interface KnownAnswerPorts {
  readonly tf: TensorFlow;
  readonly fuseActivations?: ((model: TfLayersModel) => number) | undefined;
}

const imageShape = [8, 8, 1] as const;
const imageValues = 64;
const windowShape = [4, 2] as const;
/** 2^-130, below the smallest normal float32, 2^-126. */
const denormal = 7.346839692639297e-40;
const fixedNan = 0x7fc00000;

/** Numbers from −11/16 to 11/16, all different from their neighbours. */
const plainValue = (index: number): number => (((index * 37) % 23) - 11) / 16;

/** The fillings of an image: plain numbers, and numbers on which machines may differ. */
const specialImages: readonly ((index: number) => number)[] = [
  plainValue,
  (index) => plainValue(index) * denormal,
  () => -0,
  (index) => (index % 3 === 0 ? -0 : -denormal),
  (index) => (index % 7 === 0 ? NaN : plainValue(index)),
  (index) => (index % 13 === 0 ? (index % 2 === 0 ? Infinity : -Infinity) : plainValue(index)),
];

/**
 * Trains, and computes what is special.
 * @returns the same root on every machine that computes exactly, with every number of threads
 */
export async function knownAnswer(ports: KnownAnswerPorts): Promise<Hash> {
  const image = imageModel();
  const parts: readonly Uint8Array[] = [
    ...specialResults(ports, image),
    ...(await trainedTensors(ports, image, imageSamples())),
    ...(await trainedTensors(ports, windowModel(), windowSamples())),
  ];
  return sha256("stemma-known-answer-1\0", ...parts);
}

/** Convolution, ReLU, batch norm, ReLU6, depthwise convolution, max-pool, logits of two classes. */
function imageModel(): StoredModel {
  const graph = new GraphBuilder();
  const first = graph.convolution(graph.input(imageShape), 1, {
    filters: 4,
    kernel: 3,
    activation: "relu",
    bias: false,
  });
  const normalized = graph.relu6(graph.batchNorm(graph.depthwise(first, 4, 3, 1), 4));
  const pooled = graph.maxPool(graph.sum([graph.maxPool(first), graph.maxPool(normalized)]));
  return graph.build(graph.dense(graph.flatten(pooled), 16, 2), new Streams("1", 0));
}

const windowModel = (): StoredModel =>
  sequenceRegressor(
    { kind: "LSTM", inputShape: windowShape, units: 3, outputs: 1, mean: 0.5 },
    new Streams("2", 0),
  );

/** Outputs and gradients for the special images, before any training. */
function specialResults({ tf, fuseActivations }: KnownAnswerPorts, stored: StoredModel): Uint8Array[] {
  return withModel({ tf, fuseActivations }, stored, (model) =>
    specialImages.flatMap((valueOf) =>
      tf.tidy(() => {
        const pixels = Float32Array.from({ length: imageValues }, (_, index) => valueOf(index));
        const input = tf.tensor(pixels, [1, ...imageShape]);
        const rectified = tf.relu(input);
        const pool = (tensor: TfTensor): TfTensor => tf.maxPool(tensor as never, 2, 2, "valid");
        const outputs = [rectified, pool(input), pool(rectified), ...model.forward(input, false)];
        const { grads } = tf.variableGrads(
          () => tf.sum(model.forward(input, false)[0] as TfTensor).asScalar(),
          model.trainable.map(({ variable }) => variable),
        );
        const gradients = model.trainable.map(({ variable }) => grads[variable.name] as TfTensor);
        return [...outputs, ...gradients].map((tensor) => bytesOf(tensor.dataSync<"float32">()));
      }),
    ),
  );
}

async function trainedTensors(
  ports: KnownAnswerPorts,
  stored: StoredModel,
  samples: SampleSet,
): Promise<Uint8Array[]> {
  const { tf } = ports;
  return withModel(ports, stored, async (model, streams) => {
    const plan = samples.task === "classification" ? imagePlan : windowPlan;
    await fit({ tf, model, samples, plan, streams });
    return model.readTensors().map(({ bytes }) => bytes);
  });
}

function withModel<T extends Uint8Array[] | Promise<Uint8Array[]>>(
  { tf, fuseActivations }: KnownAnswerPorts,
  { architecture, tensors }: StoredModel,
  use: (model: Trainable, streams: Streams) => T,
): T {
  const streams = new Streams("3", 0);
  const model = buildTrainable(tf, architecture, tensors, { streams, frozenLayers: [], fuseActivations });
  const dispose = (): void => {
    model.dispose();
  };
  let used: T;
  try {
    used = use(model, streams);
  } catch (error) {
    dispose();
    throw error;
  }
  if (used instanceof Promise) return used.finally(dispose) as T;
  dispose();
  return used;
}

/** The bytes of float32 numbers, every NaN as the same one. */
function bytesOf(values: Float32Array): Uint8Array {
  const bytes = new Uint8Array(values.length * 4);
  const view = new DataView(bytes.buffer);
  values.forEach((value, index) => {
    if (Number.isNaN(value)) view.setUint32(index * 4, fixedNan, true);
    else view.setFloat32(index * 4, value, true);
  });
  return bytes;
}

const imagePlan: FitPlan = {
  loss: "softmax-cross-entropy",
  epochs: 2,
  batchSize: 4,
  optimizer: { name: "adam" },
  schedule: { name: "constant", rate: 0.01, factor: 1, everyEpochs: 1, warmupIterations: 0 },
  patience: 0,
  frozenLayers: [],
  clipNorm: 1,
  shiftPixels: 1,
  checkpointEveryEpochs: 0,
};
const windowPlan: FitPlan = {
  ...imagePlan,
  loss: "mean-squared-error",
  optimizer: { name: "momentum" },
  shiftPixels: 0,
};

const noSamples: SamplePart = { count: 0, inputs: new Float32Array(), targets: new Float32Array() };

/** Eight images, among them one of denormals and one of zeros with a minus sign. */
function imageSamples(): SampleSet {
  const count = 8;
  const inputs = Float32Array.from({ length: count * imageValues }, (_, index) => {
    const image = Math.floor(index / imageValues);
    return image < 4
      ? (specialImages[image] as (index: number) => number)(index)
      : plainValue(index * (image - 2));
  });
  return {
    task: "classification",
    inputShape: imageShape,
    targetSize: 1,
    classes: 2,
    train: { count, inputs, targets: Float32Array.from({ length: count }, (_, index) => index % 2) },
    validation: noSamples,
    heldOut: noSamples,
    description: {},
  };
}

function windowSamples(): SampleSet {
  const count = 8;
  const length = windowShape[0] * windowShape[1];
  return {
    task: "regression",
    inputShape: windowShape,
    targetSize: 1,
    classes: 0,
    train: {
      count,
      inputs: Float32Array.from({ length: count * length }, (_, index) =>
        index < length ? plainValue(index) * denormal : plainValue(index),
      ),
      targets: Float32Array.from({ length: count }, (_, index) => plainValue(index * 5)),
    },
    validation: noSamples,
    heldOut: noSamples,
    description: {},
  };
}
