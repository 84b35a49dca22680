/**
 * relu, relu6 and clipping, forward and back, in one pass each. tfjs's forward kernels swallow a NaN
 * (max(NaN, 0) is 0 there) and its gradients take four passes.
 */
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";
import type { Tensor } from "@tensorflow/tfjs";

interface ClipAttributes {
  readonly clipValueMin: number;
  readonly clipValueMax: number;
}

/** Relu, Relu6, ClipByValue for float32; other types keep the backend's own kernel. */
export function registerActivations(room: KernelRegistry): void {
  registerClip(room, "Relu", () => [0, Infinity]);
  registerClip(room, "Relu6", () => [0, 6]);
  registerClip(room, "ClipByValue", (attrs) => [attrs.clipValueMin, attrs.clipValueMax]);
}

function registerClip(
  room: KernelRegistry,
  name: string,
  bounds: (attrs: ClipAttributes) => [number, number],
): void {
  const stock = room.stockKernel(name);
  room.kernel<{ x: TensorInfo }, ClipAttributes>(name, (call) => {
    const { x } = call.inputs;
    if (x.dtype !== "float32" && stock) return stock(call as never);
    const out = room.backend.makeOutput(x.shape, "float32");
    room.kernels.clip(
      room.pointer(x),
      room.pointer(out),
      room.tf.util.sizeFromShape(x.shape),
      ...bounds(call.attrs),
    );
    return out;
  });
}

/** Gradients in one pass: kernels of our own, and gradients that call them. */
export function registerActivationGradients(room: KernelRegistry): void {
  const { tf, kernels } = room;
  const pass = (
    name: string,
    run: (x: number, dy: number, dx: number, count: number, attrs: ClipAttributes) => void,
  ): ((x: Tensor, dy: Tensor, attrs?: object) => Tensor) => {
    room.kernel<{ x: TensorInfo; dy: TensorInfo }, ClipAttributes>(name, ({ inputs: { x, dy }, attrs }) => {
      const out = room.backend.makeOutput(x.shape, "float32");
      run(room.pointer(x), room.pointer(dy), room.pointer(out), tf.util.sizeFromShape(x.shape), attrs);
      return out;
    });
    return (x, dy, attrs = {}) => tf.engine().runKernel(name, { x, dy }, attrs as never) as unknown as Tensor;
  };
  const relu = pass("StemmaReluGradient", (x, dy, dx, count) => kernels.reluGradient(x, dy, dx, count));
  const relu6 = pass("StemmaRelu6Gradient", (x, dy, dx, count) => kernels.relu6Gradient(x, dy, dx, count));
  const clip = pass("StemmaClipGradient", (x, dy, dx, count, attrs) =>
    kernels.clipGradient(x, dy, dx, count, attrs.clipValueMin, attrs.clipValueMax),
  );
  room.gradient({
    kernelName: "Relu",
    inputsToSave: ["x"],
    gradFunc: (dy, [x]) => ({ x: () => relu(x!, dy as Tensor) }),
  });
  room.gradient({
    kernelName: "Relu6",
    inputsToSave: ["x"],
    gradFunc: (dy, [x]) => ({ x: () => relu6(x!, dy as Tensor) }),
  });
  room.gradient({
    kernelName: "ClipByValue",
    inputsToSave: ["x"],
    gradFunc: (dy, [x], attrs) => ({ x: () => clip(x!, dy as Tensor, attrs) }),
  });
}
