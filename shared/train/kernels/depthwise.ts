/**
 * Depthwise convolution: its gradients, both missing in tfjs 4.22's wasm backend, and the forward pass,
 * which there takes twice the time and loses a NaN with a filter of one pixel or a fused clip.
 */
import { activate } from "./convolution-forward.js";
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";

type Shape4 = [number, number, number, number];
interface DepthwiseAttributes {
  readonly strides: number | [number, number];
  readonly pad: "valid" | "same" | number;
  readonly dilations: number | [number, number];
  readonly dimRoundingMode?: "floor" | "round" | "ceil";
  readonly filterShape: Shape4;
  readonly inputShape: Shape4;
}

/** x [N,H,W,C], dy [N,OH,OW,C·M] → [FH,FW,C,M]; and dy, filter → [N,H,W,C]. */
export function registerDepthwiseGradients(room: KernelRegistry): void {
  room.kernel<{ x: TensorInfo; dy: TensorInfo }, DepthwiseAttributes>(
    "DepthwiseConv2dNativeBackpropFilter",
    ({ inputs: { x, dy }, attrs }) => {
      const out = room.backend.makeOutput(attrs.filterShape, "float32");
      room.kernels.depthwiseFilterGradient(
        room.pointer(x),
        room.pointer(dy),
        room.pointer(out),
        ...geometry(room, x.shape, attrs.filterShape, attrs),
      );
      return out;
    },
  );
  room.kernel<{ dy: TensorInfo; filter: TensorInfo }, DepthwiseAttributes>(
    "DepthwiseConv2dNativeBackpropInput",
    ({ inputs: { dy, filter }, attrs }) => {
      const out = room.backend.makeOutput(attrs.inputShape, "float32");
      room.kernels.depthwiseInputGradient(
        room.pointer(out),
        room.pointer(dy),
        room.pointer(filter),
        tapSpace(room, filter.shape),
        ...geometry(room, attrs.inputShape, filter.shape, attrs),
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
export function registerDepthwise(room: KernelRegistry): void {
  room.kernel<ForwardInputs, DepthwiseAttributes>("DepthwiseConv2dNative", ({ inputs, attrs }) =>
    convolve(room, inputs, attrs),
  );
  room.kernel<ForwardInputs, DepthwiseAttributes & { activation?: string; leakyreluAlpha?: number }>(
    "FusedDepthwiseConv2D",
    ({ inputs, attrs }) => {
      const out = convolve(room, inputs, attrs);
      const channels = out.shape[3]!;
      if (inputs.bias)
        room.kernels.addBias(
          room.pointer(out),
          room.pointer(inputs.bias),
          room.tf.util.sizeFromShape(out.shape) / channels,
          channels,
        );
      return activate(room, out, attrs, inputs.preluActivationWeights);
    },
  );
}

function convolve(
  room: KernelRegistry,
  { x, filter }: ForwardInputs,
  attrs: DepthwiseAttributes,
): TensorInfo {
  const info = convolutionInfo(room, x.shape, filter.shape, attrs);
  const out = room.backend.makeOutput(info.outShape, "float32");
  room.kernels.depthwise(
    room.pointer(x),
    room.pointer(out),
    room.pointer(filter),
    tapSpace(room, filter.shape),
    ...geometry(room, x.shape, filter.shape, attrs),
  );
  return out;
}

/** Room for the pointers of one pixel's taps. */
const tapSpace = (room: KernelRegistry, [height, width]: readonly number[]): number =>
  room.scratch(height! * width! * 8);

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

function geometry(
  room: KernelRegistry,
  inputShape: readonly number[],
  filterShape: readonly number[],
  attrs: DepthwiseAttributes,
): Numbers15 {
  const info = convolutionInfo(room, inputShape, filterShape, attrs);
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

function convolutionInfo(
  room: KernelRegistry,
  inputShape: readonly number[],
  filterShape: readonly number[],
  attrs: DepthwiseAttributes,
): ReturnType<KernelRegistry["tf"]["backend_util"]["computeConv2DInfo"]> {
  return room.tf.backend_util.computeConv2DInfo(
    inputShape as Shape4,
    filterShape as Shape4,
    attrs.strides,
    attrs.dilations ?? 1,
    attrs.pad,
    attrs.dimRoundingMode,
    true,
  );
}
