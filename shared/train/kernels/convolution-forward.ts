/**
 * The forward pass of convolutions. tfjs's wasm kernels pack the filter again at every training step and
 * reach only two thirds of the speed of our matrix product; their fused clips lose a NaN.
 */
import { StemmaError } from "../../errors.js";
import { convolutionInfo, geometry, isPlain, type ConvolutionAttributes } from "./convolution.js";
import { blockDepth, multiplyRows, packPanels, panelBytes, rowsPerTile } from "./matrix-product.js";
import type { Epilogue } from "./depthwise.js";
import type { KernelFunction, KernelRegistry, TensorInfo } from "./kernel-registry.js";

interface FusedAttributes extends ConvolutionAttributes {
  readonly activation?: string;
  readonly leakyreluAlpha?: number;
}
interface Inputs extends Record<string, TensorInfo | undefined> {
  x: TensorInfo;
  filter: TensorInfo;
  bias?: TensorInfo;
  preluActivationWeights?: TensorInfo;
}

/** Conv2D and FusedConv2D: x [N,H,W,C], filter [FH,FW,C,O] → [N,OH,OW,O]. */
export function registerConvolution(registry: KernelRegistry): void {
  registry.kernel<Inputs, ConvolutionAttributes>("Conv2D", ({ inputs, attrs }) =>
    convolve(registry, inputs, attrs),
  );
  registry.kernel<Inputs, FusedAttributes>("FusedConv2D", ({ inputs, attrs }) => {
    const out = convolve(registry, inputs, attrs);
    if (inputs.bias)
      registry.kernels.addBias(
        registry.pointer(out),
        registry.pointer(inputs.bias),
        registry.tf.util.sizeFromShape(out.shape) / out.shape[3]!,
        out.shape[3]!,
      );
    return activate(registry, out, attrs, inputs.preluActivationWeights);
  });
}

/** The forward pass for x and filter as in registerConvolution. */
export function convolve(
  registry: KernelRegistry,
  { x, filter }: { readonly x: TensorInfo; readonly filter: TensorInfo },
  attrs: Omit<ConvolutionAttributes, "filterShape" | "inputShape">,
  epilogue?: Epilogue,
): TensorInfo {
  const info = convolutionInfo(registry, x.shape, filter.shape, attrs);
  const depth = info.filterHeight * info.filterWidth * info.inChannels;
  const columns = info.outChannels;
  const positions = info.batchSize * info.outHeight * info.outWidth;
  const out = registry.backend.makeOutput(info.outShape, "float32");
  const memory = registry.scratchForThreads(
    panelBytes(columns, depth),
    isPlain(info) ? 0 : blockDepth * depth * 4,
  );
  const [px, pout] = [registry.pointer(x), registry.pointer(out)];
  const filterMatrix = {
    pointer: registry.pointer(filter),
    K: depth,
    N: columns,
    strides: [columns, 1],
  } as const;
  packPanels(registry, filterMatrix, memory.shared);
  const more = epilogue === undefined ? [] : [epilogue.shift, epilogue.low, epilogue.high];
  if (isPlain(info) && epilogue !== undefined)
    registry.run(
      "matMulRowsShifted",
      registry
        .cut(positions, { multipleOf: rowsPerTile, work: depth * columns })
        .map(([first, rows]) => [
          ...[px + first * depth * 4, depth, memory.shared, pout + first * columns * 4],
          ...[rows, columns, depth, ...more],
        ]),
    );
  else if (isPlain(info))
    multiplyRows(
      registry,
      { a: px, panels: memory.shared, out: pout },
      { M: positions, N: columns, K: depth },
    );
  else
    registry.run(
      epilogue === undefined ? "convolveRows" : "convolveRowsShifted",
      registry
        .cut(positions, { multipleOf: 4, work: depth * columns })
        .map(([first, count]) => [
          ...[px, memory.shared, pout, first, count, ...more, columns],
          ...geometry(info),
        ]),
      memory,
    );
  return out;
}

/**
 * Runs the kernel of a fused activation and disposes its input; "linear" returns x itself.
 * @param alpha the slopes of prelu
 * @throws OPERATION_MISSING for an activation without a kernel
 */
export function activate(
  registry: KernelRegistry,
  x: TensorInfo,
  { activation = "linear", leakyreluAlpha = 0.2 }: { activation?: string; leakyreluAlpha?: number },
  alpha?: TensorInfo,
): TensorInfo {
  const name = (
    {
      relu: "Relu",
      relu6: "Relu6",
      elu: "Elu",
      sigmoid: "Sigmoid",
      leakyrelu: "LeakyRelu",
      prelu: "Prelu",
    } as Record<string, string>
  )[activation];
  if (activation === "linear") return x;
  const kernel: KernelFunction | undefined = name === undefined ? undefined : registry.stockKernel(name);
  if (!kernel)
    throw new StemmaError(
      "OPERATION_MISSING",
      `The wasm backend cannot fuse the activation ${activation} into another layer. Use a separate activation layer.`,
      { operation: activation },
    );
  const out = kernel({
    inputs: { x, ...(alpha && { alpha }) },
    backend: registry.backend,
    attrs: { alpha: leakyreluAlpha },
  }) as TensorInfo;
  registry.backend.disposeData(x.dataId);
  return out;
}
