/**
 * The order in which PyTorch has what a layer gives, where that differs from the architecture's: pictures have their
 * channels first there, so a flattened picture has its numbers in another order. Pure.
 */
import type { Architecture, LeafLayer } from "../model/model.js";
import type { Shape } from "../model/layer-shapes.js";

/**
 * same: as in the architecture; picture: channels first; flattened: a picture of these extents, channels last, in one
 * row; sequence: of steps, in the same order; unknown: not decided by the architecture, for this reason.
 */
export type FeatureOrder =
  | { readonly kind: "same" | "picture" | "sequence" }
  | { readonly kind: "flattened"; readonly extents: readonly number[] }
  | { readonly kind: "unknown"; readonly reason: string };

const same: FeatureOrder = { kind: "same" };
const picture: FeatureOrder = { kind: "picture" };
const sequence: FeatureOrder = { kind: "sequence" };
const unknown = (reason: string): FeatureOrder => ({ kind: "unknown", reason });

const pictureLayers = new Set(
  (
    "Conv1D Conv2D Conv2DTranspose DepthwiseConv2D SeparableConv2D MaxPooling1D MaxPooling2D AveragePooling1D " +
    "AveragePooling2D ZeroPadding2D Cropping2D UpSampling2D"
  ).split(" "),
);
const recurrentLayers = new Set(["SimpleRNN", "LSTM", "GRU"]);
const sameLayers = new Set(
  (
    "BatchNormalization LayerNormalization PReLU Activation ReLU LeakyReLU ELU ThresholdedReLU Softmax Dropout " +
    "SpatialDropout1D GaussianDropout GaussianNoise AlphaDropout Masking Rescaling"
  ).split(" "),
);
const mergeLayers = new Set(["Add", "Multiply", "Average", "Maximum", "Minimum"]);

/** @param shapes the shape of each layer's output; undefined: not known */
export function featureOrders(
  { layers }: Pick<Architecture, "layers">,
  shapes: readonly (Shape | undefined)[],
): readonly FeatureOrder[] {
  const orders: FeatureOrder[] = [];
  for (const [at, layer] of layers.entries()) {
    const inputs = layer.inputs.map(({ layer: input }) => ({
      order: orders[input] as FeatureOrder,
      shape: shapes[input],
    }));
    orders.push(orderOf(layer, inputs, shapes[at]));
  }
  return orders;
}

interface LayerInput {
  readonly order: FeatureOrder;
  readonly shape: Shape | undefined;
}

function orderOf(
  { className, config }: LeafLayer,
  inputs: readonly LayerInput[],
  shape: Shape | undefined,
): FeatureOrder {
  if (className === "InputLayer") return inputOrder(shape);
  const lost = inputs.find(({ order }) => order.kind === "unknown" && order.reason !== inputSequence);
  if (lost !== undefined) return lost.order;
  const [first] = inputs as readonly [LayerInput];
  if (pictureLayers.has(className)) return picture;
  if (className.startsWith("Global")) return config["keepdims"] === true ? picture : same;
  if (className === "Embedding") return sequence;
  if (recurrentLayers.has(className)) return config["return_sequences"] === true ? sequence : same;
  if (sameLayers.has(className)) return first.order;
  if (className === "Dense") return denseOrder(first);
  if (className === "Flatten") return flattened(first);
  if (mergeLayers.has(className) || className === "Concatenate") return merged(className, inputs);
  return unknown(`of the layer ${className}, the order in which PyTorch has its numbers is not known`);
}

/** The reason of a model's input of steps: only where it is flattened does it matter. */
export const inputSequence =
  "the model's input has two axes, and which of them are channels in PyTorch is not known";

function inputOrder(shape: Shape | undefined): FeatureOrder {
  if (shape === undefined || shape.length <= 1) return same;
  return shape.length === 2 ? unknown(inputSequence) : picture;
}

/** A dense layer acts on the last axis. */
function denseOrder({ order, shape }: LayerInput): FeatureOrder {
  if (order.kind === "flattened" || order.kind === "same") return same;
  return order.kind === "picture" && (shape?.length ?? 0) > 1
    ? unknown("a dense layer gets a picture, and in which order it gives one in PyTorch is not known")
    : sequence;
}

function flattened({ order, shape }: LayerInput): FeatureOrder {
  if (shape === undefined || shape.includes(null))
    return unknown("the extents of what is flattened are not known");
  const extents = shape as readonly number[];
  // A picture of one channel or of one point has one order only.
  if (order.kind === "flattened") return order;
  if (order.kind === "sequence" || order.kind === "same") return same;
  if (extents.filter((extent) => extent !== 1).length <= 1) return same;
  if (extents.at(-1) === 1) return same;
  if (order.kind === "picture") return { kind: "flattened", extents };
  return unknown("the model's input of two axes is flattened, and which of them are channels is not known");
}

function merged(className: string, inputs: readonly LayerInput[]): FeatureOrder {
  const texts = new Set(inputs.map(({ order }) => JSON.stringify(order)));
  const [first] = inputs as readonly [LayerInput];
  if (texts.size > 1) return unknown(`the inputs of a layer ${className} are in different orders in PyTorch`);
  return className === "Concatenate" && first.order.kind === "flattened"
    ? unknown("flattened pictures are concatenated")
    : first.order;
}
