/**
 * Gradients of operations whose output is constant almost everywhere: comparisons and logic. tfjs has only
 * the gradient of GreaterEqual, so layers that mask by the other operations (Masking, ThresholdedReLU) cannot
 * be trained with it.
 */
import type { Tensor } from "@tensorflow/tfjs";
import type { KernelRegistry } from "./kernel-registry.js";

const binaryOperations = ["Greater", "Less", "LessEqual", "Equal", "NotEqual", "LogicalAnd", "LogicalOr"];
const unaryOperations = ["LogicalNot", "Any", "All"];

/** The gradients are zeros of the inputs' shapes. */
export function registerFlatGradients(registry: KernelRegistry): void {
  const { tf } = registry;
  const zeros = (x: Tensor | undefined): Tensor => tf.zeros(x!.shape);
  for (const kernelName of binaryOperations)
    registry.gradient({
      kernelName,
      inputsToSave: ["a", "b"],
      gradFunc: (_dy, [a, b]) => ({ a: () => zeros(a), b: () => zeros(b) }),
    });
  for (const kernelName of unaryOperations)
    registry.gradient({ kernelName, inputsToSave: ["x"], gradFunc: (_dy, [x]) => ({ x: () => zeros(x) }) });
}
