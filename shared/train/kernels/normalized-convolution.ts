/**
 * Computes a convolution, the batch normalisation by given statistics that follows it, and a clip, in one operation for
 * evaluation. The filter is scaled by gamma / √(variance + ε), and the rest of the normalisation is a shift. It rounds
 * other numbers than the three operations in turn, so results differ in their last bits. It has no gradient.
 */
import type { Tensor } from "@tensorflow/tfjs";
import type { FusedActivation } from "./batch-norm.js";
import type { ConvolutionAttributes } from "./convolution.js";
import { convolve } from "./convolution-forward.js";
import { convolveDepthwise } from "./depthwise.js";
import type { KernelRegistry, TensorInfo, Tf } from "./kernel-registry.js";

const name = "StemmaNormalizedConvolution";
const bounds: Readonly<Record<FusedActivation, readonly [low: number, high: number]>> = {
  none: [-Infinity, Infinity],
  relu: [0, Infinity],
  relu6: [0, 6],
};

export interface NormalizedInputs<T> {
  /** The input, [N,H,W,C]. */
  readonly x: T;
  /** [FH,FW,C,O], or [FH,FW,C,M] where it is depthwise; then O below stands for C·M. */
  readonly filter: T;
  /** [O]; null stands for zeros. */
  readonly bias: T | null;
  /** [O]; null stands for ones. */
  readonly gamma: T | null;
  /** [O]; null stands for zeros. */
  readonly beta: T | null;
  /** The variances, [O]. */
  readonly mean: T;
  /** The variances, [O]. */
  readonly variance: T;
}

export interface NormalizedAttributes {
  readonly strides: [number, number];
  readonly pad: "valid" | "same";
  readonly dataFormat: "NHWC";
  readonly dilations: [number, number];
  readonly isDepthwise: boolean;
  readonly epsilon: number;
  readonly activation: FusedActivation;
}

/** activation(normalise(convolve(x, filter) + bias)) → [N,OH,OW,O]. */
export function normalizedConvolution(
  tf: Tf,
  { x, filter, mean, variance, ...optional }: NormalizedInputs<Tensor>,
  attributes: NormalizedAttributes,
): Tensor {
  const given = Object.entries(optional).filter((entry): entry is [string, Tensor] => entry[1] !== null);
  const inputs = { x, filter, mean, variance, ...Object.fromEntries(given) };
  return tf.engine().runKernel(name, inputs, attributes as never) as unknown as Tensor;
}

interface Inputs extends Record<string, TensorInfo | undefined> {
  x: TensorInfo;
  filter: TensorInfo;
  bias?: TensorInfo;
  gamma?: TensorInfo;
  beta?: TensorInfo;
  mean: TensorInfo;
  variance: TensorInfo;
}

export function registerNormalizedConvolution(registry: KernelRegistry): void {
  const { kernels, backend } = registry;
  const pointerOf = (info: TensorInfo | undefined): number =>
    info === undefined ? 0 : registry.pointer(info);
  registry.kernel<Inputs, NormalizedAttributes>(name, ({ inputs, attrs }) => {
    const { x, filter, bias, gamma, beta, mean, variance } = inputs;
    const channels = registry.tf.util.sizeFromShape(mean.shape);
    const scaled = backend.makeOutput(filter.shape, "float32");
    const numbers = backend.makeOutput([2, channels], "float32");
    const factor = registry.pointer(numbers);
    const shift = factor + channels * 4;
    kernels.batchNormFactor(registry.pointer(variance), pointerOf(gamma), factor, channels, attrs.epsilon);
    kernels.foldedShift(pointerOf(bias), registry.pointer(mean), factor, pointerOf(beta), shift, channels);
    const rows = registry.tf.util.sizeFromShape(filter.shape) / Math.max(1, channels);
    kernels.scaleColumns(registry.pointer(filter), factor, registry.pointer(scaled), rows, channels);
    const [low, high] = bounds[attrs.activation];
    const run = attrs.isDepthwise ? convolveDepthwise : convolve;
    const attributes: Omit<ConvolutionAttributes, "filterShape" | "inputShape"> = attrs;
    const out = run(registry, { x, filter: scaled }, attributes, { shift, low, high });
    backend.disposeData(scaled.dataId);
    backend.disposeData(numbers.dataId);
    return out;
  });
}
