/** Replaces `call` of a layer class of tfjs-layers while the wasm backend is the active one. */
import type { LayersModel, Tensor } from "@tensorflow/tfjs";
import type { KernelRegistry, Tf } from "../kernels/kernel-registry.js";

export type Layer = LayersModel["layers"][number];
/** A weight as tfjs-layers holds it. */
export interface Variable {
  read(): Tensor;
  write(value: Tensor): unknown;
}
export type LayerCall = (
  this: Layer,
  inputs: Tensor | Tensor[],
  kwargs: { training?: boolean },
) => Tensor | Tensor[];
type Prototype = Omit<Layer, "call"> & { call: LayerCall };

/** The layer's input: the only tensor, or the first of a list. */
export const firstInput = (inputs: Tensor | Tensor[]): Tensor =>
  Array.isArray(inputs) ? inputs[0]! : inputs;

/** The prototype of a layer class that tfjs-layers does not export by its name. */
export function prototypeOf(tf: Tf, className: string): Prototype {
  const [layerClass] = tf.serialization.SerializationMap.getMap().classNameMap[className]!;
  return layerClass.prototype as Prototype;
}

/** Replaces `call` until the registry closes. `make` gets the original and returns the replacement. */
export function replaceCall(
  registry: KernelRegistry,
  own: Prototype,
  make: (stock: LayerCall) => LayerCall,
): void {
  // Finds the prototype that defines it: a model inherits `call` from a class that is not exported.
  let prototype = own;
  while (!Object.hasOwn(prototype, "call")) prototype = Object.getPrototypeOf(prototype) as Prototype;
  const stock = prototype.call;
  const replacement = make(stock);
  prototype.call = function (inputs, kwargs) {
    return (registry.tf.getBackend() === "wasm" ? replacement : stock).call(this, inputs, kwargs);
  };
  registry.onClose(() => {
    prototype.call = stock;
  });
}
