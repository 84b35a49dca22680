/**
 * From a canonical architecture and what is known of its weights to a network over bounds. Settings mean what
 * they mean to TensorFlow.js's layers; a layer without bounds here is refused by name. Knows no store.
 */
import { StemmaError } from "../../shared/errors.js";
import { weightSlots } from "../../shared/model/architecture.js";
import type { Architecture, LeafLayer } from "../../shared/model/model.js";
import {
  ActivationLayer,
  activations,
  clippedRelu,
  leakyRelu,
  SoftmaxLayer,
  type Activation,
} from "./activation-layers.js";
import type { BoundLayer } from "./bound-layer.js";
import { sizeOf } from "./bounds.js";
import { pointWindows, windowsOf, type Windows } from "./geometry.js";
import type { IntervalNetwork, Step } from "./interval-network.js";
import { AddingLayer, MixingLayer, RoutingLayer, routeBy, routeJoined } from "./joining-layers.js";
import {
  axisOf,
  convolutionForm,
  marginsOf,
  numberOf,
  pairOf,
  poolingForm,
  unsupported,
} from "./layer-settings.js";
import { DepthwiseLayer, SummingLayer } from "./linear-layers.js";
import { NormalizationLayer } from "./normalization-layer.js";
import { AveragePoolingLayer, MaxPoolingLayer } from "./pooling-layers.js";
import { weightBounds, type WeightBounds } from "./weight-bounds.js";

type Shape = readonly number[];
/** A layer to be made: its shapes, its weights in order. */
interface Place {
  readonly leaf: LeafLayer;
  readonly inputs: readonly Shape[];
  readonly shape: Shape;
  readonly weights: readonly WeightBounds[];
}
/** The bound layers that do a layer's work, one after the other. */
type Make = (place: Place) => readonly BoundLayer[];

const named = (list: Readonly<Record<string, Activation>>, name: string): Activation | undefined =>
  Object.hasOwn(list, name) ? list[name] : undefined;

/** The layers of an activation; none for "linear". */
function activate(shape: Shape, name: unknown): readonly BoundLayer[] {
  if (name === undefined || name === null || name === "linear") return [];
  if (typeof name !== "string") throw unsupported("an activation that is not a name");
  const key = name.replace(/_+(\w)/g, (_match, letter: string) => letter.toUpperCase());
  if (key === "softmax") return [new SoftmaxLayer(shape)];
  const activation = named(activations, key);
  if (activation === undefined) throw unsupported(`the activation ${key}`);
  return [new ActivationLayer(shape, activation)];
}

/** One or two axes of a picture; a sequence is a picture of one column. */
function gridOf(
  shape: Shape,
  axes: number,
): { readonly height: number; readonly width: number; readonly channels: number } {
  return { height: shape[0]!, width: axes === 1 ? 1 : shape[1]!, channels: shape[axes]! };
}
const gridShape = (windows: Windows, channels: number, axes: number): Shape =>
  axes === 1 ? [windows.outHeight, channels] : [windows.outHeight, windows.outWidth, channels];

const dense: Make = ({ leaf, shape, weights: [kernel, bias] }) => {
  const [inputs, units] = kernel!.shape as readonly [number, number];
  const out = [...shape.slice(0, -1), units];
  return [
    new SummingLayer(out, pointWindows(sizeOf(shape.slice(0, -1))), inputs, units, kernel!, bias),
    ...activate(out, leaf.config["activation"]),
  ];
};

const convolution =
  (axes: number): Make =>
  ({ leaf, shape, weights: [kernel, bias] }) => {
    const { height, width, channels } = gridOf(shape, axes);
    const windows = windowsOf(height, width, convolutionForm(leaf, axes));
    const filters = kernel!.shape.at(-1)!;
    const out = gridShape(windows, filters, axes);
    return [
      new SummingLayer(out, windows, channels, filters, kernel!, bias),
      ...activate(out, leaf.config["activation"]),
    ];
  };

const depthwise: Make = ({ leaf, shape, weights: [kernel, bias] }) => {
  // The real forward pass does not do what the setting says.
  if (convolutionForm(leaf, 2).dilation.some((rate) => rate > 1))
    throw unsupported("DepthwiseConv2D with a dilation, which TensorFlow.js leaves out");
  const { height, width, channels } = gridOf(shape, 2);
  const windows = windowsOf(height, width, convolutionForm(leaf, 2));
  const multiplier = kernel!.shape[3]!;
  const out = gridShape(windows, channels * multiplier, 2);
  return [
    new DepthwiseLayer(out, windows, channels, multiplier, kernel!, bias),
    ...activate(out, leaf.config["activation"]),
  ];
};

