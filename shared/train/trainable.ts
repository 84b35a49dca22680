/**
 * From a model at rest (architecture, tensors in canonical leaf order) to one that trains, and back.
 * Layers are built only from a checked architecture, under names made of their index, so no process-wide
 * counter of TensorFlow.js reaches anything. What draws random numbers in TensorFlow.js itself is replaced
 * by a draw from our streams, or refused.
 */
import { StemmaError } from "../errors.js";
import { weightSlots } from "../model/architecture.js";
import type { Architecture, LeafLayer } from "../model/model.js";
import type { Tensor } from "../tensor/tensor.js";
import type { Streams } from "../random/streams.js";
import type { TensorFlow, TfLayer, TfLayersModel, TfTensor, TfVariable } from "./tensorflow.js";

/** A weight of the model in training. */
export interface TrainableWeight {
  /** "layer/weight" in canonical order. */
  readonly path: string;
  readonly layer: number;
  readonly name: string;
  readonly className: string;
  readonly variable: TfVariable;
  /** Whether training may change it: not moving averages, not frozen layers. */
  readonly trainable: boolean;
}

export interface TrainableOptions {
  /** Where dropout draws from; without streams the model only predicts. */
  readonly streams?: Streams;
  readonly frozenLayers?: readonly number[];
  /** Joins batch norm with the activation behind it where the started backend offers that; the bits stay. */
  readonly fuseActivations?: (model: TfLayersModel) => number;
}

type Symbolic = ReturnType<TensorFlow["input"]>;
type Call = (inputs: TfTensor | TfTensor[], kwargs: Record<string, unknown>) => TfTensor | TfTensor[];

/** Layers whose training draws from generators of TensorFlow.js, which no seed of ours reaches. */
const randomLayers = new Set(["GaussianNoise", "GaussianDropout", "AlphaDropout", "SpatialDropout1D"]);
const camel = (text: string): string =>
  text.replace(/_+(\w)/g, (_match, letter: string) => letter.toUpperCase());

/**
 * Weights are written after building, so nothing is drawn for them: TensorFlow.js's defaults would use
 * Math.random, and its forget bias leaks four tensors.
 */
const noDraw: Readonly<Record<string, unknown>> = {
  unitForgetBias: false,
  ...Object.fromEntries(
    [
      "kernel",
      "recurrent",
      "bias",
      "depthwise",
      "pointwise",
      "embeddings",
      "alpha",
      "beta",
      "gamma",
      "movingMean",
      "movingVariance",
    ].map((name) => [`${name}Initializer`, "zeros"]),
  ),
};

/** Settings as TensorFlow.js's constructors want them. */
function constructorConfig(config: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const converted = Object.entries(config).map(([name, value]) => [
    camel(name),
    name === "layer" ? innerLayer(value) : constructorValue(value),
  ]);
  return { ...Object.fromEntries(converted), ...noDraw };
}

/** The layer inside a wrapper; its class's name stays as it is, for it is looked up. */
function innerLayer(value: unknown): unknown {
  const inner = value as { readonly class_name: string; readonly config: Readonly<Record<string, unknown>> };
  return { className: inner.class_name, config: constructorConfig(inner.config) };
}

function constructorValue(value: unknown): unknown {
  if (typeof value === "string") return camel(value);
  if (Array.isArray(value)) return value.map(constructorValue);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      camel(name),
      name === "class_name" ? member : constructorValue(member),
    ]),
  );
}

function constructLayer(tf: TensorFlow, layer: LeafLayer, index: number): TfLayer {
  const known = tf.serialization.SerializationMap.getMap().classNameMap[layer.className];
  if (known === undefined)
    throw new StemmaError(
      "LAYER_NOT_ALLOWED",
      `Layer ${index} (${layer.className}) is none that can be trained here. Import the model without its architecture to store it.`,
      { layer: index },
    );
  const [constructor, fromConfig] = known;
  const config: Record<string, unknown> = { ...constructorConfig(layer.config), name: `layer_${index}` };
  // It has two kernels of other names, and refuses to hear of a third.
  if (layer.className === "SeparableConv2D") delete config["kernelInitializer"];
  return fromConfig(constructor, config as never) as unknown as TfLayer;
}

