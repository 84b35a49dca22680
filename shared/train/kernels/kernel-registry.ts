/**
 * Registers kernels and gradients with TensorFlow.js's wasm backend and undoes that on close. Gives kernels
 * the backend's memory and scratch space. Does not know any operation.
 */
import type * as TensorFlow from "@tensorflow/tfjs";
import type { InstantiatedKernels, KernelModule } from "./kernel-module.js";
import { maxParts, type KernelThreads } from "./kernel-threads.js";

export type Tf = typeof TensorFlow;
export type TensorInfo = TensorFlow.TensorInfo;

/** The part of tfjs's BackendWasm that kernels use. */
export interface WasmBackend {
  readonly wasm: WasmModule;
  readonly dataIdMap: { get(dataId: object): { memoryOffset: number; id: number } };
  makeOutput(shape: readonly number[], dtype: string): TensorInfo;
  incRef(dataId: object): void;
  disposeData(dataId: object, force?: boolean): boolean;
}

export interface WasmModule {
  HEAPU8: Uint8Array;
  _malloc: (bytes: number) => number;
  _free: (pointer: number) => void;
  readonly asm: { readonly memory: WebAssembly.Memory };
}

export type Attributes = Readonly<Record<string, unknown>>;
interface KernelCall<Inputs extends Record<string, TensorInfo | undefined>, Attrs> {
  readonly inputs: Inputs;
  readonly backend: WasmBackend;
  readonly attrs: Attrs;
}
export type KernelFunction = (
  call: KernelCall<Record<string, TensorInfo>, Attributes>,
) => TensorInfo | TensorInfo[];

type GradientConfig = TensorFlow.GradConfig;

/** Memory that each thread has of its own during a call: where that of the first begins, and bytes of each. */
export interface ThreadScratch {
  readonly scratch: number;
  readonly scratchBytes: number;
}
const noScratch: ThreadScratch = { scratch: 0, scratchBytes: 0 };
/** A cache line of most processors, so that no two threads write the same one. */
const scratchAlignment = 64;

interface Cutting {
  readonly multipleOf?: number;
  readonly work: number;
  /** Most ranges, where each one costs something of its own. */
  readonly most?: number;
}
/** Multiplications and additions that take about as long as waking up a thread (some 50 microseconds). */
const minWork = 500_000;
const partsPerThread = 4;

/** Registers kernels and gradients for the backend named "wasm"; `close` restores what was there before. */
export class KernelRegistry {
  readonly kernels: KernelModule;
  readonly #threads: KernelThreads;
  readonly #undo: (() => void)[] = [];
  #scratch = 0;
  #scratchBytes = 0;

  constructor(
    readonly tf: Tf,
    readonly backend: WasmBackend,
    { kernels, threads }: InstantiatedKernels,
  ) {
    this.kernels = kernels;
    this.#threads = threads;
  }

  get threads(): number {
    return this.#threads.count;
  }

  /**
   * Runs calls of one kernel that do not depend on each other, on all threads; `scratch` is given to those kernels
   * whose first parameter is memory of their own.
   */
  run(
    kernel: keyof KernelModule,
    parts: readonly (readonly number[])[],
    { scratch, scratchBytes }: ThreadScratch = noScratch,
  ): void {
    this.#threads.run({ kernel, parts, scratch, scratchBytes });
  }

  /**
   * Cuts [0, total) into ranges for `run`: multiples of `multipleOf` but for the last one, each worth waking up a
   * thread, and enough of them that no thread waits long for another.
   * @param work multiplications and additions of one of `total`, or loads and stores where these cost more
   */
  cut(total: number, { multipleOf = 1, work, most = maxParts }: Cutting): [first: number, count: number][] {
    const parts = Math.min(
      most,
      this.threads * partsPerThread,
      Math.floor((total * work) / minWork),
      Math.ceil(total / multipleOf),
    );
    const isWorthIt = this.threads > 1 && parts > 1;
    const size = isWorthIt ? Math.ceil(total / parts / multipleOf) * multipleOf : total;
    const ranges: [number, number][] = [];
    for (let first = 0; first < total; first += size) ranges.push([first, Math.min(size, total - first)]);
    return ranges;
  }

  /** Memory of `shared` bytes, and of `perThread` bytes for each thread; valid until the next call. */
  scratchForThreads(shared: number, perThread: number): { shared: number } & ThreadScratch {
    const aligned = Math.ceil(shared / scratchAlignment) * scratchAlignment;
    const scratchBytes = Math.ceil(perThread / scratchAlignment) * scratchAlignment;
    const first = this.scratch(aligned + scratchBytes * this.threads);
    return { shared: first, scratch: first + aligned, scratchBytes };
  }

  /** Byte offset of a tensor's data. */
  pointer(info: TensorInfo): number {
    return this.backend.dataIdMap.get(info.dataId).memoryOffset;
  }

  /** Memory of at least `bytes` bytes for packed operands; valid until the next call. */
  scratch(bytes: number): number {
    if (bytes > this.#scratchBytes) {
      this.#freeScratch();
      this.#scratch = this.backend.wasm._malloc(bytes) >>> 0;
      this.#scratchBytes = bytes;
    }
    return this.#scratch;
  }

  #freeScratch(): void {
    if (this.#scratchBytes > 0) this.backend.wasm._free(this.#scratch);
    this.#scratch = 0;
    this.#scratchBytes = 0;
  }

  /** Registers a kernel under this name; replaces the backend's own where it has one. */
  kernel<Inputs extends Record<string, TensorInfo | undefined>, Attrs>(
    kernelName: string,
    kernelFunc: (call: KernelCall<Inputs, Attrs>) => TensorInfo | TensorInfo[],
  ): void {
    // Keeps the complete registration: its setup function binds the kernel to the next backend's memory.
    const stock = this.tf.getKernel(kernelName, "wasm") as TensorFlow.KernelConfig | undefined;
    if (stock) this.tf.unregisterKernel(kernelName, "wasm");
    this.tf.registerKernel({
      kernelName,
      backendName: "wasm",
      kernelFunc: kernelFunc as unknown as TensorFlow.KernelFunc,
    });
    this.#undo.push(() => {
      this.tf.unregisterKernel(kernelName, "wasm");
      if (stock) this.tf.registerKernel(stock);
    });
  }

  /** The kernel that is registered under this name now. */
  stockKernel(kernelName: string): KernelFunction | undefined {
    return this.tf.getKernel(kernelName, "wasm")?.kernelFunc as unknown as KernelFunction | undefined;
  }

  /**
   * Registers the gradient of an operation. Where tfjs has a gradient for it, this one applies while the wasm
   * backend is active, and tfjs's own on other backends.
   */
  gradient(config: GradientConfig): void {
    const { kernelName } = config;
    const stock = this.tf.getGradient(kernelName) as GradientConfig | undefined;
    const gradFunc: GradientConfig["gradFunc"] = (dy, saved, attrs) =>
      (stock && this.tf.getBackend() !== "wasm" ? stock : config).gradFunc(dy, saved, attrs);
    if (stock) this.tf.unregisterGradient(kernelName);
    this.tf.registerGradient({ ...stock, ...config, gradFunc });
    this.#undo.push(() => {
      this.tf.unregisterGradient(kernelName);
      if (stock) this.tf.registerGradient(stock);
    });
  }

  /** Adds another function that `close` calls. */
  onClose(undo: () => void): void {
    this.#undo.push(undo);
  }

  /** Undoes all registrations, newest first, and frees the scratch memory. */
  close(): void {
    for (const undo of this.#undo.splice(0).reverse()) undo();
    this.#freeScratch();
  }
}
