/**
 * Starts TensorFlow.js on a linked libtensorflow, in the native runner's process.
 */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import * as tensorFlow from "@tensorflow/tfjs";
import { NodeJSKernelBackend } from "@tensorflow/tfjs-node-gpu/dist/nodejs_kernel_backend.js";
import "@tensorflow/tfjs-node-gpu/dist/register_all_kernels.js";
import { messageOf } from "../../error-text.js";
import { StemmaError } from "../../errors.js";
import type { StartedBackend } from "../backends/wasm.js";
import type { Tf } from "../kernels/kernel-registry.js";
import { guardKernels, requireMemory } from "./guard-kernels.js";
import { bindingPath, nativeVariables, type RunnerManifest } from "./native-class.js";
import { registerNativeGradients, refuseMissing } from "./native-gradients.js";

export interface NativeOptions {
  /** The linked folder: binding, libraries and engine.json. */
  readonly folder: string;
  /** Number of threads that may be used; undefined: those that it was linked for. */
  readonly threads?: number | undefined;
  /** Limit in MiB for tensors; the process has one of its own. */
  readonly memoryLimitMb?: number | undefined;
}

export const backendName = "tensorflow";

export async function readManifest(folder: string): Promise<RunnerManifest> {
  return JSON.parse(await readFile(join(folder, "engine.json"), "utf8")) as RunnerManifest;
}

/** The binding: one for a process, which keeps a library for ever. */
let loaded: object | undefined;

/**
 * Makes the linked library the backend of this process's TensorFlow.js.
 * @throws BACKEND_UNAVAILABLE where it was linked for another number of threads, or the library cannot be loaded
 */
export async function startNativeBackend(options: NativeOptions): Promise<StartedBackend> {
  const { threads } = (await readManifest(options.folder)).class;
  if (options.threads !== undefined && options.threads !== threads)
    throw new StemmaError(
      "BACKEND_UNAVAILABLE",
      `The native backend was linked for ${threads} threads, and ${options.threads} can be used here now. Its bits depend on that: link it again (stemma agent backend link).`,
      { threads },
    );
  Object.assign(process.env, nativeVariables(threads));
  const tf: Tf = tensorFlow;
  loaded ??= loadBinding(join(options.folder, bindingPath));
  if (tf.findBackendFactory(backendName)) tf.removeBackend(backendName);
  const { memoryLimitMb = Infinity } = options;
  const backend = new NodeJSKernelBackend(loaded as never, "@tensorflow/tfjs-node-gpu");
  const write = backend.write.bind(backend);
  backend.write = (values, shape, dtype) => {
    requireMemory(tf, 4 * shape.reduce((a, b) => a * b, 1), memoryLimitMb);
    return write(values, shape, dtype);
  };
  // Its types name another copy of those of TensorFlow.js.
  tf.registerBackend(backendName, () => backend, 3);
  await tf.setBackend(backendName);
  const undo = [
    ...guardKernels(tf, backendName, memoryLimitMb),
    ...registerNativeGradients(tf),
    ...refuseMissing(tf, backendName),
  ];
  return {
    tf,
    allocatedBytes: () => tf.memory().numBytes,
    close: () => {
      for (const undoStep of undo.reverse()) undoStep();
      tf.removeBackend(backendName);
    },
  };
}

function loadBinding(path: string): object {
  try {
    return createRequire(import.meta.url)(path) as object;
  } catch (cause) {
    throw new StemmaError(
      "BACKEND_UNAVAILABLE",
      `The linked libtensorflow cannot be loaded: ${messageOf(cause)}. \`stemma agent backend check\` says more.`,
      { cause },
    );
  }
}
