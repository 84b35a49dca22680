/**
 * Gradients of Conv2D on wasm: by the filter (missing in tfjs 4.22) and by the input (present, but without
 * matrix products and slow). Both are matrix products over the unrolled input.
 */
import type { Tensor } from "@tensorflow/tfjs";
import { StemmaError } from "../../errors.js";
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";

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

/** Output positions per block: their packed rows fit in the second-level cache. */
export const blockPositions = 256;

/** Conv2DBackpropFilter: x [N,H,W,C], dy [N,OH,OW,O] → [FH,FW,C,O]. */
export function registerFilterGradient(registry: KernelRegistry): void {
  registry.kernel<{ x: TensorInfo; dy: TensorInfo }, ConvolutionAttributes>(
    "Conv2DBackpropFilter",
    ({ inputs: { x, dy }, attrs }) => {
      const info = convolutionInfo(registry, x.shape, attrs.filterShape, attrs);
      const out = registry.backend.makeOutput(attrs.filterShape, "float32");
      const { kernels } = registry;
      const rows = info.filterHeight * info.filterWidth * info.inChannels;
      const columns = info.outChannels;
      const positions = info.batchSize * info.outHeight * info.outWidth;
      const rowBytes = Math.ceil(rows / 4) * blockPositions * 16;
      const panelBytes = Math.ceil(columns / 8) * blockPositions * 32;
      const unrolledBytes = isPlain(info) ? 0 : blockPositions * rows * 4;
      const packedRows = registry.scratch(rowBytes + panelBytes + unrolledBytes);
      const panels = packedRows + rowBytes;
      const unrolled = panels + panelBytes;
      const [px, pdy, pout] = [registry.pointer(x), registry.pointer(dy), registry.pointer(out)];
      if (positions === 0) kernels.zero(pout, rows * columns * 4);
      for (let first = 0; first < positions; first += blockPositions) {
        const count = Math.min(blockPositions, positions - first);
        if (!isPlain(info)) kernels.unrollRows(px, unrolled, first, count, ...geometry(info));
        kernels.packRows(isPlain(info) ? px + first * rows * 4 : unrolled, packedRows, count, rows, rows);
        kernels.packPanels(pdy + first * columns * 4, panels, count, columns, columns, 1);
        kernels.matMulPacked(packedRows, panels, pout, columns, rows, columns, count, first > 0 ? 1 : 0);
      }
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
      const { kernels } = registry;
      const depth = info.outChannels;
      const columns = info.filterHeight * info.filterWidth * info.inChannels;
      const positions = info.batchSize * info.outHeight * info.outWidth;
      const panelBytes = Math.ceil(columns / 8) * depth * 32;
      const panels = registry.scratch(panelBytes + (isPlain(info) ? 0 : blockPositions * columns * 4));
      const unrolled = panels + panelBytes;
      const [pdy, pout] = [registry.pointer(dy), registry.pointer(out)];
      // The filter is [columns, depth] in memory; dy is multiplied with its transpose.
      kernels.packPanels(registry.pointer(filter), panels, depth, columns, 1, depth);
      if (isPlain(info)) {
        kernels.matMulRows(pdy, depth, panels, pout, columns, positions, columns, depth);
        return out;
      }
      kernels.zero(pout, info.batchSize * info.inHeight * info.inWidth * info.inChannels * 4);
      for (let first = 0; first < positions; first += blockPositions) {
        const count = Math.min(blockPositions, positions - first);
        kernels.matMulRows(pdy + first * depth * 4, depth, panels, unrolled, columns, count, columns, depth);
        kernels.scatterUnrolled(unrolled, pout, first, count, ...geometry(info));
      }
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

/** Whether the filter is 1 × 1 with stride 1 and no padding: the input is then its own unrolled form. */
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

/** The sizes in the order in which unrollRows and scatterUnrolled take them. */
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