/** A model in training. All methods are synchronous; `dispose` frees its tensors. */
export class Trainable {
  readonly architecture: Architecture;
  readonly weights: readonly TrainableWeight[];
  /** Those an optimiser changes. */
  readonly trainable: readonly TrainableWeight[];
  /** Those a step may change: trainable ones, and moving averages of layers that are not frozen. */
  readonly changing: readonly TrainableWeight[];
  readonly #tf: TensorFlow;
  readonly #model: TfLayersModel;

  constructor(
    tf: TensorFlow,
    architecture: Architecture,
    model: TfLayersModel,
    weights: readonly TrainableWeight[],
    frozen: ReadonlySet<number>,
  ) {
    this.#tf = tf;
    this.architecture = architecture;
    this.#model = model;
    this.weights = weights;
    this.trainable = weights.filter((weight) => weight.trainable);
    this.changing = weights.filter((weight) => !frozen.has(weight.layer));
  }

  /** Of one sample, for a model with one input; null where any size will do. */
  get inputShape(): readonly (number | null)[] {
    return this.#model.inputs[0]?.shape.slice(1) ?? [];
  }

  /** @param inputs [batch, …input shape] @returns [batch, …] of the model's only output */
  forward(inputs: TfTensor, training: boolean): TfTensor {
    return this.#model.apply(inputs, { training }) as TfTensor;
  }

  /** The sum of what layers charge for their weights (regularisers); undefined without any. */
  penalty(): TfTensor | undefined {
    const losses = this.#model.calculateLosses();
    return losses.length === 0
      ? undefined
      : losses.reduce<TfTensor>((sum, loss) => this.#tf.add(sum, loss), this.#tf.scalar(0));
  }

  /** All weights as tensors in canonical leaf order; fresh bytes. */
  readTensors(): Tensor[] {
    return this.weights.map(({ variable }) => {
      const values = variable.dataSync<"float32">();
      return {
        dtype: "F32",
        shape: [...variable.shape],
        bytes: new Uint8Array(values.buffer.slice(values.byteOffset, values.byteOffset + values.byteLength)),
      };
    });
  }

  /** Puts tensors read before back. */
  writeTensors(tensors: readonly Tensor[]): void {
    this.weights.forEach(({ variable }, index) => {
      this.#tf.tidy(() => {
        variable.assign(this.#tf.tensor(floatsOf(tensors[index] as Tensor), variable.shape));
      });
    });
  }

  dispose(): void {
    this.#model.dispose();
  }
}

/**
 * Bytes as float32 numbers, copied so that they are aligned. Only for training; stored bits are never handled
 * as floats.
 */
export function floatsOf(tensor: Tensor): Float32Array {
  return new Float32Array(tensor.bytes.slice().buffer);
}

/**
 * Builds a model from its architecture and its tensors in canonical leaf order.
 * @throws ARCHITECTURE_MISMATCH when the tensors are not its weights, LAYER_NOT_ALLOWED for a layer that
 * draws
 *   random numbers of its own, ARCHITECTURE_INVALID for several outputs
 */
export function buildTrainable(
  tf: TensorFlow,
  architecture: Architecture,
  tensors: readonly Tensor[],
  options: TrainableOptions = {},
): Trainable {
  checkTensors(architecture, tensors);
  const frozen = new Set(options.frozenLayers ?? []);
  const symbols: Symbolic[][] = [];
  const built: (TfLayer | undefined)[] = [];
  const inputs: Symbolic[] = [];
  architecture.layers.forEach((leaf, index) => {
    if (leaf.className === "InputLayer") {
      const input = tf.input({
        batchShape: leaf.config["batch_input_shape"] as number[],
        dtype: leaf.config["dtype"] as "float32",
        name: `layer_${index}`,
      });
      symbols[index] = [input];
      inputs.push(input);
      built[index] = undefined;
      return;
    }
    const shared = leaf.sharedWith === undefined ? undefined : built[leaf.sharedWith];
    const layer =
      shared ?? prepared(tf, constructLayer(tf, leaf, index), leaf, index, frozen, options.streams);
    const from = leaf.inputs.map(
      ({ layer: source, output }) => (symbols[source] as Symbolic[])[output] as Symbolic,
    );
    const outputs = layer.apply(from.length === 1 ? (from[0] as Symbolic) : from) as Symbolic | Symbolic[];
    symbols[index] = Array.isArray(outputs) ? outputs : [outputs];
    built[index] = layer;
  });
  const [output, ...others] = architecture.outputs;
  if (output === undefined || others.length > 0)
    throw new StemmaError(
      "ARCHITECTURE_INVALID",
      `The model has ${architecture.outputs.length} outputs; recipes train models with one. Store it as it is, or train a part of it.`,
    );
  const model = tf.model({
    inputs: inputs.length === 1 ? (inputs[0] as Symbolic) : inputs,
    outputs: (symbols[output.layer] as Symbolic[])[output.output] as Symbolic,
    name: "model",
  });
  // A frozen batch norm runs as in inference, where nothing is joined; its activation must stay itself.
  if (
    !architecture.layers.some(
      ({ className }, index) => className === "BatchNormalization" && frozen.has(index),
    )
  )
    options.fuseActivations?.(model);
  const weights = weightSlots(architecture).map(({ path, layer, weight, name, trainable }) => {
    const variable = variableOf(built[layer] as TfLayer, weight);
    return {
      path,
      layer,
      name,
      className: (architecture.layers[layer] as LeafLayer).className,
      variable,
      trainable: trainable && !frozen.has(layer),
    };
  });
  const trainable = new Trainable(tf, architecture, model, weights, frozen);
  trainable.writeTensors(tensors);
  return trainable;
}

