/**
 * Gradients of Unpack and SplitV. tfjs passes the gradients of several outputs as a list, but the gradient of
 * a single output without a list. Its own gradients of these operations accept only a list, so a sequence of
 * one step could not be trained.
 */
import type { Tensor } from "@tensorflow/tfjs";
import type { KernelRegistry } from "./kernel-registry.js";

/** value [..., n, ...] unpacked along `axis`, x split along `axis`: the gradients are joined again. */
export function registerSplitGradients(registry: KernelRegistry): void {
  const { tf } = registry;
  const list = (dy: unknown): Tensor[] => [dy as Tensor | Tensor[]].flat();
  registry.gradient({
    kernelName: "Unpack",
    gradFunc: (dy, _saved, attrs) => ({
      value: () => tf.stack(list(dy), (attrs as unknown as { axis: number }).axis),
    }),
  });
  registry.gradient({
    kernelName: "SplitV",
    gradFunc: (dy, _saved, attrs) => ({
      x: () => tf.concat(list(dy), (attrs as unknown as { axis: number }).axis),
    }),
  });
}
