/**
 * The default training backend: TensorFlow.js on WebAssembly with SIMD and Stemma's kernels. Starts it,
 * registers the kernels, guards its memory, and undoes all of that on close. Works from the build folder and
 * from an esbuild bundle with the two wasm files next to it. Does not know models or the training loop.
 */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import * as tensorFlow from "@tensorflow/tfjs";
import { BackendWasm, setThreadsCount } from "@tensorflow/tfjs-backend-wasm";
import startModule from "@tensorflow/tfjs-backend-wasm/wasm-out/tfjs-backend-wasm.js";
import { isStemmaError, StemmaError } from "../../errors.js";
import { instantiateKernels } from "../kernels/kernel-module.js";
import { KernelRegistry, type Tf, type WasmBackend, type WasmModule } from "../kernels/kernel-registry.js";
import { withSharedMemory } from "../kernels/shared-memory.js";
import { registerRefusals } from "../kernels/refusals.js";
import { registerFusedKernels, registerMissingKernels } from "../kernels/register.js";
import { registerFoldedLayers } from "./folded-layers.js";
import { registerFusedLayers } from "./fused-layers.js";
import { registerFusedRecurrent } from "./fused-recurrent.js";
import { guardMemory } from "./memory-guard.js";

/** Names of the two wasm files in an engine's folder. */
export const wasmFiles = { backend: "tfjs-backend-wasm-simd.wasm", kernels: "kernels.wasm" } as const;

interface WasmBinaries {
  readonly backend: Uint8Array;
  readonly kernels: Uint8Array;
}

interface WasmBackendOptions {
  /** Default 1. The bits are the same with every number. */
  readonly threads?: number | undefined;
  /** Limit in MiB for tensors and scratch memory together; absent: what WebAssembly can address. */
  readonly memoryLimitMb?: number | undefined;
  /**
   * Default true. False registers only the kernels that tfjs lacks or computes wrongly, for comparison with
   * tfjs's own.
   */
  readonly fused?: boolean;
  /**
   * Folder of both wasmFiles. Absent: next to this file (in a bundle), else where npm and the build put them.
   */
  readonly folder?: string;
  /** The contents of both files, instead of a folder. */
  readonly binaries?: WasmBinaries;
}

export interface StartedBackend {
  readonly tf: Tf;
  /** Bytes allocated for tensors and scratch memory now. */
  readonly allocatedBytes: () => number;
  /** Removes backend, kernels and gradients; all tensors are invalid afterwards. */
  readonly close: () => void;
}

let running = false;

/**
 * Makes wasm the backend of this process's TensorFlow.js. Only one can run at a time.
 * @throws BACKEND_UNAVAILABLE when one runs already, or a wasm file or SIMD is missing; ENGINE_HASH_MISMATCH
 * when kernels.wasm differs from the committed one
 */
export async function startWasmBackend(options: WasmBackendOptions = {}): Promise<StartedBackend> {
  if (running)
    throw new StemmaError(
      "BACKEND_UNAVAILABLE",
      "The wasm backend is already running in this process. Close it first, or use another process.",
    );
  running = true;
  const tf: Tf = tensorFlow;
  const undo: (() => void)[] = [
    () => {
      running = false;
    },
  ];
  const close = (): void => {
    for (const undoStep of undo.splice(0).reverse()) undoStep();
  };
  try {
    const binaries = options.binaries ?? (await loadBinaries(options.folder));
    const threads = options.threads ?? 1;
    // Stemma's kernels alone run on several threads: they take nearly all of a training, and TensorFlow.js's
    // own threads would not give the same bits for every number of them.
    const module = await startTensorFlowModule(
      threads > 1 ? withSharedMemory(binaries.backend) : binaries.backend,
    );
    const guard = guardMemory(
      module,
      options.memoryLimitMb === undefined ? undefined : options.memoryLimitMb * 2 ** 20,
    );
    setThreadsCount(1);
    if (tf.findBackendFactory("wasm")) tf.removeBackend("wasm");
    tf.registerBackend("wasm", () => new BackendWasm(module as never), 2);
    undo.push(() => {
      keepListeners(() => tf.removeBackend("wasm"));
      guard.remove();
    });
    await tf.setBackend("wasm");
    const backend = tf.backend() as unknown as WasmBackend;
    const instantiated = await instantiateKernels(binaries.kernels, module.asm.memory, threads);
    undo.push(() => instantiated.threads.close());
    const registry = new KernelRegistry(tf, backend, instantiated);
    undo.push(() => registry.close());
    registerMissingKernels(registry);
    if (options.fused ?? true) {
      registerFusedKernels(registry);
      registerFusedLayers(registry);
      registerFoldedLayers(registry);
      registerFusedRecurrent(registry);
    }
    registerRefusals(registry);
    return { tf, allocatedBytes: guard.allocatedBytes, close };
  } catch (error) {
    close();
    throw isStemmaError(error)
      ? error
      : new StemmaError(
          "BACKEND_UNAVAILABLE",
          "The wasm backend did not start. It needs WebAssembly with SIMD and its two wasm files; check both.",
          { cause: error },
        );
  }
}

/**
 * Reads both wasm files: from `folder`, else next to this file, else from where npm and the build put them.
 */
async function loadBinaries(folder?: string): Promise<WasmBinaries> {
  const beside = (name: string): string =>
    folder === undefined ? fileURLToPath(new URL(name, import.meta.url)) : `${folder}/${name}`;
  try {
    return {
      backend: await readFile(beside(wasmFiles.backend)),
      kernels: await readFile(beside(wasmFiles.kernels)),
    };
  } catch (cause) {
    if (folder !== undefined)
      throw new StemmaError(
        "BACKEND_UNAVAILABLE",
        `The engine in ${folder} lacks ${wasmFiles.backend} or ${wasmFiles.kernels}. Fetch or build it again.`,
        { cause },
      );
  }
  const installed = createRequire(import.meta.url).resolve(
    `@tensorflow/tfjs-backend-wasm/wasm-out/${wasmFiles.backend}`,
  );
  return {
    backend: await readFile(installed),
    kernels: await readFile(new URL(`../kernels/${wasmFiles.kernels}`, import.meta.url)),
  };
}

const processEvents = ["uncaughtException", "unhandledRejection"] as const;

/**
 * Runs `work` and restores the process's error handlers afterwards: tfjs's start code adds handlers that hide
 * errors, and its shutdown removes all handlers of the process.
 */
function keepListeners<Result>(work: () => Result): Result {
  const before = processEvents.map((event) => process.listeners(event as "uncaughtException"));
  try {
    return work();
  } finally {
    processEvents.forEach((event, i) => {
      process.removeAllListeners(event);
      for (const listener of before[i]!) process.on(event, listener);
    });
  }
}

/** Runs tfjs's start code on the given bytes, and binds the functions that BackendWasm calls. */
async function startTensorFlowModule(wasmBinary: Uint8Array): Promise<WasmModule> {
  const starting = keepListeners(() => startModule({ wasmBinary, print: () => {}, printErr: () => {} }));
  const module = await starting;
  const wrap = (name: string, returns: "number" | null, count: number): unknown =>
    module.cwrap(name, returns, Array<"number">(count).fill("number"));
  module.tfjs = {
    init: wrap("init", null, 0),
    initWithThreadsCount: wrap("init_with_threads_count", null, 1),
    getThreadsCount: wrap("get_threads_count", "number", 0),
    registerTensor: wrap("register_tensor", null, 3),
    disposeData: wrap("dispose_data", null, 1),
    dispose: wrap("dispose", null, 0),
  };
  return module;
}
