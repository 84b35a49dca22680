/**
 * What cannot be computed or differentiated here says so by name, in a typed error, instead of tfjs's
 * untyped one. Registered last: only what nobody has.
 */
import { StemmaError } from "../../errors.js";
import type { KernelRegistry } from "./kernel-registry.js";

/**
 * Registers a refusal for every operation of TensorFlow.js without a kernel on wasm, and for every one
 * without a gradient.
 */
export function registerRefusals(room: KernelRegistry): void {
  const { tf } = room;
  for (const name of operationNames(tf)) {
    if (!tf.getKernel(name, "wasm")) {
      room.kernel(name, () => {
        throw new StemmaError(
          "OPERATION_MISSING",
          `the wasm backend has no operation ${name}: use a layer that does without it`,
          { operation: name },
        );
      });
    }
    if (!tf.getGradient(name)) {
      room.gradient({
        kernelName: name,
        gradFunc: () => {
          throw new StemmaError(
            "OPERATION_MISSING",
            `the operation ${name} has no gradient: freeze the layers before it, or use a layer that does without it`,
            { operation: name },
          );
        },
      });
    }
  }
}

/** TensorFlow.js exports each operation's name as a constant: `tf.Einsum` is "Einsum". */
function operationNames(tf: object): string[] {
  return Object.entries(tf).flatMap(([key, value]) =>
    /^[A-Z_]/.test(key) && typeof value === "string" ? [value] : [],
  );
}
