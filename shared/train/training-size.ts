/**
 * Estimates a training's work before it runs: steps, multiplications and memory, from its model's
 * architecture, its parameters and its number of samples. An estimate: shapes are followed through the layers
 * as far as their configuration states them. Pure.
 */
import type { Architecture, LeafLayer } from "../model/model.js";

/** The statements of a story about the size of a training. Absent members: not stated, or redacted. */
export interface StatedTraining {
  readonly samples: { readonly train: number; readonly validation: number; readonly heldOut: number };
  readonly epochs: number;
  readonly batchSize: number;
  /** The members of an ensemble, whose architecture has all of them. */
  readonly members: number;
}

export interface TrainingSize {
  readonly steps: number;
  /** Multiplications of all passes, forward and backward. */
  readonly operations: number;
  /** Weights with gradients and two states of an optimizer, one batch with its gradients, all samples. */
  readonly memoryBytes: number;
}

/** Backward passes take about twice what a forward pass does. */
export const passesOfAStep = 3;
export const bytesOfANumber = 4;
/** The weights, their gradients, and what Adam keeps of each. */
const copiesOfAWeight = 4;

export function trainingSize(architecture: Architecture, stated: StatedTraining): TrainingSize {
  const { samples, epochs, batchSize, members } = stated;
  const { weights, operations, activations, inputs } = modelSize(architecture);
  const all = samples.train + samples.validation + samples.heldOut;
  const passes = epochs * (passesOfAStep * samples.train + samples.validation) + 2 * samples.heldOut;
  return {
    steps: members * epochs * Math.ceil(samples.train / batchSize),
    operations: operations * passes,
    memoryBytes:
      bytesOfANumber *
      (copiesOfAWeight * weights + 2 * activations * Math.min(batchSize, all) + inputs * all),
  };
}

interface ModelSize {
  readonly weights: number;
  /** Multiplications of a forward pass of one sample. */
  readonly operations: number;
  /** Numbers that the layers give for one sample. */
  readonly activations: number;
  /** Numbers of one sample. */
  readonly inputs: number;
}

/** The output of a layer for one sample: so many positions (pixels, time steps) of so many channels. */
interface Form {
  readonly positions: number;
  readonly channels: number;
}

export function modelSize({ layers }: Architecture): ModelSize {
  const forms: Form[] = [];
  const size = { weights: 0, operations: 0, activations: 0, inputs: 0 };
  for (const layer of layers) {
    const own = layer.sharedWith === undefined ? layer : (layers[layer.sharedWith] as LeafLayer);
    const before = joined(layer.inputs.map(({ layer: from }) => forms[from] as Form));
    const form = formOf(own, before);
    forms.push(form);
    const weights = weightsOf(own);
    size.weights += own === layer ? weights : 0;
    size.operations += weights * (isRecurrent(own) ? before : form).positions;
    size.activations += form.positions * Math.max(form.channels, widestOf(own));
    if (layer.className === "InputLayer") size.inputs += form.positions * form.channels;
  }
  return size;
}

function joined(inputs: readonly Form[]): Form {
  return {
    positions: Math.max(1, ...inputs.map(({ positions }) => positions)),
    channels: inputs.reduce((sum, { channels }) => sum + channels, 0),
  };
}

const poolings = /^(Max|Average)Pooling/;
const strided = /^(Conv|DepthwiseConv|SeparableConv)/;
const recurrent = new Set(["SimpleRNN", "GRU", "LSTM", "Bidirectional", "RNN"]);

function isRecurrent({ className }: LeafLayer): boolean {
  return recurrent.has(className);
}

function formOf(layer: LeafLayer, before: Form): Form {
  const { className, config } = layer;
  if (className === "InputLayer") return formOfShape(numbersOf(config["batch_input_shape"]).slice(1));
  if (className === "Flatten") return { positions: 1, channels: before.positions * before.channels };
  if (className === "Reshape") return formOfShape(numbersOf(config["target_shape"]));
  if (className.startsWith("Global")) return { positions: 1, channels: before.channels };
  if (className === "Embedding")
    return { positions: before.positions * before.channels, channels: numberOf(config["output_dim"], 1) };
  if (isRecurrent(layer)) {
    const inner = config["layer"] as { readonly config?: Readonly<Record<string, unknown>> } | undefined;
    const settings = inner?.config ?? config;
    return {
      positions: settings["return_sequences"] === true ? before.positions : 1,
      channels: numberOf(settings["units"], before.channels) * (inner === undefined ? 1 : 2),
    };
  }
  const channels = numberOf(config["units"] ?? config["filters"], before.channels);
  if (poolings.test(className) || strided.test(className))
    return { positions: positionsAfter(layer, before), channels };
  if (className.startsWith("UpSampling"))
    return { positions: before.positions * product(numbersOf(config["size"])), channels };
  return { positions: before.positions, channels };
}

function positionsAfter({ className, config }: LeafLayer, { positions }: Form): number {
  const axes = Number(/([123])D/.exec(className)?.[1] ?? 1);
  const strides = numbersOf(config["strides"] ?? config["pool_size"] ?? 1);
  const factor =
    strides.length === 1 ? product(new Array<number>(axes).fill(strides[0] as number)) : product(strides);
  return className.includes("Transpose") ? positions * factor : Math.max(1, Math.ceil(positions / factor));
}

function formOfShape(shape: readonly number[]): Form {
  return { positions: product(shape.slice(0, -1)), channels: shape.at(-1) ?? 1 };
}

function weightsOf({ weights }: LeafLayer): number {
  return weights.reduce((sum, { shape }) => sum + product(shape), 0);
}

/** Channels inside the layer: a recurrent one has several for each of its units. */
function widestOf({ weights }: LeafLayer): number {
  return Math.max(0, ...weights.map(({ shape }) => shape.at(-1) ?? 0));
}

function product(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}

function numberOf(value: unknown, otherwise: number): number {
  const number = typeof value === "bigint" || typeof value === "number" ? Number(value) : NaN;
  return Number.isFinite(number) && number > 0 ? number : otherwise;
}

/** A size that depends on the data counts as 1. */
function numbersOf(value: unknown): readonly number[] {
  return (Array.isArray(value) ? value : [value]).map((each) => numberOf(each, 1));
}
