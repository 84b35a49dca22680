/**
 * Gradients of operations that are flat everywhere: comparisons and logic. tfjs has that of
 * GreaterEqual only, so layers that mask by the others (Masking, ThresholdedReLU) cannot be trained.
 */
import type { Tensor } from "@tensorflow/tfjs";
import type { KernelRegistry } from "./kernel-registry.js";

const ofTwo = ["Greater", "Less", "LessEqual", "Equal", "NotEqual", "LogicalAnd", "LogicalOr"];
const ofOne = ["LogicalNot", "Any", "All"];

/** Zeros of the inputs' shapes. */
export function registerFlatGradients(room: KernelRegistry): void {
  const { tf } = room;
  const zeros = (x: Tensor | undefined): Tensor => tf.zeros(x!.shape);
  for (const kernelName of ofTwo)
    room.gradient({
      kernelName,
      inputsToSave: ["a", "b"],
      gradFunc: (_dy, [a, b]) => ({ a: () => zeros(a), b: () => zeros(b) }),
    });
  for (const kernelName of ofOne)
    room.gradient({ kernelName, inputsToSave: ["x"], gradFunc: (_dy, [x]) => ({ x: () => zeros(x) }) });
}
