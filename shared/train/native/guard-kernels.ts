/**
 * Makes the kernels of the native backend fail with typed errors that name the operation: at a limit for tensors, where
 * the library has no memory left, and where it lacks an operation or a form of it that can be repeated.
 */
import { messageOf } from "../../error-text.js";
import { isStemmaError, StemmaError } from "../../errors.js";
import type { Tf } from "../kernels/kernel-registry.js";

type Undo = () => void;

/** The status by which TensorFlow reports that it has no memory left (tensorflow/c/tf_status.h). */
const resourceExhausted = 8;

/** Wraps every kernel of a backend. @param limitMb limit for the tensors' memory, in MiB */
export function guardKernels(tf: Tf, backendName: string, limitMb = Infinity): Undo[] {
  return tf.getKernelsForBackend(backendName).map((stock) => {
    const { kernelName, kernelFunc } = stock;
    tf.unregisterKernel(kernelName, backendName);
    tf.registerKernel({
      ...stock,
      kernelFunc: (call) => {
        requireMemory(tf, 0, limitMb);
        try {
          return kernelFunc(call);
        } catch (error) {
          throw typedFailure(kernelName, error);
        }
      },
    });
    return () => {
      tf.unregisterKernel(kernelName, backendName);
      tf.registerKernel(stock);
    };
  });
}

/** @param bytes what is needed beside what the tensors have. @throws MEMORY_EXHAUSTED */
export function requireMemory(tf: Tf, bytes: number, limitMb: number): void {
  const allocated = tf.memory().numBytes;
  if (allocated + bytes <= limitMb * 2 ** 20) return;
  throw new StemmaError(
    "MEMORY_EXHAUSTED",
    `The training needs ${((allocated + bytes) / 2 ** 20).toFixed(1)} MiB for its tensors, which exceeds the limit of ${limitMb} MiB. Train with a smaller batch, a smaller model, or a higher memory limit in the profile.`,
    { bytes, allocated },
  );
}

/** An error of the library, or of its binding, as one of Stemma's. */
export function typedFailure(operation: string, cause: unknown): unknown {
  if (isStemmaError(cause)) return cause;
  const message = messageOf(cause);
  const why = message.replaceAll(/\s*\n\s*/g, "; ").slice(0, 300);
  if (Number(/TF_Status: (\d+)/.exec(message)?.[1]) === resourceExhausted)
    return new StemmaError(
      "MEMORY_EXHAUSTED",
      `The library has no memory for the operation ${operation} (${why}). Train with a smaller batch or a smaller model.`,
      { operation, cause },
    );
  return new StemmaError(
    "OPERATION_MISSING",
    `The native backend cannot compute the operation ${operation} here, or not in a way that can be repeated (${why}). Train on wasm, or use a layer that does not need it.`,
    { operation, cause },
  );
}
