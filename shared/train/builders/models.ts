/**
 * The models that recipes initialise: a sequence regressor, a small convolutional classifier, two LeNets, a
 * VGG and MobileNetV2. Pure.
 */
import { StemmaError } from "../../errors.js";
import type { StoredModel } from "../recipes/recipe.js";
import type { Streams } from "../../random/streams.js";
import { GraphBuilder, type NodeId } from "./graph-builder.js";

interface SequenceRegressorOptions {
  readonly kind: "LSTM" | "GRU";
  /** The shape [steps, features]. */
  readonly inputShape: readonly number[];
  /** Width of the recurrent layer. */
  readonly units: number;
  /** Number of predicted numbers. */
  readonly outputs: number;
  /** The initial prediction. */
  readonly mean: number;
}

/**
 * The sum of a recurrent layer and a linear layer over the complete window. The linear layer extrapolates
 * beyond the range of the training data, where the outputs of a recurrent layer level off: a battery's future
 * capacity is lower than its past.
 * @throws ARCHITECTURE_MISMATCH when the input is not [steps, features]
 */
export function sequenceRegressor(
  { kind, inputShape, units, outputs, mean }: SequenceRegressorOptions,
  streams: Streams,
): StoredModel {
  const [steps, features] = inputShape;
  if (inputShape.length !== 2 || steps === undefined || features === undefined)
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `A recurrent model takes samples of shape [steps, features], the data has [${inputShape.join(", ")}]. Choose a recipe for this data.`,
      { inputShape },
    );
  const graph = new GraphBuilder();
  const window = graph.input(inputShape);
  const curve = graph.zeroDense(graph.recurrent(kind, window, features, units), units, outputs, mean);
  return graph.build(
    graph.sum([curve, graph.zeroDense(graph.flatten(window), steps * features, outputs)]),
    streams,
  );
}

interface SequenceNetworkOptions {
  readonly kind: "LSTM" | "GRU";
  /** [steps, features], or an image [height, width, channels], which is read row by row. */
  readonly inputShape: readonly number[];
  /** Width of the recurrent layer. */
  readonly units: number;
  /** Fraction of the recurrent layer's output that is dropped in training; 0 for no dropout. */
  readonly dropout: number;
  /** The initial value of each output. */
  readonly bias: readonly number[];
}

/**
 * A recurrent layer and a linear layer of its last state.
 * @throws ARCHITECTURE_MISMATCH when the input has neither two nor three dimensions
 */
export function sequenceNetwork(
  { kind, inputShape, units, dropout, bias }: SequenceNetworkOptions,
  streams: Streams,
): StoredModel {
  const [steps = 1, ...rest] = inputShape;
  const features = rest.reduce((product, dimension) => product * dimension, 1);
  if (inputShape.length !== 2 && inputShape.length !== 3)
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      "A recurrent model takes samples of shape [steps, features], or images, which it reads row by row; the data " +
        `has [${inputShape.join(", ")}]. Choose a recipe for this data.`,
      { inputShape },
    );
  const graph = new GraphBuilder();
  const input = graph.input(inputShape);
  const window = inputShape.length === 2 ? input : graph.reshape(input, [steps, features]);
  const state = graph.recurrent(kind, window, features, units);
  const kept = dropout > 0 ? graph.dropout(state, dropout) : state;
  return graph.build(graph.zeroDense(kept, units, bias.length, bias), streams);
}

/** Height, width and channels. @throws ARCHITECTURE_MISMATCH */
function imageSides(inputShape: readonly number[]): readonly [number, number, number] {
  const [height, width, channels] = inputShape;
  if (
    inputShape.length !== 3 ||
    height === undefined ||
    width === undefined ||
    channels === undefined ||
    height < 8 ||
    width < 8
  )
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `An image model takes samples of shape [height, width, channels] with at least 8 × 8 pixels, the data has [${inputShape.join(", ")}]. Choose a recipe for this data.`,
      { inputShape },
    );
  return [height, width, channels];
}

