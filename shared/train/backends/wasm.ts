/**
 * The default training backend: TensorFlow.js on WebAssembly with SIMD and Stemma's kernels. Starts it,
 * registers, guards, and takes everything back on close. Works from the build folder and from an
 * esbuild bundle with the two wasm files beside it. Knows no models and no training loop.
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
import { registerRefusals } from "../kernels/refusals.js";
import { registerFusedKernels, registerMissingKernels } from "../kernels/register.js";
import { registerFusedLayers } from "./fused-layers.js";
import { registerFusedRecurrent } from "./fused-recurrent.js";
import { guardMemory } from "./memory-guard.js";

/** Names of the two binaries in an engine's folder. */
export const wasmFiles = { backend: "tfjs-backend-wasm-simd.wasm", kernels: "kernels.wasm" } as const;

export interface WasmBinaries {
  readonly backend: Uint8Array;
  readonly kernels: Uint8Array;
}

export interface WasmBackendOptions {
  /** One thread is the only count that is offered: it gives the same bits everywhere. */
  readonly threads?: 1;
  /** Tensors and scratch together may take this many MiB; absent: what WebAssembly can address. */
  readonly memoryLimitMb?: number;
  /**
   * false: tfjs's own gradients, and of our kernels only those that tfjs lacks or gets wrong (to measure
   * against). Default true.
   */
  readonly fused?: boolean;
  /**
   * Folder that holds both wasmFiles; absent: beside this file (a bundle), else where they are installed and
   * built.
   */
  readonly folder?: string;
  /** The binaries themselves, instead of a folder. */
  readonly binaries?: WasmBinaries;
}

export interface StartedBackend {
  readonly tf: Tf;
  /** Bytes now allocated for tensors and scratch. */
  readonly allocatedBytes: () => number;
  /** Takes back backend, kernels and gradients; all tensors are gone afterwards. */
  close(): void;
}

let running = false;

/**
 * Makes wasm the backend of this process's TensorFlow.js. One at a time.
 * @throws BACKEND_UNAVAILABLE when it is running already, a file is missing or SIMD is; ENGINE_HASH_MISMATCH
 * when kernels.wasm is not the committed one.
 */
export async function startWasmBackend(options: WasmBackendOptions = {}): Promise<StartedBackend> {
  if (running)
    throw new StemmaError(
      "BACKEND_UNAVAILABLE",
      "the wasm backend is already running in this process: close it first, or use another process",
    );
  running = true;
  const tf: Tf = tensorFlow;
  const undo: (() => void)[] = [
    () => {
      running = false;
    },
  ];
  const close = (): void => {
    for (const step of undo.splice(0).reverse()) step();
  };
  try {
    const binaries = options.binaries ?? (await loadBinaries(options.folder));
    const module = await startTensorFlowModule(binaries.backend);
    const guard = guardMemory(
      module,
      options.memoryLimitMb === undefined ? undefined : options.memoryLimitMb * 2 ** 20,
    );
    setThreadsCount(options.threads ?? 1);
    if (tf.findBackendFactory("wasm")) tf.removeBackend("wasm");
    tf.registerBackend("wasm", () => new BackendWasm(module as never), 2);
    undo.push(() => {
      keepListeners(() => tf.removeBackend("wasm"));
      guard.remove();
    });
    await tf.setBackend("wasm");
    const backend = tf.backend() as unknown as WasmBackend;
    const room = new KernelRegistry(
      tf,
      backend,
      await instantiateKernels(binaries.kernels, module.asm.memory),
    );
    undo.push(() => room.close());
    registerMissingKernels(room);
    if (options.fused ?? true) {
      registerFusedKernels(room);
      registerFusedLayers(room);
      registerFusedRecurrent(room);
    }
    registerRefusals(room);
    return { tf, allocatedBytes: guard.allocatedBytes, close };
  } catch (error) {
    close();
    throw isStemmaError(error)
      ? error
      : new StemmaError(
          "BACKEND_UNAVAILABLE",
          "the wasm backend did not start: it needs WebAssembly with SIMD and its two wasm files",
          { cause: error },
        );
  }
}

/** Reads both binaries: from `folder`, else beside this file, else from where development has them. */
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
        `${folder} lacks ${wasmFiles.backend} or ${wasmFiles.kernels}: the engine is incomplete, fetch it again`,
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
 * tfjs's start code hangs handlers on the process that hide errors, and its end takes off everybody's:
 * neither lasts.
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

/** Runs tfjs's own start code on bytes that we chose. */
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
