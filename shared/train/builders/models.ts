/**
 * The models that recipes start from: a sequence regressor, a small convolutional classifier, two LeNets,
 * MobileNetV2. Pure.
 */
import { StemmaError } from "../../errors.js";
import type { ModelAtRest } from "../recipes/recipe.js";
import type { Streams } from "../../random/streams.js";
import { GraphBuilder, type NodeId } from "./graph-builder.js";

/**
 * A recurrent layer beside a linear one over the whole window, summed; `outputs` numbers that begin at
 * `mean`. Inputs [steps, features]. The linear path carries on beyond the range seen in training, where a
 * recurrent layer's outputs level off: a battery's future is lower than its past.
 */
export function sequenceRegressor(
  kind: "LSTM" | "GRU",
  inputShape: readonly number[],
  units: number,
  outputs: number,
  mean: number,
  streams: Streams,
): ModelAtRest {
  const [steps, features] = inputShape;
  if (inputShape.length !== 2 || steps === undefined || features === undefined)
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `A recurrent model takes samples of [steps, features], these are [${inputShape.join(", ")}]. Choose a recipe for this data.`,
      { inputShape },
    );
  const graph = new GraphBuilder();
  const window = graph.input(inputShape);
  const curve = graph.silentDense(graph.recurrent(kind, window, features, units), units, outputs, mean);
  return graph.build(
    graph.sum([curve, graph.silentDense(graph.flatten(window), steps * features, outputs)]),
    streams,
  );
}

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
      `An image model takes samples of [height, width, channels] from 8 pixels on, these are [${inputShape.join(", ")}]. Choose a recipe for this data.`,
      { inputShape },
    );
  return [height, width, channels];
}

/** Two convolutions with pooling, one dense layer, logits of `classes`. */
export function smallConvolutional(
  inputShape: readonly number[],
  filters: number,
  classes: number,
  dropout: number,
  streams: Streams,
): ModelAtRest {
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
 * built today: tanh and means, every map of C3 sees every map of S2, logits of `classes` instead of radial
 * units. On [28, 28, 1] the first convolution pads, where the paper's pictures have a margin: 61,706
 * parameters with ten classes.
 */
export function leNet5(inputShape: readonly number[], classes: number, streams: Streams): ModelAtRest {
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
 * LeNet as Caffe's examples and ModelHub have it: 20 and 50 filters of 5 × 5, maxima, 500 units, relu;
 * 431,080 parameters on [28, 28, 1] with ten classes.
 */
export function leNetCaffe(inputShape: readonly number[], classes: number, streams: Streams): ModelAtRest {
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
 * Deeper, in the manner of VGG (Simonyan and Zisserman, 2015): three times two convolutions of 3 × 3 and a
 * pooling, with `filters`, twice and four times as many, then 128 units: eight layers with weights.
 */
export function vgg8(
  inputShape: readonly number[],
  filters: number,
  classes: number,
  streams: Streams,
): ModelAtRest {
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

/** A convolution and a pooling of two must be left something. */
function checkSides(name: string, inputShape: readonly number[], height: number, width: number): void {
  if (height < 2 || width < 2)
    throw new StemmaError(
      "ARCHITECTURE_MISMATCH",
      `${name} takes larger pictures than [${inputShape.join(", ")}]: its second convolution would leave nothing of them. Choose another model of the recipe.`,
      { inputShape },
    );
}

/** Expansion, output channels, repeats, first stride (Sandler et al., MobileNetV2, CVPR 2018, table 2). */
const stages = [
  [1, 16, 1, 1],
  [6, 24, 2, 2],
  [6, 32, 3, 2],
  [6, 64, 4, 2],
  [6, 96, 3, 1],
  [6, 160, 3, 2],
  [6, 320, 1, 1],
] as const;

/** Channels are multiples of 8 and lose at most a tenth (the paper's reference code). */
function channelsOf(count: number, alpha: number): number {
  const rounded = Math.max(8, Math.floor((count * alpha + 4) / 8) * 8);
  return rounded < 0.9 * count * alpha ? rounded + 8 : rounded;
}

/**
 * MobileNetV2 of width `alpha`, logits of `classes`. Small pictures (below 64 pixels) keep their size in the
 * first layer.
 */
export function mobileNetV2(
  inputShape: readonly number[],
  alpha: number,
  classes: number,
  streams: Streams,
): ModelAtRest {
  const [height, , channels] = imageSides(inputShape);
  const graph = new GraphBuilder();
  const normalized = (node: NodeId, count: number): NodeId => graph.relu6(graph.batchNorm(node, count));
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
  const last = Math.max(1280, channelsOf(1280, alpha));
  node = normalized(
    graph.convolution(node, count, {
      filters: alpha < 1 ? channelsOf(1280, alpha) : last,
      kernel: 1,
      bias: false,
    }),
    alpha < 1 ? channelsOf(1280, alpha) : last,
  );
  return graph.build(
    graph.dense(graph.globalAverage(node), alpha < 1 ? channelsOf(1280, alpha) : last, classes),
    streams,
  );
}
