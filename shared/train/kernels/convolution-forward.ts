/**
 * The forward pass of convolutions. tfjs's wasm kernels pack the filter again at every training step and
 * reach only two thirds of the speed of our matrix product; their fused clips lose a NaN.
 */
import { StemmaError } from "../../errors.js";
import {
  blockPositions,
  convolutionInfo,
  geometry,
  isPlain,
  type ConvolutionAttributes,
} from "./convolution.js";
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

function convolve(registry: KernelRegistry, { x, filter }: Inputs, attrs: ConvolutionAttributes): TensorInfo {
  const info = convolutionInfo(registry, x.shape, filter.shape, attrs);
  const { kernels } = registry;
  const depth = info.filterHeight * info.filterWidth * info.inChannels;
  const columns = info.outChannels;
  const positions = info.batchSize * info.outHeight * info.outWidth;
  const out = registry.backend.makeOutput(info.outShape, "float32");
  const panelBytes = Math.ceil(columns / 8) * depth * 32;
  const panels = registry.scratch(panelBytes + (isPlain(info) ? 0 : blockPositions * depth * 4));
  const unrolled = panels + panelBytes;
  const [px, pout] = [registry.pointer(x), registry.pointer(out)];
  kernels.packPanels(registry.pointer(filter), panels, depth, columns, columns, 1);
  if (isPlain(info)) kernels.matMulRows(px, depth, panels, pout, columns, positions, columns, depth);
  else
    for (let first = 0; first < positions; first += blockPositions) {
      const count = Math.min(blockPositions, positions - first);
      kernels.unrollRows(px, unrolled, first, count, ...geometry(info));
      kernels.matMulRows(unrolled, depth, panels, pout + first * columns * 4, columns, count, columns, depth);
    }
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
