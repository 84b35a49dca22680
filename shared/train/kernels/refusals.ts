/**
 * Typed errors for operations that cannot be computed or differentiated here, instead of tfjs's untyped ones.
 * Registered last, so that only operations without any kernel or gradient get one.
 */
import { StemmaError } from "../../errors.js";
import type { KernelRegistry } from "./kernel-registry.js";

/**
 * Registers a kernel that throws OPERATION_MISSING for every operation of TensorFlow.js without a kernel on
 * wasm, and a gradient that throws it for every one without a gradient.
 */
export function registerRefusals(registry: KernelRegistry): void {
  const { tf } = registry;
  for (const name of operationNames(tf)) {
    if (!tf.getKernel(name, "wasm")) {
      registry.kernel(name, () => {
        throw new StemmaError(
          "OPERATION_MISSING",
          `The wasm backend has no kernel for the operation ${name}. Use a layer that does not need it.`,
          { operation: name },
        );
      });
    }
    if (!tf.getGradient(name)) {
      registry.gradient({
        kernelName: name,
        gradFunc: () => {
          throw new StemmaError(
            "OPERATION_MISSING",
            `The operation ${name} has no gradient. Freeze the layers before it, or use a layer that does not need it.`,
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
