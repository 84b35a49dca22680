/**
 * Pooling forward, and the gradient of max pooling. tfjs 4.22's gradient starts each window's maximum at the
 * smallest positive float, so windows whose maximum is ≤ 0 lose theirs; its forward passes lose a NaN.
 */
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";

interface PoolAttributes {
  readonly filterSize: number | [number, number];
  readonly strides: number | [number, number];
  readonly pad: "valid" | "same" | number;
  readonly dimRoundingMode?: "floor" | "round" | "ceil";
}

/** x [N,H,W,C] → [N,OH,OW,C]; dy [N,OH,OW,C], input [N,H,W,C] → [N,H,W,C]. */
export function registerPooling(room: KernelRegistry): void {
  for (const [name, pool] of [
    ["MaxPool", room.kernels.maxPool],
    ["AvgPool", room.kernels.averagePool],
  ] as const) {
    room.kernel<{ x: TensorInfo }, PoolAttributes>(name, ({ inputs: { x }, attrs }) => {
      const { outShape, numbers } = geometry(room, x.shape, attrs);
      const out = room.backend.makeOutput(outShape, "float32");
      pool(room.pointer(x), room.pointer(out), ...numbers);
      return out;
    });
  }
  room.kernel<{ dy: TensorInfo; input: TensorInfo }, PoolAttributes>(
    "MaxPoolGrad",
    ({ inputs: { dy, input }, attrs }) => {
      const { numbers } = geometry(room, input.shape, attrs);
      const out = room.backend.makeOutput(input.shape, "float32");
      room.kernels.maxPoolGradient(room.pointer(input), room.pointer(dy), room.pointer(out), ...numbers);
      return out;
    },
  );
}

type Numbers14 = [
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
  shape: readonly number[],
  attrs: PoolAttributes,
): { outShape: number[]; numbers: Numbers14 } {
  const info = room.tf.backend_util.computePool2DInfo(
    shape as [number, number, number, number],
    attrs.filterSize,
    attrs.strides,
    1,
    attrs.pad,
    attrs.dimRoundingMode,
  );
  return {
    outShape: info.outShape,
    numbers: [
      info.batchSize,
      info.inHeight,
      info.inWidth,
      info.inChannels,
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
    ],
  };
}
