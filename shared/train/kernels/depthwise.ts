/** Gradients of DepthwiseConv2dNative on wasm, both missing in tfjs 4.22. */
import type { KernelRoom, TensorInfo } from "./kernel-room.js";

type Shape4 = [number, number, number, number];
interface DepthwiseAttributes {
  readonly strides: number | [number, number]; readonly pad: "valid" | "same" | number; readonly dilations: number | [number, number];
  readonly dimRoundingMode?: "floor" | "round" | "ceil"; readonly filterShape: Shape4; readonly inputShape: Shape4;
}

/** x [N,H,W,C], dy [N,OH,OW,C·M] → [FH,FW,C,M]; and dy, filter → [N,H,W,C]. */
export function registerDepthwiseGradients(room: KernelRoom): void {
  room.kernel<{ x: TensorInfo; dy: TensorInfo }, DepthwiseAttributes>("DepthwiseConv2dNativeBackpropFilter", ({ inputs: { x, dy }, attrs }) => {
    const out = room.backend.makeOutput(attrs.filterShape, "float32");
    room.kernels.depthwiseFilterGradient(room.pointer(x), room.pointer(dy), room.pointer(out), ...geometry(room, x.shape, attrs.filterShape, attrs));
    return out;
  });
  room.kernel<{ dy: TensorInfo; filter: TensorInfo }, DepthwiseAttributes>("DepthwiseConv2dNativeBackpropInput", ({ inputs: { dy, filter }, attrs }) => {
    const out = room.backend.makeOutput(attrs.inputShape, "float32");
    room.kernels.depthwiseInputGradient(room.pointer(out), room.pointer(dy), room.pointer(filter), ...geometry(room, attrs.inputShape, filter.shape, attrs));
    return out;
  });
}

type Numbers15 = [number, number, number, number, number, number, number, number, number, number, number, number, number, number, number];

function geometry(room: KernelRoom, inputShape: readonly number[], filterShape: readonly number[], attrs: DepthwiseAttributes): Numbers15 {
  const info = room.tf.backend_util.computeConv2DInfo(inputShape as Shape4, filterShape as Shape4, attrs.strides, attrs.dilations ?? 1, attrs.pad, attrs.dimRoundingMode, true);
  return [
    info.batchSize, info.inHeight, info.inWidth, info.inChannels, filterShape[3]!, info.outHeight, info.outWidth, info.filterHeight, info.filterWidth,
    info.strideHeight, info.strideWidth, info.padInfo.top, info.padInfo.left, info.dilationHeight, info.dilationWidth,
  ];
}