interface SmallConvolutionalOptions {
  /** The shape [height, width, channels]. */
  readonly inputShape: readonly number[];
  /** Filters of the first convolution; the second has twice as many. */
  readonly filters: number;
  readonly classes: number;
  /** Fraction of the hidden layer that is dropped in training; 0 for no dropout. */
  readonly dropout: number;
}

/** Two convolutions with pooling, a dense layer of 48 units, and the logits of the classes. */
export function smallConvolutional(
  { inputShape, filters, classes, dropout }: SmallConvolutionalOptions,
  streams: Streams,
): StoredModel {
  const [height, width, channels] = imageSides(inputShape);
  const graph = new GraphBuilder();
  const first = graph.maxPool(
    graph.convolution(graph.input(inputShape), channels, { filters, kernel: 3, activation: "relu" }),
  );
  const second = graph.maxPool(
    graph.convolution(first, filters, { filters: 2 * filters, kernel: 3, activation: "relu" }),
  );
  const flat = Math.floor(Math.floor(height / 2) / 2) * Math.floor(Math.floor(width / 2) / 2) * 2 * filters;
  const hidden = graph.dense(graph.flatten(second), flat, 48, "relu");
  return graph.build(
    graph.dense(dropout > 0 ? graph.dropout(hidden, dropout) : hidden, 48, classes),
    streams,
  );
}

/**
 * LeNet-5 (LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998, §II.B), as it is
 * built today: tanh and average pooling, every map of C3 reads every map of S2, logits instead of radial
 * units. The first convolution pads the image; the paper's images have a margin instead. On [28, 28, 1] with
 * ten classes it has 61,706 parameters.
 */
export function leNet5(inputShape: readonly number[], classes: number, streams: Streams): StoredModel {
  const [height, width, channels] = imageSides(inputShape);
  const graph = new GraphBuilder();
  const half = (extent: number): number => Math.floor(extent / 2);
  const first = graph.averagePool(
    graph.convolution(graph.input(inputShape), channels, { filters: 6, kernel: 5, activation: "tanh" }),
  );
  checkSides("LeNet-5", inputShape, half(height) - 4, half(width) - 4);
  const second = graph.averagePool(
    graph.convolution(first, 6, { filters: 16, kernel: 5, activation: "tanh", padding: "valid" }),
  );
  const flat = half(half(height) - 4) * half(half(width) - 4) * 16;
  return graph.build(
    graph.dense(
      graph.dense(graph.dense(graph.flatten(second), flat, 120, "tanh"), 120, 84, "tanh"),
      84,
      classes,
    ),
    streams,
  );
}

/**
 * LeNet as in Caffe's examples and in ModelHub: 20 and 50 filters of 5 × 5, max pooling, 500 units, relu. On
 * [28, 28, 1] with ten classes it has 431,080 parameters.
 */
export function leNetCaffe(inputShape: readonly number[], classes: number, streams: Streams): StoredModel {
  const [height, width, channels] = imageSides(inputShape);
  const graph = new GraphBuilder();
  const after = (extent: number): number => Math.floor((extent - 4) / 2);
  checkSides("LeNet", inputShape, after(height) - 4, after(width) - 4);
  const first = graph.maxPool(
    graph.convolution(graph.input(inputShape), channels, { filters: 20, kernel: 5, padding: "valid" }),
  );
  const second = graph.maxPool(graph.convolution(first, 20, { filters: 50, kernel: 5, padding: "valid" }));
  const flat = after(after(height)) * after(after(width)) * 50;
  return graph.build(
    graph.dense(graph.dense(graph.flatten(second), flat, 500, "relu"), 500, classes),
    streams,
  );
}

/**
 * A deeper network in the style of VGG (Simonyan and Zisserman, 2015) with eight layers with weights: three
 * times two convolutions of 3 × 3 and a pooling, with `filters`, twice and four times as many filters, then
 * 128 units.
 */
