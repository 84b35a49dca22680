/**
 * Builds TensorFlow.js layers from a checked architecture. Layers are named after their index, so no
 * process-wide counter of TensorFlow.js has an effect. Random numbers that TensorFlow.js would draw itself
 * are replaced by draws from our streams, or the layer is rejected.
 */
import { StemmaError } from "../errors.js";
import type { LeafLayer } from "../model/model.js";
import { tfjsRegularizer } from "../model/tfjs-regularizer.js";
import type { Streams } from "../random/streams.js";
import { registeredClass } from "./reset-after-gru.js";
import type { TensorFlow, TfLayer, TfTensor } from "./tensorflow.js";

type LayerCall = (inputs: TfTensor | TfTensor[], kwargs: Record<string, unknown>) => TfTensor | TfTensor[];

/** Layers that draw from TensorFlow.js's generators in training, which our seed does not reach. */
const randomLayers = new Set(["GaussianNoise", "GaussianDropout", "AlphaDropout", "SpatialDropout1D"]);

const camelCase = (text: string): string =>
  text.replace(/_+(\w)/g, (_match, letter: string) => letter.toUpperCase());

/**
 * Initialisers that draw nothing: weights are written after the layers are built. TensorFlow.js's defaults
 * would use Math.random, and its forget bias leaks four tensors.
 */
const constantInitializers: Readonly<Record<string, unknown>> = {
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

export interface ConstructionOptions {
  /** Dropout draws from these; without streams the model can only predict. */
  readonly streams?: Streams | undefined;
  /** Indices of leaf layers that do not change in training. */
  readonly frozenLayers?: readonly number[] | undefined;
}

/**
 * Builds one layer.
 * @param index of the layer in its architecture
 * @throws LAYER_NOT_ALLOWED for a class that TensorFlow.js does not have, or a layer that draws random
 * numbers of its own in training
 */
export function constructLayer(
  tf: TensorFlow,
  leaf: LeafLayer,
  index: number,
  { streams, frozenLayers = [] }: ConstructionOptions,
): TfLayer {
  const layer = instantiate(tf, leaf, index);
  const overridden = layer as unknown as { call: LayerCall };
  if (leaf.className === "Dropout") overridden.call = dropoutCall(tf, leaf, index, streams);
  if (frozenLayers.includes(index)) {
    // A frozen layer computes what it computes in inference; tfjs would still update the averages of a batch
    // norm.
    const call = overridden.call.bind(layer);
    overridden.call = (inputs, kwargs) => call(inputs, { ...kwargs, training: false });
  } else if (streams !== undefined && drawsRandomNumbers(leaf))
    throw new StemmaError(
      "LAYER_NOT_ALLOWED",
      `Layer ${index} (${leaf.className}) draws random numbers that do not come from the training's seed. Freeze it, set its dropout to 0 or use Dropout layers.`,
      { layer: index },
    );
  return layer;
}

function instantiate(tf: TensorFlow, leaf: LeafLayer, index: number): TfLayer {
  const className = registeredClass(tf, leaf.className, leaf.config);
  const registered = tf.serialization.SerializationMap.getMap().classNameMap[className];
  if (registered === undefined)
    throw new StemmaError(
      "LAYER_NOT_ALLOWED",
      `Layer ${index} (${leaf.className}) cannot be trained here. Import the model without its architecture to store it.`,
      { layer: index },
    );
  const [constructor, fromConfig] = registered;
  const config: Record<string, unknown> = { ...constructorConfig(tf, leaf.config), name: `layer_${index}` };
  // SeparableConv2D has two kernels of other names and rejects an initialiser for a third.
  if (leaf.className === "SeparableConv2D") delete config["kernelInitializer"];
  return fromConfig(constructor, config as never) as unknown as TfLayer;
}

/** A layer's settings in the form that TensorFlow.js's constructors take. */
function constructorConfig(
  tf: TensorFlow,
  config: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const converted = Object.entries(config).map(([name, value]) => [
    camelCase(name),
    name === "layer"
      ? innerLayer(tf, value)
      : constructorValue(name.endsWith("_regularizer") ? tfjsRegularizer(value) : value),
  ]);
  return { ...(Object.fromEntries(converted) as Record<string, unknown>), ...constantInitializers };
}

/** The layer inside a wrapper. The name of its class is not converted, because TensorFlow.js looks it up. */
function innerLayer(tf: TensorFlow, value: unknown): unknown {
  const inner = value as { readonly class_name: string; readonly config: Readonly<Record<string, unknown>> };
  const className = registeredClass(tf, inner.class_name, inner.config);
  return { className, config: constructorConfig(tf, inner.config) };
}

function constructorValue(value: unknown): unknown {
  if (typeof value === "string") return camelCase(value);
  if (Array.isArray(value)) return value.map(constructorValue);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      camelCase(name),
      name === "class_name" ? member : constructorValue(member),
    ]),
  );
}

/** True if a layer draws random numbers in training that our seed does not reach. */
export function drawsRandomNumbers({ className, config }: LeafLayer): boolean {
  const inner = (config["layer"] as { readonly config?: Record<string, unknown> } | undefined)?.config ?? {};
  return (
    randomLayers.has(className) ||
    [config, inner].some(
      (each) => Number(each["dropout"] ?? 0) > 0 || Number(each["recurrent_dropout"] ?? 0) > 0,
    )
  );
}

/** The `call` of a Dropout layer: in training it draws its mask from the stream "dropout/<index>". */
function dropoutCall(
  tf: TensorFlow,
  leaf: LeafLayer,
  index: number,
  streams: Streams | undefined,
): LayerCall {
  const rate = leaf.config["rate"] as number;
  return (inputs, kwargs) => {
    const input = Array.isArray(inputs) ? (inputs[0] as TfTensor) : inputs;
    if (kwargs["training"] !== true || rate === 0 || streams === undefined) return tf.clone(input);
    const stream = streams.stream(`dropout/${index}`);
    const scale = Math.fround(1 / (1 - rate));
    const mask = Float32Array.from({ length: input.size }, () => (stream.uniform() >= rate ? scale : 0));
    return tf.mul(input, tf.tensor(mask, input.shape));
  };
}
