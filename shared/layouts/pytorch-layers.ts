/** The modules by which PyTorch computes what an architecture's layers do: their tensors, shapes and axes. Pure. */
import type { Architecture, LeafLayer } from "../model/model.js";
import { errorOf } from "../errors.js";
import { layerShapes, product } from "../model/layer-shapes.js";
import type { AxisOrder } from "./axis-order.js";
import type { Addend, WeightPart } from "./layout.js";
import { featureOrders, inputSequence, type FeatureOrder } from "./feature-order.js";

/** A tensor of a module. */
export interface ModuleTensor {
  /** The tensor's name in its module, such as "weight". */
  readonly name: string;
  readonly shape: readonly number[];
  /** The weight that it is, or is a part of, by its index in the layer. */
  readonly weight: number;
  readonly order?: AxisOrder | undefined;
  readonly part?: WeightPart | undefined;
  /** The part of the weight that it is, where two tensors are added. */
  readonly addend?: Addend["addend"] | undefined;
}

/** A layer's weights as a module of PyTorch has them. */
export interface ExpectedModule {
  readonly layer: number;
  readonly tensors: readonly ModuleTensor[];
}

const mismatch = errorOf("ARCHITECTURE_MISMATCH");

/**
 * The modules of all layers that have weights, in canonical order.
 * @param titles what messages call the layers
 * @throws ARCHITECTURE_MISMATCH for a layer whose weights PyTorch has otherwise, by its name
 */
export function pytorchModules(
  architecture: Architecture,
  titles: readonly string[],
): readonly ExpectedModule[] {
  const shapes = layerShapes(architecture);
  const orders = featureOrders(architecture, shapes);
  const orderInto = ({ inputs }: LeafLayer): FeatureOrder => orders[inputs[0]?.layer ?? 0] as FeatureOrder;
  return architecture.layers.flatMap((layer, at): ExpectedModule[] => {
    const { sharedWith = at } = layer;
    const owner = architecture.layers[sharedWith] as LeafLayer;
    if (owner.weights.length === 0) return [];
    const fail = (reason: string): never => {
      throw mismatch(
        `The layer ${titles[at] ?? at} (${layer.className}) cannot be matched with a module of PyTorch: ${reason}. ` +
          "Write the layout by hand (--layout FILE), or import the model without --arch.",
        { layer: at },
      );
    };
    const tensors = (rules[owner.className] ?? otherwise)(owner, orderInto(layer), fail);
    if (sharedWith === at) return [{ layer: at, tensors }];
    const ofOwner = orderInto(owner);
    return JSON.stringify(ofOwner) === JSON.stringify(orderInto(layer))
      ? []
      : fail("it is called twice, with numbers that are in different orders in PyTorch");
  });
}

type Fail = (reason: string) => never;
type Rule = (layer: LeafLayer, input: FeatureOrder, fail: Fail) => readonly ModuleTensor[];

const otherwise: Rule = (_, __, fail) => fail("PyTorch has no module with weights like these");

/** A tensor that is a weight with its axes in another order. @param axes of the tensor, in the weight's order */
function moved(
  name: string,
  weight: number,
  shape: readonly number[],
  axes: readonly number[],
): ModuleTensor {
  return { name, weight, shape, order: { as: shape, axes } };
}

function biasOf({ weights }: LeafLayer): readonly ModuleTensor[] {
  const bias = weights[1];
  return bias === undefined ? [] : [{ name: "bias", weight: 1, shape: bias.shape }];
}

function requireKnown(input: FeatureOrder, fail: Fail): void {
  if (input.kind === "unknown" && input.reason !== inputSequence) fail(input.reason);
}

/** A kernel whose last two axes are those of its inputs and outputs, of a transposed one the other way round. */
const convolution: Rule = (layer, input, fail) => {
  requireKnown(input, fail);
  const kernel = layer.weights[0]?.shape ?? [];
  const axes = kernel.length;
  const shape = [kernel[axes - 1], kernel[axes - 2], ...kernel.slice(0, -2)] as number[];
  const spatial = Array.from({ length: axes - 2 }, (_, axis) => axis + 2);
  return [moved("weight", 0, shape, [...spatial, 1, 0]), ...biasOf(layer)];
};

const depthwise: Rule = (layer, input, fail) => {
  requireKnown(input, fail);
  const [height = 0, width = 0, channels = 0, multiplier = 0] = layer.weights[0]?.shape ?? [];
  const as = [channels, multiplier, height, width];
  return [
    {
      name: "weight",
      weight: 0,
      shape: [channels * multiplier, 1, height, width],
      order: { as, axes: [2, 3, 0, 1] },
    },
    ...biasOf(layer),
  ];
};

const dense: Rule = (layer, input, fail) => {
  // The last axis of a sequence that comes from the model's input has the features in both layouts.
  requireKnown(input, fail);
  const [inputs = 0, outputs = 0] = layer.weights[0]?.shape ?? [];
  const shape = [outputs, inputs];
  if (input.kind !== "flattened") return [moved("weight", 0, shape, [1, 0]), ...biasOf(layer)];
  const { as, axes } = channelsFirst(input.extents);
  return [
    {
      name: "weight",
      weight: 0,
      shape,
      order: { as: [outputs, ...as], axes: [...axes.map((axis) => axis + 1), 0] },
    },
    ...biasOf(layer),
  ];
};

