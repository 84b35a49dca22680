/**
 * Depthwise convolution: its gradients, both missing in tfjs 4.22's wasm backend, and the forward pass.
 * tfjs's forward pass takes twice the time, and loses a NaN where the filter has one pixel or a clip is
 * fused.
 */
import { convolutionInfo, type ConvolutionAttributes } from "./convolution.js";
import { activate } from "./convolution-forward.js";
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";

/** By the filter: x [N,H,W,C], dy [N,OH,OW,C·M] → [FH,FW,C,M]. By the input: dy, filter → [N,H,W,C]. */
export function registerDepthwiseGradients(registry: KernelRegistry): void {
  registry.kernel<{ x: TensorInfo; dy: TensorInfo }, ConvolutionAttributes>(
    "DepthwiseConv2dNativeBackpropFilter",
    ({ inputs: { x, dy }, attrs }) => {
      const out = registry.backend.makeOutput(attrs.filterShape, "float32");
      registry.kernels.depthwiseFilterGradient(
        registry.pointer(x),
        registry.pointer(dy),
        registry.pointer(out),
        ...geometry(registry, x.shape, attrs.filterShape, attrs),
      );
      return out;
    },
  );
  registry.kernel<{ dy: TensorInfo; filter: TensorInfo }, ConvolutionAttributes>(
    "DepthwiseConv2dNativeBackpropInput",
    ({ inputs: { dy, filter }, attrs }) => {
      const out = registry.backend.makeOutput(attrs.inputShape, "float32");
      registry.kernels.depthwiseInputGradient(
        registry.pointer(out),
        registry.pointer(dy),
        registry.pointer(filter),
        tapSpace(registry, filter.shape),
        ...geometry(registry, attrs.inputShape, filter.shape, attrs),
      );
      return out;
    },
  );
}

interface ForwardInputs extends Record<string, TensorInfo | undefined> {
  x: TensorInfo;
  filter: TensorInfo;
  bias?: TensorInfo;
  preluActivationWeights?: TensorInfo;
}

/** DepthwiseConv2dNative and FusedDepthwiseConv2D: x [N,H,W,C], filter [FH,FW,C,M] → [N,OH,OW,C·M]. */
export function registerDepthwise(registry: KernelRegistry): void {
  registry.kernel<ForwardInputs, ConvolutionAttributes>("DepthwiseConv2dNative", ({ inputs, attrs }) =>
    convolve(registry, inputs, attrs),
  );
  registry.kernel<ForwardInputs, ConvolutionAttributes & { activation?: string; leakyreluAlpha?: number }>(
    "FusedDepthwiseConv2D",
    ({ inputs, attrs }) => {
      const out = convolve(registry, inputs, attrs);
      const channels = out.shape[3]!;
      if (inputs.bias)
        registry.kernels.addBias(
          registry.pointer(out),
          registry.pointer(inputs.bias),
          registry.tf.util.sizeFromShape(out.shape) / channels,
          channels,
        );
      return activate(registry, out, attrs, inputs.preluActivationWeights);
    },
  );
}

function convolve(
  registry: KernelRegistry,
  { x, filter }: ForwardInputs,
  attrs: ConvolutionAttributes,
): TensorInfo {
  const info = convolutionInfo(registry, x.shape, filter.shape, attrs, true);
  const out = registry.backend.makeOutput(info.outShape, "float32");
  registry.kernels.depthwise(
    registry.pointer(x),
    registry.pointer(out),
    registry.pointer(filter),
    tapSpace(registry, filter.shape),
    ...geometry(registry, x.shape, filter.shape, attrs),
  );
  return out;
}

/** Scratch memory for the pointers of one pixel's taps: two of four bytes for each element of the filter. */
const tapSpace = (registry: KernelRegistry, [height, width]: readonly number[]): number =>
  registry.scratch(height! * width! * 8);

type Numbers15 = [
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
];

/** The sizes in the order in which the depthwise kernels take them. */
function geometry(
  registry: KernelRegistry,
  inputShape: readonly number[],
  filterShape: readonly number[],
  attrs: ConvolutionAttributes,
): Numbers15 {
  const info = convolutionInfo(registry, inputShape, filterShape, attrs, true);
  return [
    info.batchSize,
    info.inHeight,
    info.inWidth,
    info.inChannels,
    filterShape[3]!,
    info.outHeight,
    info.outWidth,
    info.filterHeight,
    info.filterWidth,
    info.strideHeight,
    info.strideWidth,
    info.padInfo.top,
    info.padInfo.left,
    info.dilationHeight,
    info.dilationWidth,
  ];
}
