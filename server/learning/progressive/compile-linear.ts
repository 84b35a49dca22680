/** Compiles dense layers, convolutions, pooling and batch normalization. */
import { activationLayers } from "./compile-activation.js";
import type { BoundedLayer } from "./bounded-layer.js";
import { sizeOf } from "./bounds.js";
import type { CompileLayer, Shape } from "./layer-compiler.js";
import { axisOf, convolutionForm, numberOf, poolingForm, requireChannelsLast } from "./layer-settings.js";
import { ConvolutionLayer, DepthwiseLayer } from "./linear-layers.js";
import { NormalizationLayer } from "./normalization-layer.js";
import { unsupported } from "./progressive-errors.js";
import { pointWindows, windowsOf, type Windows } from "./windows.js";

/** An image; a sequence is an image one column wide. */
interface Grid {
  readonly height: number;
  readonly width: number;
  readonly channels: number;
}

/** @param axes 1 for a sequence, 2 for an image */
function gridOf(shape: Shape, axes: number): Grid {
  return { height: shape[0]!, width: axes === 1 ? 1 : shape[1]!, channels: shape[axes]! };
}

function gridShape(windows: Windows, channels: number, axes: number): Shape {
  return axes === 1 ? [windows.outHeight, channels] : [windows.outHeight, windows.outWidth, channels];
}

export const compileDense: CompileLayer = ({ leaf, shape, weights: [kernel, bias] }) => {
  const [inputs, units] = kernel!.shape as readonly [number, number];
  const leading = shape.slice(0, -1);
  const out = [...leading, units];
  return [
    new ConvolutionLayer(out, pointWindows(sizeOf(leading)), inputs, units, kernel!, bias),
    ...activationLayers(out, leaf.config["activation"]),
  ];
};

/** @param axes 1 for Conv1D, 2 for Conv2D */
export function compileConvolution(axes: number): CompileLayer {
  return ({ leaf, shape, weights: [kernel, bias] }) => {
    const { height, width, channels } = gridOf(shape, axes);
    const windows = windowsOf(height, width, convolutionForm(leaf, axes));
    const filters = kernel!.shape.at(-1)!;
    const out = gridShape(windows, filters, axes);
    return [
      new ConvolutionLayer(out, windows, channels, filters, kernel!, bias),
      ...activationLayers(out, leaf.config["activation"]),
    ];
  };
}

export const compileDepthwise: CompileLayer = ({ leaf, shape, weights: [kernel, bias] }) => {
  // The real forward pass ignores the setting, so bounds of a dilated convolution would be wrong.
  if (convolutionForm(leaf, 2).dilation.some((rate) => rate > 1))
    throw unsupported("DepthwiseConv2D with a dilation, which TensorFlow.js ignores");
  const { height, width, channels } = gridOf(shape, 2);
  const windows = windowsOf(height, width, convolutionForm(leaf, 2));
  const multiplier = kernel!.shape[3]!;
  const out = gridShape(windows, channels * multiplier, 2);
  return [
    new DepthwiseLayer(out, windows, channels, multiplier, kernel!, bias),
    ...activationLayers(out, leaf.config["activation"]),
  ];
};

/** A depthwise convolution, then a 1 × 1 convolution over its channels. */
export const compileSeparable: CompileLayer = ({ leaf, shape, weights: [depthwise, pointwise, bias] }) => {
  const { height, width, channels } = gridOf(shape, 2);
  const windows = windowsOf(height, width, convolutionForm(leaf, 2));
  const multiplier = depthwise!.shape[3]!;
  const filters = pointwise!.shape.at(-1)!;
  const between = gridShape(windows, channels * multiplier, 2);
  const out = gridShape(windows, filters, 2);
  const points = pointWindows(windows.outHeight * windows.outWidth);
  return [
    new DepthwiseLayer(between, windows, channels, multiplier, depthwise!, undefined),
    new ConvolutionLayer(out, points, channels * multiplier, filters, pointwise!, bias),
    ...activationLayers(out, leaf.config["activation"]),
  ];
};

type PoolingLayer = new (shape: Shape, windows: Windows, channels: number) => BoundedLayer;

/** @param axes 1 for sequences, 2 for images */
export function compilePooling(Layer: PoolingLayer, axes: number): CompileLayer {
  return ({ leaf, shape }) => {
    const { height, width, channels } = gridOf(shape, axes);
    const windows = windowsOf(height, width, poolingForm(leaf, axes));
    return [new Layer(gridShape(windows, channels, axes), windows, channels)];
  };
}

/** One window over the complete input. @param axes 1 for sequences, 2 for images */
export function compileGlobalPooling(Layer: PoolingLayer, axes: number): CompileLayer {
  return ({ leaf, shape }) => {
    requireChannelsLast(leaf);
    const { height, width, channels } = gridOf(shape, axes);
    const windows = windowsOf(height, width, {
      size: [height, width],
      strides: [1, 1],
      dilation: [1, 1],
      padding: "valid",
    });
    return [new Layer([channels], windows, channels)];
  };
}

export const compileNormalization: CompileLayer = ({ leaf, shape, weights }) => {
  if (axisOf(leaf.config, -1, shape.length) !== shape.length - 1)
    throw unsupported("batch normalization over an axis other than the last");
  const remaining = [...weights];
  const gamma = leaf.config["scale"] === false ? undefined : remaining.shift();
  const beta = leaf.config["center"] === false ? undefined : remaining.shift();
  const [mean, variance] = remaining;
  const epsilon = Math.fround(numberOf(leaf.config, "epsilon", 1e-3));
  return [
    new NormalizationLayer(shape, shape.at(-1)!, epsilon, {
      gamma,
      beta,
      mean: mean!,
      variance: variance!,
    }),
  ];
};