const separable: Make = ({ leaf, shape, weights: [kernel, point, bias] }) => {
  const { height, width, channels } = gridOf(shape, 2);
  const windows = windowsOf(height, width, convolutionForm(leaf, 2));
  const multiplier = kernel!.shape[3]!;
  const filters = point!.shape.at(-1)!;
  const between = gridShape(windows, channels * multiplier, 2);
  const out = gridShape(windows, filters, 2);
  return [
    new DepthwiseLayer(between, windows, channels, multiplier, kernel!, undefined),
    new SummingLayer(
      out,
      pointWindows(windows.outHeight * windows.outWidth),
      channels * multiplier,
      filters,
      point!,
      bias,
    ),
    ...activate(out, leaf.config["activation"]),
  ];
};

type Pooling = new (shape: Shape, windows: Windows, channels: number) => BoundLayer;
const pooling =
  (kind: Pooling, axes: number): Make =>
  ({ leaf, shape }) => {
    const { height, width, channels } = gridOf(shape, axes);
    const windows = windowsOf(height, width, poolingForm(leaf, axes));
    return [new kind(gridShape(windows, channels, axes), windows, channels)];
  };
const globalPooling =
  (kind: Pooling, axes: number): Make =>
  ({ leaf, shape }) => {
    if ((leaf.config["data_format"] ?? "channels_last") !== "channels_last")
      throw unsupported(`${leaf.className} with channels first`);
    const { height, width, channels } = gridOf(shape, axes);
    return [
      new kind(
        [channels],
        windowsOf(height, width, {
          size: [height, width],
          strides: [1, 1],
          dilation: [1, 1],
          padding: "valid",
        }),
        channels,
      ),
    ];
  };

const normalization: Make = ({ leaf, shape, weights }) => {
  if (axisOf(leaf.config, -1, shape.length) !== shape.length - 1)
    throw unsupported("batch normalisation over another axis than the last");
  const rest = [...weights];
  const gamma = leaf.config["scale"] === false ? undefined : rest.shift();
  const beta = leaf.config["center"] === false ? undefined : rest.shift();
  return [
    new NormalizationLayer(shape, shape.at(-1)!, Math.fround(numberOf(leaf.config, "epsilon", 1e-3)), {
      gamma,
      beta,
      mean: rest[0]!,
      variance: rest[1]!,
    }),
  ];
};

const same: Make = ({ shape }) => [new RoutingLayer(shape)];
const adding =
  (mean: boolean): Make =>
  ({ shape, inputs }) => [new AddingLayer(sameShapes(inputs, shape), mean ? 1 / inputs.length : 1)];
const mixing =
  (kind: "multiply" | "maximum" | "minimum"): Make =>
  ({ shape, inputs }) => [new MixingLayer(sameShapes(inputs, shape), kind)];

function sameShapes(inputs: readonly Shape[], shape: Shape): Shape {
  if (inputs.some((each) => each.join() !== shape.join()))
    throw unsupported("inputs of different shapes that are added or multiplied");
  return shape;
}

const concatenate: Make = ({ leaf, inputs }) => {
  const axis = axisOf(leaf.config, -1, inputs[0]!.length);
  const { shape, sources } = routeJoined(inputs, axis);
  if (axis < 0) throw unsupported("Concatenate over the batch");
  return [new RoutingLayer(shape, sources)];
};

const reshape: Make = ({ leaf, shape }) => {
  const target = (leaf.config["target_shape"] as readonly (number | null)[]).map((extent) =>
    extent === null || extent < 0 ? -1 : extent,
  );
  const known = target.filter((extent) => extent >= 0).reduce((product, extent) => product * extent, 1);
  const out = target.map((extent) => (extent < 0 ? sizeOf(shape) / known : extent));
  if (sizeOf(out) !== sizeOf(shape))
    throw new StemmaError(
      "ARCHITECTURE_INVALID",
      `A layer reshapes [${shape.join(", ")}] to [${target.join(", ")}], which has another size. Check the model's architecture.`,
    );
  return [new RoutingLayer(out)];
};

