/**
 * The gradient of max pooling. tfjs 4.22's own starts each window's maximum at the smallest positive
 * float, so windows whose maximum is ≤ 0 lose their gradient.
 */
import type { KernelRoom, TensorInfo } from "./kernel-room.js";

interface PoolAttributes {
  readonly filterSize: number | [number, number]; readonly strides: number | [number, number]; readonly pad: "valid" | "same" | number; readonly dimRoundingMode?: "floor" | "round" | "ceil";
}

/** dy [N,OH,OW,C], input [N,H,W,C] → [N,H,W,C]. */
export function registerMaxPoolGradient(room: KernelRoom): void {
  room.kernel<{ dy: TensorInfo; input: TensorInfo }, PoolAttributes>("MaxPoolGrad", ({ inputs: { dy, input }, attrs }) => {
    const info = room.tf.backend_util.computePool2DInfo(input.shape as [number, number, number, number], attrs.filterSize, attrs.strides, 1, attrs.pad, attrs.dimRoundingMode);
    const out = room.backend.makeOutput(input.shape, "float32");
    room.kernels.maxPoolGradient(
      room.pointer(input), room.pointer(dy), room.pointer(out), info.batchSize, info.inHeight, info.inWidth, info.inChannels, info.outHeight, info.outWidth,
      info.filterHeight, info.filterWidth, info.strideHeight, info.strideWidth, info.padInfo.top, info.padInfo.left, info.dilationHeight, info.dilationWidth,
    );
    return out;
  });
}
