/**
 * Gradients of Conv2D on wasm: by the filter (missing in tfjs 4.22) and by the input (present, but without
 * matrix products and slow). Both are matrix products over the unrolled input.
 */
import type { Tensor } from "@tensorflow/tfjs";
import { StemmaError } from "../../errors.js";
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";
import { blockDepth, cutProduct, multiply, multiplyRows, packPanels, panelBytes } from "./matrix-product.js";

export interface ConvolutionAttributes {
  readonly strides: number | [number, number];
  readonly pad: "valid" | "same" | number;
  readonly dataFormat: "NHWC" | "NCHW";
  readonly dimRoundingMode?: "floor" | "round" | "ceil";
  /** Added by our gradients; tfjs's do not support dilation. */
  readonly dilations?: number | [number, number];
  readonly filterShape: [number, number, number, number];
  readonly inputShape: [number, number, number, number];
}

/** Conv2DBackpropFilter: x [N,H,W,C], dy [N,OH,OW,O] → [FH,FW,C,O]. */
export function registerFilterGradient(registry: KernelRegistry): void {
  registry.kernel<{ x: TensorInfo; dy: TensorInfo }, ConvolutionAttributes>(
    "Conv2DBackpropFilter",
    ({ inputs: { x, dy }, attrs }) => {
      const info = convolutionInfo(registry, x.shape, attrs.filterShape, attrs);
      const out = registry.backend.makeOutput(attrs.filterShape, "float32");
      const rows = info.filterHeight * info.filterWidth * info.inChannels;
      const columns = info.outChannels;
      const positions = info.batchSize * info.outHeight * info.outWidth;
      const [px, pdy, pout] = [registry.pointer(x), registry.pointer(dy), registry.pointer(out)];
      if (positions === 0) registry.kernels.zero(pout, rows * columns * 4);
      else if (isPlain(info))
        multiply(registry, px, pdy, pout, {
          M: rows,
          N: columns,
          K: positions,
          transposeA: true,
          transposeB: false,
        });
      else
        registry.run(
          "convolutionFilterGradient",
          cutProduct(registry, { M: rows, N: columns, K: positions }).map(([m, M, n, N]) => [
            ...[px, pdy, pout, m, M, n, N, columns, positions],
            ...geometry(info),
          ]),
          registry.scratchForThreads(
            0,
            blockDepth * 4 * (Math.ceil(rows / 4) * 4 + Math.ceil(columns / 8) * 8 + rows),
          ),
        );
      return out;
    },
  );
}

/**
 * Conv2DBackpropInput: dy [N,OH,OW,O], filter [FH,FW,C,O] → [N,H,W,C]. Also the forward pass of a transposed
 * convolution.
 */
export function registerInputGradient(registry: KernelRegistry): void {
  registry.kernel<{ dy: TensorInfo; filter: TensorInfo }, ConvolutionAttributes>(
    "Conv2DBackpropInput",
    ({ inputs: { dy, filter }, attrs }) => {
      const info = convolutionInfo(registry, attrs.inputShape, filter.shape, attrs);
      const out = registry.backend.makeOutput(attrs.inputShape, "float32");
      const depth = info.outChannels;
      const columns = info.filterHeight * info.filterWidth * info.inChannels;
      const positions = info.batchSize * info.outHeight * info.outWidth;
      const memory = registry.scratchForThreads(
        panelBytes(columns, depth),
        isPlain(info) ? 0 : blockDepth * columns * 4,
      );
      const [pdy, pout] = [registry.pointer(dy), registry.pointer(out)];
      // The filter is [columns, depth] in memory; dy is multiplied with its transpose.
      const filterMatrix = {
        pointer: registry.pointer(filter),
        K: depth,
        N: columns,
        strides: [1, depth],
      } as const;
      packPanels(registry, filterMatrix, memory.shared);
      if (isPlain(info)) {
        multiplyRows(
          registry,
          { a: pdy, panels: memory.shared, out: pout },
          { M: positions, N: columns, K: depth },
        );
        return out;
      }
      registry.kernels.zero(pout, info.batchSize * info.inHeight * info.inWidth * info.inChannels * 4);
      // Outputs of one image add to overlapping inputs, in the order of their positions; images are independent.
      const positionsPerImage = info.outHeight * info.outWidth;
      registry.run(
        "convolutionInputGradient",
        registry
          .cut(info.batchSize, { work: positionsPerImage * columns * depth })
          .map(([image, images]) => [
            ...[pdy, memory.shared, pout, image * positionsPerImage, images * positionsPerImage, depth],
            ...geometry(info),
          ]),
        memory,
      );
      return out;
    },
  );
}

/**
 * The gradients of Conv2D and DepthwiseConv2dNative, dilated or not. tfjs rejects dilated ones on every
 * backend.
 */
export function registerConvolutionGradients(registry: KernelRegistry): void {
  const call = (name: string, inputs: Record<string, Tensor>, attrs: object): Tensor =>
    registry.tf.engine().runKernel(name, inputs, attrs as never) as unknown as Tensor;
  for (const kernelName of ["Conv2D", "DepthwiseConv2dNative"]) {
    registry.gradient({
      kernelName,
      inputsToSave: ["x", "filter"],
      gradFunc: (dy, saved, attrs) => {
        const [x, filter] = saved as [Tensor, Tensor];
        const gradient = dy as Tensor;
        return {
          x: () =>
            call(`${kernelName}BackpropInput`, { dy: gradient, filter }, { ...attrs, inputShape: x.shape }),
          filter: () =>
            call(`${kernelName}BackpropFilter`, { x, dy: gradient }, { ...attrs, filterShape: filter.shape }),
        };
      },
    });
  }
}

type ConvolutionInfo = ReturnType<KernelRegistry["tf"]["backend_util"]["computeConv2DInfo"]>;

/**
 * Sizes of a convolution; shapes [N,H,W,C] and [FH,FW,C,O], or [FH,FW,C,M] where it is depthwise.
 * @throws OPERATION_MISSING for channels first
 */
export function convolutionInfo(
  registry: KernelRegistry,
  inputShape: readonly number[],
  filterShape: readonly number[],
  attrs: Omit<ConvolutionAttributes, "filterShape" | "inputShape">,
  isDepthwise = false,
): ConvolutionInfo {
  const { backend_util: util } = registry.tf;
  if (attrs.dataFormat === "NCHW")
    throw new StemmaError(
      "OPERATION_MISSING",
      "The wasm backend convolves only images with channels last (NHWC), not NCHW. Transpose them first.",
      { operation: "NCHW" },
    );
  return util.computeConv2DInfo(
    inputShape as [number, number, number, number],
    filterShape as [number, number, number, number],
    attrs.strides,
    attrs.dilations ?? 1,
    attrs.pad,
    attrs.dimRoundingMode,
    isDepthwise,
    util.convertConv2DDataFormat(attrs.dataFormat ?? "NHWC"),
  );
}

/** True if the filter is 1 × 1 with stride 1 and no padding: the input is then its own unrolled form. */
export function isPlain(info: ConvolutionInfo): boolean {
  return (
    info.filterHeight === 1 &&
    info.filterWidth === 1 &&
    info.strideHeight === 1 &&
    info.strideWidth === 1 &&
    info.padInfo.top === 0 &&
    info.padInfo.left === 0 &&
    info.outHeight === info.inHeight &&
    info.outWidth === info.inWidth
  );
}

type Numbers13 = [
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

/** The sizes in the order in which the kernels of convolutions take them. */
export function geometry(info: ConvolutionInfo): Numbers13 {
  return [
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
  ];
}