export function vgg8(
  inputShape: readonly number[],
  filters: number,
  classes: number,
  streams: Streams,
): StoredModel {
  const [height, width, channels] = imageSides(inputShape);
  const graph = new GraphBuilder();
  const eighth = (extent: number): number => Math.floor(Math.floor(Math.floor(extent / 2) / 2) / 2);
  let node = graph.input(inputShape);
  let count = channels;
  for (const wide of [filters, 2 * filters, 4 * filters]) {
    node = graph.convolution(node, count, { filters: wide, kernel: 3, activation: "relu" });
    node = graph.maxPool(graph.convolution(node, wide, { filters: wide, kernel: 3, activation: "relu" }));
    count = wide;
  }
  const hidden = graph.dense(graph.flatten(node), eighth(height) * eighth(width) * count, 128, "relu");
  return graph.build(graph.dense(hidden, 128, classes), streams);
}

/** Checks that at least 2 × 2 pixels remain after the second convolution, for the pooling. */
function checkSides(name: string, inputShape: readonly number[], height: number, width: number): void {
  if (height < 2 || width < 2)
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `${name} needs larger images than [${inputShape.join(", ")}]: nothing would remain after its second convolution. Choose another model of the recipe.`,
      { inputShape },
    );
}

/**
 * Each stage: expansion, output channels, repeats, first stride (Sandler et al., MobileNetV2, CVPR 2018,
 * table 2).
 */
const stages = [
  [1, 16, 1, 1],
  [6, 24, 2, 2],
  [6, 32, 3, 2],
  [6, 64, 4, 2],
  [6, 96, 3, 1],
  [6, 160, 3, 2],
  [6, 320, 1, 1],
] as const;

/**
 * Scales a number of channels to a multiple of 8 that is at most a tenth smaller (the paper's reference
 * code).
 */
function channelsOf(count: number, alpha: number): number {
  const rounded = Math.max(8, Math.floor((count * alpha + 4) / 8) * 8);
  return rounded < 0.9 * count * alpha ? rounded + 8 : rounded;
}

/**
 * MobileNetV2 of width `alpha`, with logits. Images of fewer than 64 rows keep their size in the first layer.
 */
export function mobileNetV2(
  inputShape: readonly number[],
  alpha: number,
  classes: number,
  streams: Streams,
): StoredModel {
  const [height, , channels] = imageSides(inputShape);
  const graph = new GraphBuilder();
  const normalized = (node: NodeId, channelCount: number): NodeId =>
    graph.relu6(graph.batchNorm(node, channelCount));
  let count = channelsOf(32, alpha);
  let node = normalized(
    graph.convolution(graph.input(inputShape), channels, {
      filters: count,
      kernel: 3,
      strides: height < 64 ? 1 : 2,
      bias: false,
    }),
    count,
  );
  for (const [expansion, output, repeats, firstStride] of stages) {
    for (let repeat = 0; repeat < repeats; repeat++) {
      const next = channelsOf(output, alpha);
      const wide = count * expansion;
      const strides = repeat === 0 ? firstStride : 1;
      const before = node;
      if (expansion > 1)
        node = normalized(graph.convolution(node, count, { filters: wide, kernel: 1, bias: false }), wide);
      node = normalized(graph.depthwise(node, wide, 3, strides), wide);
      node = graph.batchNorm(graph.convolution(node, wide, { filters: next, kernel: 1, bias: false }), next);
      if (strides === 1 && next === count) node = graph.sum([before, node]);
      count = next;
    }
  }
  const scaled = channelsOf(1280, alpha);
  const features = alpha < 1 ? scaled : Math.max(1280, scaled);
  node = normalized(graph.convolution(node, count, { filters: features, kernel: 1, bias: false }), features);
  return graph.build(graph.dense(graph.globalAverage(node), features, classes), streams);
}
