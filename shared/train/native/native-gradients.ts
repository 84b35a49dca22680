/**
 * Registers on the native backend the gradients that TensorFlow.js lacks or gets wrong on every backend, and typed
 * errors for operations that it cannot compute, differentiate or seed.
 */
import type { GradConfig } from "@tensorflow/tfjs";
import { StemmaError } from "../../errors.js";
import { registerEinsum } from "../kernels/einsum.js";
import type { KernelRegistry, Tf } from "../kernels/kernel-registry.js";
import { registerFlatGradients } from "../kernels/flat-gradients.js";
import { registerSplitGradients } from "../kernels/split-gradients.js";

type Undo = () => void;

/** Gradients that ../kernels has for wasm and that are made of operations alone. */
export function registerNativeGradients(tf: Tf): Undo[] {
  const undo: Undo[] = [];
  const registry = {
    tf,
    kernel: () => {},
    gradient: (config: GradConfig) => {
      undo.push(replaceGradient(tf, config));
    },
  } as unknown as KernelRegistry;
  registerFlatGradients(registry);
  registerSplitGradients(registry);
  registerEinsum(registry);
  return undo;
}

function replaceGradient(tf: Tf, config: GradConfig): Undo {
  const { kernelName } = config;
  const stock = tf.getGradient(kernelName) as GradConfig | undefined;
  if (stock) tf.unregisterGradient(kernelName);
  tf.registerGradient({ ...stock, ...config });
  return () => {
    tf.unregisterGradient(kernelName);
    if (stock) tf.registerGradient(stock);
  };
}

/** Operations that draw random numbers from the library's own generators, which no seed of a training reaches. */
const unseeded = ["Multinomial"];

/** @returns what undoes it. The kernels and gradients throw OPERATION_MISSING and name the operation */
export function refuseMissing(tf: Tf, backendName: string): Undo[] {
  const names = Object.entries(tf).flatMap(([key, value]: [string, unknown]) =>
    /^[A-Z_]/.test(key) && typeof value === "string" ? [value] : [],
  );
  return names.flatMap((name) => {
    const refuse = (text: string) => (): never => {
      throw new StemmaError("OPERATION_MISSING", text, { operation: name });
    };
    const undo: Undo[] = [];
    const stock = tf.getKernel(name, backendName) as ReturnType<Tf["getKernel"]> | undefined;
    if (stock === undefined || unseeded.includes(name)) {
      if (stock) tf.unregisterKernel(name, backendName);
      tf.registerKernel({
        kernelName: name,
        backendName,
        kernelFunc: refuse(
          stock === undefined
            ? `The native backend has no kernel for the operation ${name}. Train on wasm, or use a layer that does not need it.`
            : `The operation ${name} draws random numbers that do not come from the training's seed. Train on wasm, or use a layer that does not need it.`,
        ),
      });
      undo.push(() => {
        tf.unregisterKernel(name, backendName);
        if (stock) tf.registerKernel(stock);
      });
    }
    if ((tf.getGradient(name) as GradConfig | undefined) === undefined) {
      tf.registerGradient({
        kernelName: name,
        gradFunc: refuse(
          `The operation ${name} has no gradient. Freeze the layers before it, or use a layer that does not need it.`,
        ),
      });
      undo.push(() => {
        tf.unregisterGradient(name);
      });
    }
    return undo;
  });
}