/** The order that makes of flattened channels first those last. @param extents of the picture, channels last */
function channelsFirst(extents: readonly number[]): AxisOrder {
  const spatial = extents.slice(0, -1);
  return { as: [extents.at(-1) as number, ...spatial], axes: [...spatial.map((_, axis) => axis + 1), 0] };
}

const namesOfNormalization: Readonly<Record<string, string>> = {
  gamma: "weight",
  beta: "bias",
  moving_mean: "running_mean",
  moving_variance: "running_var",
};

const normalization: Rule = (layer, input, fail) => {
  requireKnown(input, fail);
  const order = input.kind === "flattened" ? channelsFirst(input.extents) : undefined;
  return layer.weights.map(({ name, shape }, weight) => ({
    name: namesOfNormalization[name] ?? name,
    weight,
    shape,
    order,
  }));
};

const prelu: Rule = (layer, input, fail) => {
  const shape = layer.weights[0]?.shape ?? [];
  if (input.kind === "flattened" || product(shape) !== shape.at(-1))
    return fail("its slopes differ along more axes than that of the channels");
  return [{ name: "weight", weight: 0, shape: [shape.at(-1) as number] }];
};

/** Refuses what no recurrent module of PyTorch has. */
function requireRecurrence({ className, config }: LeafLayer, fail: Fail): void {
  const { go_backwards: goesBackwards, activation = "tanh", recurrent_activation: ofGates } = config;
  if (goesBackwards === true) fail("it goes backwards");
  if (className === "SimpleRNN") {
    if (activation !== "tanh" && activation !== "relu")
      fail("its activation is not one of PyTorch: tanh or relu");
    return;
  }
  // The engine's gates are hard sigmoids where nothing is stated.
  if (ofGates !== "sigmoid" || activation !== "tanh")
    fail('its activations are not those of PyTorch: tanh, and "recurrent_activation": "sigmoid"');
}

/** One layer of a `torch.nn.LSTM` or `RNN`; the gates have the same order in both. PyTorch adds two biases. */
const recurrent: Rule = (layer, input, fail) => {
  requireKnown(input, fail);
  requireRecurrence(layer, fail);
  const [kernel, recurrentKernel, bias] = layer.weights;
  const [inputs = 0, columns = 0] = kernel?.shape ?? [];
  const units = recurrentKernel?.shape[0] ?? 0;
  return [
    moved("weight_ih", 0, [columns, inputs], [1, 0]),
    moved("weight_hh", 1, [columns, units], [1, 0]),
    ...(bias === undefined
      ? []
      : [
          { name: "bias_ih", weight: 2, shape: [columns], addend: "difference" as const },
          { name: "bias_hh", weight: 2, shape: [columns], addend: "kept" as const },
        ]),
  ];
};

/** The gates of a GRU: r, z, n in PyTorch, z, r, h in an architecture. */
const gatesOfGru = [1, 0, 2];

/** One layer of a `torch.nn.GRU`, which has a bias for each product, as the architecture has with `reset_after`. */
const gru: Rule = (layer, input, fail) => {
  requireKnown(input, fail);
  if (layer.config["reset_after"] !== true)
    return fail(
      "PyTorch's GRU applies the reset gate after the product, as this layer does with reset_after: true",
    );
  requireRecurrence(layer, fail);
  const [kernel, recurrentKernel, bias] = layer.weights;
  const units = recurrentKernel?.shape[0] ?? 0;
  const ofGates = (name: string, weight: number, inputs: number): ModuleTensor => ({
    ...{ name, weight, shape: [3 * units, inputs] },
    order: { as: [3, units, inputs], axes: [2, 0, 1], blocks: gatesOfGru },
  });
  const ofBiases = (name: string, at: number): ModuleTensor => ({
    ...{ name, weight: 2, shape: [3 * units], part: { at, of: 2 } },
    order: { as: [3, units], axes: [0, 1], blocks: gatesOfGru },
  });
  return [
    ofGates("weight_ih", 0, kernel?.shape[0] ?? 0),
    ofGates("weight_hh", 1, units),
    ...(bias === undefined ? [] : [ofBiases("bias_ih", 0), ofBiases("bias_hh", 1)]),
  ];
};

const rules: Readonly<Record<string, Rule>> = {
  Dense: dense,
  Conv1D: convolution,
  Conv2D: convolution,
  Conv2DTranspose: convolution,
  DepthwiseConv2D: depthwise,
  BatchNormalization: normalization,
  LayerNormalization: normalization,
  Embedding: ({ weights }) => [{ name: "weight", weight: 0, shape: weights[0]?.shape ?? [] }],
  PReLU: prelu,
  SimpleRNN: recurrent,
  LSTM: recurrent,
  GRU: gru,
  Bidirectional: (_, __, fail) => fail("both directions of a module of PyTorch are not read"),
};