const permute: Make = ({ leaf, shape }) => {
  const dims = (leaf.config["dims"] as readonly number[]).map((dim) => dim - 1);
  const out = dims.map((dim) => shape[dim]!);
  return [
    new RoutingLayer(
      out,
      routeBy(out, shape, (place) => {
        const source: number[] = [];
        dims.forEach((dim, axis) => {
          source[dim] = place[axis]!;
        });
        return source;
      }),
    ),
  ];
};

/** Padding where `sign` is 1, cropping where it is −1. */
const margins =
  (key: string, sign: 1 | -1): Make =>
  ({ leaf, shape }) => {
    const [[top, bottom], [left, right]] = marginsOf(leaf, key);
    const [height, width, channels] = shape as readonly [number, number, number];
    const out = [height + sign * (top + bottom), width + sign * (left + right), channels];
    return [
      new RoutingLayer(
        out,
        routeBy(out, shape, ([y, x, c]) => {
          const row = y! - sign * top;
          const column = x! - sign * left;
          return row >= 0 && row < height && column >= 0 && column < width ? [row, column, c!] : undefined;
        }),
      ),
    ];
  };

const upSampling: Make = ({ leaf, shape }) => {
  if (
    (leaf.config["interpolation"] ?? "nearest") !== "nearest" ||
    (leaf.config["data_format"] ?? "channels_last") !== "channels_last"
  )
    throw unsupported("UpSampling2D other than nearest with channels last");
  const [down, across] = pairOf(leaf.config, "size", [2, 2], 2);
  const out = [shape[0]! * down, shape[1]! * across, shape[2]!];
  return [
    new RoutingLayer(
      out,
      routeBy(out, shape, ([y, x, c]) => [Math.floor(y! / down), Math.floor(x! / across), c!]),
    ),
  ];
};

const relu: Make = ({ leaf: { config }, shape }) => {
  // TensorFlow.js's layer looks at its top alone.
  if (numberOf(config, "negative_slope", 0) !== 0 || numberOf(config, "threshold", 0) !== 0)
    throw unsupported("ReLU with a threshold or a slope below it");
  const top = numberOf(config, "max_value", Infinity);
  if (top < 0) throw unsupported("ReLU with a negative top");
  return [new ActivationLayer(shape, clippedRelu(Math.fround(top)))];
};
const leaky: Make = ({ leaf, shape }) => {
  const slope = numberOf(leaf.config, "alpha", 0.3);
  if (slope < 0 || slope > 1) throw unsupported(`LeakyReLU with the slope ${slope}`);
  return [new ActivationLayer(shape, leakyRelu(slope))];
};
const elu: Make = ({ leaf, shape }) => {
  if (numberOf(leaf.config, "alpha", 1) !== 1) throw unsupported("ELU with another alpha than 1");
  return [new ActivationLayer(shape, activations.elu)];
};
const softmax: Make = ({ leaf, shape }) => {
  if (axisOf(leaf.config, -1, shape.length) !== shape.length - 1)
    throw unsupported("Softmax over another axis than the last");
  return [new SoftmaxLayer(shape)];
};

const makers: Readonly<Record<string, Make>> = {
  Dense: dense,
  Conv1D: convolution(1),
  Conv2D: convolution(2),
  DepthwiseConv2D: depthwise,
  SeparableConv2D: separable,
  MaxPooling1D: pooling(MaxPoolingLayer, 1),
  MaxPooling2D: pooling(MaxPoolingLayer, 2),
  AveragePooling1D: pooling(AveragePoolingLayer, 1),
  AveragePooling2D: pooling(AveragePoolingLayer, 2),
  GlobalMaxPooling1D: globalPooling(MaxPoolingLayer, 1),
  GlobalMaxPooling2D: globalPooling(MaxPoolingLayer, 2),
  GlobalAveragePooling1D: globalPooling(AveragePoolingLayer, 1),
  GlobalAveragePooling2D: globalPooling(AveragePoolingLayer, 2),
  BatchNormalization: normalization,
  Activation: ({ leaf, shape }) => activate(shape, leaf.config["activation"]),
  ReLU: relu,
  LeakyReLU: leaky,
  ELU: elu,
  Softmax: softmax,
  Dropout: same,
  SpatialDropout1D: same,
  GaussianDropout: same,
  GaussianNoise: same,
  AlphaDropout: same,
  Flatten: ({ leaf, shape }) => {
    if ((leaf.config["data_format"] ?? "channels_last") !== "channels_last")
      throw unsupported("Flatten with channels first");
    return [new RoutingLayer([sizeOf(shape)])];
  },
  Reshape: reshape,
  Permute: permute,
  ZeroPadding2D: margins("padding", 1),
  Cropping2D: margins("cropping", -1),
  UpSampling2D: upSampling,
  RepeatVector: ({ leaf, shape }) => {
    const n = numberOf(leaf.config, "n", 1);
    const out = [n, ...shape];
    return [
      new RoutingLayer(
        out,
        routeBy(out, shape, ([, ...place]) => place),
      ),
    ];
  },
  Add: adding(false),
  Average: adding(true),
  Multiply: mixing("multiply"),
  Maximum: mixing("maximum"),
  Minimum: mixing("minimum"),
  Concatenate: concatenate,
};

