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
    registry.kernels.clip(
      registry.pointer(x),
      registry.pointer(out),
      registry.tf.util.sizeFromShape(x.shape),
      ...bounds(call.attrs),
    );
    return out;
  });
}

/** Gradients of Relu, Relu6 and ClipByValue in one pass: kernels of our own, and gradients that call them. */
export function registerActivationGradients(registry: KernelRegistry): void {
  const { tf, kernels } = registry;
  const pass = (
    name: string,
    run: (x: number, dy: number, dx: number, count: number, attrs: ClipAttributes) => void,
  ): ((x: Tensor, dy: Tensor, attrs?: object) => Tensor) => {
    registry.kernel<{ x: TensorInfo; dy: TensorInfo }, ClipAttributes>(
      name,
      ({ inputs: { x, dy }, attrs }) => {
        const out = registry.backend.makeOutput(x.shape, "float32");
        run(
          registry.pointer(x),
          registry.pointer(dy),
          registry.pointer(out),
          tf.util.sizeFromShape(x.shape),
          attrs,
        );
        return out;
      },
    );
    return (x, dy, attrs = {}) => tf.engine().runKernel(name, { x, dy }, attrs as never) as unknown as Tensor;
  };
  const relu = pass("StemmaReluGradient", (x, dy, dx, count) => kernels.reluGradient(x, dy, dx, count));
  const relu6 = pass("StemmaRelu6Gradient", (x, dy, dx, count) => kernels.relu6Gradient(x, dy, dx, count));
  const clip = pass("StemmaClipGradient", (x, dy, dx, count, attrs) =>
    kernels.clipGradient(x, dy, dx, count, attrs.clipValueMin, attrs.clipValueMax),
  );
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
