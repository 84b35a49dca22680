/**
 * The forward pass of pooling, and the gradient of max pooling. tfjs 4.22's gradient starts each window's
 * maximum at the smallest positive float, so windows whose maximum is ≤ 0 get no gradient; its forward passes
 * lose a NaN.
 */
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";

interface PoolAttributes {
  readonly filterSize: number | [number, number];
  readonly strides: number | [number, number];
  readonly pad: "valid" | "same" | number;
  readonly dimRoundingMode?: "floor" | "round" | "ceil";
}

/** Forward: x [N,H,W,C] → [N,OH,OW,C]. Gradient: dy [N,OH,OW,C], input [N,H,W,C] → [N,H,W,C]. */
export function registerPooling(registry: KernelRegistry): void {
  for (const [name, pool] of [
    ["MaxPool", registry.kernels.maxPool],
    ["AvgPool", registry.kernels.averagePool],
  ] as const) {
    registry.kernel<{ x: TensorInfo }, PoolAttributes>(name, ({ inputs: { x }, attrs }) => {
      const { outShape, numbers } = geometry(registry, x.shape, attrs);
      const out = registry.backend.makeOutput(outShape, "float32");
      pool(registry.pointer(x), registry.pointer(out), ...numbers);
      return out;
    });
  }
  registry.kernel<{ dy: TensorInfo; input: TensorInfo }, PoolAttributes>(
    "MaxPoolGrad",
    ({ inputs: { dy, input }, attrs }) => {
      const { numbers } = geometry(registry, input.shape, attrs);
      const out = registry.backend.makeOutput(input.shape, "float32");
      registry.kernels.maxPoolGradient(
        registry.pointer(input),
        registry.pointer(dy),
        registry.pointer(out),
        ...numbers,
      );
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

/** The output's shape, and the sizes in the order in which the pooling kernels take them. */
function geometry(
  registry: KernelRegistry,
  shape: readonly number[],
  attrs: PoolAttributes,
): { outShape: number[]; numbers: Numbers14 } {
  const info = registry.tf.backend_util.computePool2DInfo(
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