/** Layer classes that have bounds. @internal Listed for tests. */
export const boundedLayers: readonly string[] = ["InputLayer", ...Object.keys(makers)].sort();

/** What is known of a leaf's tensor: its bytes and how many planes of them, in canonical leaf order. */
export interface KnownWeights {
  readonly bytes: Uint8Array;
  readonly planes: number;
}

/**
 * @param known one an architecture's weight, in canonical leaf order, or bounds made already
 * @throws PROGRESSIVE_UNSUPPORTED naming the layer or setting, ARCHITECTURE_MISMATCH, TENSOR_SIZE_MISMATCH
 */
export function compileNetwork(
  architecture: Architecture,
  known: readonly (KnownWeights | WeightBounds)[],
): IntervalNetwork {
  const places = weightSlots(architecture);
  if (places.length !== known.length)
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `The architecture asks for ${places.length} tensors, ${known.length} are given. Check that both come from one model.`,
    );
  const float = places.find(({ dtype }) => dtype !== "F32");
  if (float !== undefined) throw unsupported(`weights of type ${float.dtype} (${float.path})`);
  const bounds = places.map(({ shape }, at) => {
    const each = known[at]!;
    return "mid" in each ? each : weightBounds(shape, each.bytes, each.planes);
  });
  const steps: Step[] = [];
  const shapes: Shape[] = [];
  /** Last step of each layer of the architecture. */
  const last: number[] = [];
  architecture.layers.forEach((leaf, index) => {
    if (leaf.className === "InputLayer") {
      last[index] = steps.push({ layer: undefined, inputs: [] }) - 1;
      shapes.push(inputShapeOf(leaf));
      return;
    }
    const make = Object.hasOwn(makers, leaf.className) ? makers[leaf.className] : undefined;
    if (make === undefined) throw unsupported(`layer ${index} (${leaf.className})`);
    if (leaf.inputs.some(({ output }) => output > 0))
      throw unsupported(`layer ${index}, which takes a further output`);
    const from = leaf.inputs.map(({ layer }) => last[layer]!);
    const owner = leaf.sharedWith ?? index;
    const weights = bounds.filter((_, at) => places[at]!.layer === owner);
    const inputs = from.map((step) => shapes[step]!);
    let before = from;
    for (const layer of make({ leaf, inputs, shape: inputs[0]!, weights })) {
      before = [steps.push({ layer, inputs: before }) - 1];
      shapes.push(layer.shape);
    }
    last[index] = before[0]!;
  });
  const end = endOf(architecture, steps, last);
  if (shapes[end.output]!.length !== 1)
    throw unsupported(`outputs of shape [${shapes[end.output]!.join(", ")}]`);
  return { ...end, inputShape: shapes[steps.findIndex(({ layer }) => layer === undefined)]!, steps };
}

function inputShapeOf({ config }: LeafLayer): Shape {
  const shape = (config["batch_input_shape"] as readonly (number | null)[]).slice(1);
  if (!shape.every((extent) => extent !== null))
    throw unsupported(`inputs of any size ([${shape.map((extent) => extent ?? "any").join(", ")}])`);
  return shape;
}

/** Where the model ends, and by what its outputs are ranked. */
function endOf(
  { layers, outputs }: Architecture,
  steps: readonly Step[],
  last: readonly number[],
): Pick<IntervalNetwork, "output" | "ranking" | "isSoftmaxed"> {
  if (outputs.length !== 1 || outputs[0]!.output !== 0) throw unsupported("a model of several outputs");
  if (layers.filter(({ className }) => className === "InputLayer").length !== 1)
    throw unsupported("a model of several inputs");
  const output = last[outputs[0]!.layer]!;
  const end = steps[output]!;
  return end.layer instanceof SoftmaxLayer
    ? { output, ranking: end.inputs[0]!, isSoftmaxed: true }
    : { output, ranking: output, isSoftmaxed: false };
}
