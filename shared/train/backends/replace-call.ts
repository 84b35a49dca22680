/** How a layer class of tfjs-layers gets another `call` while the wasm backend is the active one. */
import type { LayersModel, Tensor } from "@tensorflow/tfjs";
import type { KernelRegistry, Tf } from "../kernels/kernel-registry.js";

export type Layer = LayersModel["layers"][number];
/** tfjs-layers' holder of a weight. */
export interface Variable {
  read(): Tensor;
  write(value: Tensor): unknown;
}
export type LayerCall = (
  this: Layer,
  inputs: Tensor | Tensor[],
  kwargs: { training?: boolean },
) => Tensor | Tensor[];
export type Prototype = Layer & { call: LayerCall };

/** The only tensor, or the first. */
export const only = (inputs: Tensor | Tensor[]): Tensor => (Array.isArray(inputs) ? inputs[0]! : inputs);

/** Of a class that is not exported by its name. */
export function prototypeOf(tf: Tf, className: string): Prototype {
  return tf.serialization.SerializationMap.getMap().classNameMap[className]![0].prototype;
}

/** Until the room closes. `make` gets what was there. */
export function replaceCall(
  room: KernelRegistry,
  own: Prototype,
  make: (stock: LayerCall) => LayerCall,
): void {
  // the prototype that defines it: a model inherits its from a class that is not exported
  let prototype = own;
  while (!Object.hasOwn(prototype, "call")) prototype = Object.getPrototypeOf(prototype) as Prototype;
  const stock = prototype.call;
  const ours = make(stock);
  prototype.call = function (inputs, kwargs) {
    return (room.tf.getBackend() === "wasm" ? ours : stock).call(this, inputs, kwargs);
  };
  room.onClose(() => {
    prototype.call = stock;
  });
}
