/**
 * Gradients of taking a tensor apart. tfjs gives a gradient of several outputs their list, of one output
 * that one alone, and forgets the second case here: a series of one step could not be trained.
 */
import type { Tensor } from "@tensorflow/tfjs";
import type { KernelRegistry } from "./kernel-registry.js";

export function registerSplitGradients(room: KernelRegistry): void {
  const { tf } = room;
  const list = (dy: unknown): Tensor[] => [dy as Tensor | Tensor[]].flat();
  room.gradient({
    kernelName: "Unpack",
    gradFunc: (dy, _saved, attrs) => ({
      value: () => tf.stack(list(dy), (attrs as unknown as { axis: number }).axis),
    }),
  });
  room.gradient({
    kernelName: "SplitV",
    gradFunc: (dy, _saved, attrs) => ({
      x: () => tf.concat(list(dy), (attrs as unknown as { axis: number }).axis),
    }),
  });
}
