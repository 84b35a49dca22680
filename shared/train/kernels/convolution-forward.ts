/**
 * Convolutions forward. The backend's own pack the filter anew at every training step and reach two
 * thirds of what the matrix product here does; and its fused clips swallow a NaN.
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
export function registerConvolution(room: KernelRegistry): void {
  room.kernel<Inputs, ConvolutionAttributes>("Conv2D", ({ inputs, attrs }) => convolve(room, inputs, attrs));
  room.kernel<Inputs, FusedAttributes>("FusedConv2D", ({ inputs, attrs }) => {
    const out = convolve(room, inputs, attrs);
    if (inputs.bias)
      room.kernels.addBias(
        room.pointer(out),
        room.pointer(inputs.bias),
        room.tf.util.sizeFromShape(out.shape) / out.shape[3]!,
        out.shape[3]!,
      );
    return activate(room, out, attrs, inputs.preluActivationWeights);
  });
}

function convolve(room: KernelRegistry, { x, filter }: Inputs, attrs: ConvolutionAttributes): TensorInfo {
  const info = convolutionInfo(room, x.shape, filter.shape, attrs);
  const { kernels } = room;
  const depth = info.filterHeight * info.filterWidth * info.inChannels;
  const columns = info.outChannels;
  const positions = info.batchSize * info.outHeight * info.outWidth;
  const out = room.backend.makeOutput(info.outShape, "float32");
  const panelBytes = Math.ceil(columns / 8) * depth * 32;
  const panels = room.scratch(panelBytes + (isPlain(info) ? 0 : blockPositions * depth * 4));
  const unrolled = panels + panelBytes;
  const [px, pout] = [room.pointer(x), room.pointer(out)];
  kernels.packPanels(room.pointer(filter), panels, depth, columns, columns, 1);
  if (isPlain(info)) kernels.matMulRows(px, depth, panels, pout, columns, positions, columns, depth);
  else
    for (let first = 0; first < positions; first += blockPositions) {
      const count = Math.min(blockPositions, positions - first);
      kernels.unrollRows(px, unrolled, first, count, ...geometry(info));
      kernels.matMulRows(unrolled, depth, panels, pout + first * columns * 4, columns, count, columns, depth);
    }
  return out;
}

/** Runs the activation's own kernel and lets go of what came before. */
export function activate(
  room: KernelRegistry,
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
  const kernel: KernelFunction | undefined = name === undefined ? undefined : room.stockKernel(name);
  if (!kernel)
    throw new StemmaError(
      "OPERATION_MISSING",
      `the wasm backend fuses no activation ${activation}: use it as a layer of its own`,
      { operation: activation },
    );
  const out = kernel({
    inputs: { x, ...(alpha && { alpha }) },
    backend: room.backend,
    attrs: { alpha: leakyreluAlpha },
  }) as TensorInfo;
  room.backend.disposeData(x.dataId);
  return out;
}
