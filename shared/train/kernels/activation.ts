/**
 * relu, relu6 and clipping, forward and gradient, in one pass each. tfjs's forward kernels lose a NaN (their
 * max(NaN, 0) is 0), and its gradients take four passes.
 */
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";
import type { Tensor } from "@tensorflow/tfjs";

interface ClipAttributes {
  readonly clipValueMin: number;
  readonly clipValueMax: number;
}

/** Relu, Relu6, ClipByValue for float32; other types keep the backend's own kernel. */
export function registerActivations(registry: KernelRegistry): void {
  registerClip(registry, "Relu", () => [0, Infinity]);
  registerClip(registry, "Relu6", () => [0, 6]);
  registerClip(registry, "ClipByValue", (attrs) => [attrs.clipValueMin, attrs.clipValueMax]);
}

function registerClip(
  registry: KernelRegistry,
  name: string,
  bounds: (attrs: ClipAttributes) => [number, number],
): void {
  const stock = registry.stockKernel(name);
  registry.kernel<{ x: TensorInfo }, ClipAttributes>(name, (call) => {
    const { x } = call.inputs;
    if (x.dtype !== "float32" && stock) return stock(call as never);
    const out = registry.backend.makeOutput(x.shape, "float32");
    runByElements(registry, "clip", [x, out], bounds(call.attrs));
    return out;
  });
}

/** Gradients of Relu, Relu6 and ClipByValue in one pass: kernels of our own, and gradients that call them. */
export function registerActivationGradients(registry: KernelRegistry): void {
  const { tf } = registry;
  const pass = (
    name: string,
    kernel: "reluGradient" | "relu6Gradient" | "clipGradient",
    bounds: (attrs: ClipAttributes) => number[] = () => [],
  ): ((x: Tensor, dy: Tensor, attrs?: object) => Tensor) => {
    registry.kernel<{ x: TensorInfo; dy: TensorInfo }, ClipAttributes>(
      name,
      ({ inputs: { x, dy }, attrs }) => {
        const out = registry.backend.makeOutput(x.shape, "float32");
        runByElements(registry, kernel, [x, dy, out], bounds(attrs));
        return out;
      },
    );
    return (x, dy, attrs = {}) => tf.engine().runKernel(name, { x, dy }, attrs as never) as unknown as Tensor;
  };
  const relu = pass("StemmaReluGradient", "reluGradient");
  const relu6 = pass("StemmaRelu6Gradient", "relu6Gradient");
  const clip = pass("StemmaClipGradient", "clipGradient", (attrs) => [
    attrs.clipValueMin,
    attrs.clipValueMax,
  ]);
  registry.gradient({
    kernelName: "Relu",
    inputsToSave: ["x"],
    gradFunc: (dy, [x]) => ({ x: () => relu(x!, dy as Tensor) }),
  });
  registry.gradient({
    kernelName: "Relu6",
    inputsToSave: ["x"],
    gradFunc: (dy, [x]) => ({ x: () => relu6(x!, dy as Tensor) }),
  });
  registry.gradient({
    kernelName: "ClipByValue",
    inputsToSave: ["x"],
    gradFunc: (dy, [x], attrs) => ({ x: () => clip(x!, dy as Tensor, attrs) }),
  });
}

/** The cost of loading and storing one element, in multiplications. */
const elementWork = 8;

/** Runs a kernel of the form (pointers…, count, …more) on ranges of elements of tensors of one size. */
function runByElements(
  registry: KernelRegistry,
  kernel: "clip" | "reluGradient" | "relu6Gradient" | "clipGradient",
  tensors: readonly TensorInfo[],
  more: readonly number[],
): void {
  const pointers = tensors.map((tensor) => registry.pointer(tensor));
  const size = registry.tf.util.sizeFromShape(tensors[0]!.shape);
  registry.run(
    kernel,
    registry
      .cut(size, { multipleOf: 16, work: elementWork })
      .map(([first, count]) => [...pointers.map((pointer) => pointer + first * 4), count, ...more]),
  );
}