function checkTensors(architecture: Architecture, tensors: readonly Tensor[]): void {
  const places = weightSlots(architecture);
  if (places.length !== tensors.length)
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `The architecture asks for ${places.length} tensors, the model has ${tensors.length}. Check that both come from one model.`,
    );
  places.forEach(({ path, dtype, shape, name }, index) => {
    const tensor = tensors[index] as Tensor;
    if (tensor.dtype !== dtype || tensor.shape.join() !== shape.join())
      throw new StemmaError(
        "ARCHITECTURE_MISMATCH",
        `The weight ${path} (${name}) is ${tensor.dtype} [${tensor.shape.join(", ")}] where the architecture asks for ${dtype} [${shape.join(", ")}]. Check that both come from one model.`,
        { path },
      );
    if (dtype !== "F32")
      throw new StemmaError(
        "ARCHITECTURE_MISMATCH",
        `The weight ${path} (${name}) is ${dtype}; only F32 models are trained. It can be stored and recovered all the same.`,
        { path },
      );
  });
}

/** LayerVariable keeps the engine's variable under `val`. */
function variableOf(layer: TfLayer, weight: number): TfVariable {
  return (layer.weights[weight] as unknown as { readonly val: TfVariable }).val;
}

/** Replaces what would draw random numbers, and holds frozen batch norm still. */
function prepared(
  tf: TensorFlow,
  layer: TfLayer,
  leaf: LeafLayer,
  index: number,
  frozen: ReadonlySet<number>,
  streams: Streams | undefined,
): TfLayer {
  const overridden = layer as unknown as { call: Call };
  if (leaf.className === "Dropout") {
    const rate = leaf.config["rate"] as number;
    overridden.call = (inputs, kwargs) =>
      dropped(
        tf,
        Array.isArray(inputs) ? (inputs[0] as TfTensor) : inputs,
        kwargs["training"] === true ? rate : 0,
        index,
        streams,
      );
  }
  if (frozen.has(index)) {
    // A frozen layer gives what it gives in inference; tfjs would go on updating the averages of its batch
    // norm.
    const call = overridden.call.bind(layer);
    overridden.call = (inputs, kwargs) => call(inputs, { ...kwargs, training: false });
    return layer;
  }
  const inner =
    (leaf.config["layer"] as { readonly config?: Record<string, unknown> } | undefined)?.config ?? {};
  const chance = [leaf.config, inner].some(
    (config) => Number(config["dropout"] ?? 0) > 0 || Number(config["recurrent_dropout"] ?? 0) > 0,
  );
  if (streams !== undefined && (randomLayers.has(leaf.className) || chance))
    throw new StemmaError(
      "LAYER_NOT_ALLOWED",
      `Layer ${index} (${leaf.className}) draws random numbers that no seed reaches. Freeze it, set its dropout to 0 or use Dropout layers.`,
      { layer: index },
    );
  return layer;
}

function dropped(
  tf: TensorFlow,
  input: TfTensor,
  rate: number,
  index: number,
  streams: Streams | undefined,
): TfTensor {
  if (rate === 0 || streams === undefined) return tf.clone(input);
  const stream = streams.stream(`dropout/${index}`);
  const kept = Math.fround(1 / (1 - rate));
  const mask = Float32Array.from({ length: input.size }, () => (stream.uniform() >= rate ? kept : 0));
  return tf.mul(input, tf.tensor(mask, input.shape));
}
