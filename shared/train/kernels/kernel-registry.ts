/**
 * What an operation's file needs to put its kernel in place: the backend's memory, scratch space, and
 * ways to register that remember how to undo. Knows no operation.
 */
import type * as TensorFlow from "@tensorflow/tfjs";
import type { KernelModule } from "./kernel-module.js";

export type Tf = typeof TensorFlow;
export type TensorInfo = TensorFlow.TensorInfo;
export type DataType = "float32" | "int32" | "bool";

/** The part of tfjs's BackendWasm that kernels use. */
export interface WasmBackend {
  readonly wasm: WasmModule;
  readonly dataIdMap: { get(dataId: object): { memoryOffset: number; id: number } };
  makeOutput(shape: readonly number[], dtype: string): TensorInfo;
  incRef(dataId: object): void;
  disposeData(dataId: object, force?: boolean): boolean;
  numDataIds(): number;
}

export interface WasmModule {
  HEAPU8: Uint8Array;
  _malloc(bytes: number): number;
  _free(pointer: number): void;
  readonly asm: { readonly memory: WebAssembly.Memory };
}

export type Attributes = Readonly<Record<string, unknown>>;
export interface KernelCall<Inputs extends Record<string, TensorInfo | undefined>, Attrs> {
  readonly inputs: Inputs;
  readonly backend: WasmBackend;
  readonly attrs: Attrs;
}
export type KernelFunction = (
  call: KernelCall<Record<string, TensorInfo>, Attributes>,
) => TensorInfo | TensorInfo[];

type GradientConfig = TensorFlow.GradConfig;

/** Registers kernels and gradients for the backend named wasm, and takes all of it back. */
export class KernelRegistry {
  readonly #undo: (() => void)[] = [];
  #scratch = 0;
  #scratchBytes = 0;

  constructor(
    readonly tf: Tf,
    readonly backend: WasmBackend,
    readonly kernels: KernelModule,
  ) {}

  /** Byte offset of a tensor's data. */
  pointer(info: TensorInfo): number {
    return this.backend.dataIdMap.get(info.dataId).memoryOffset;
  }

  /** Space for packed operands, valid until the next call. */
  scratch(bytes: number): number {
    if (bytes > this.#scratchBytes) {
      this.freeScratch();
      this.#scratch = this.backend.wasm._malloc(bytes) >>> 0;
      this.#scratchBytes = bytes;
    }
    return this.#scratch;
  }

  freeScratch(): void {
    if (this.#scratchBytes > 0) this.backend.wasm._free(this.#scratch);
    this.#scratch = 0;
    this.#scratchBytes = 0;
  }

  /** Puts a kernel of this name in place of the backend's own, if it has one. */
  kernel<Inputs extends Record<string, TensorInfo | undefined>, Attrs>(
    kernelName: string,
    kernelFunc: (call: KernelCall<Inputs, Attrs>) => TensorInfo | TensorInfo[],
  ): void {
    // the whole registration: its setup binds the kernel to the next backend's memory
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

  /** The kernel now registered under this name. */
  stockKernel(kernelName: string): KernelFunction | undefined {
    return this.tf.getKernel(kernelName, "wasm")?.kernelFunc as unknown as KernelFunction | undefined;
  }

  /**
   * Registers the gradient of an operation of our own (no other backend has its kernel), or one that
   * stands in for tfjs's while the wasm backend is the active one and leaves it alone elsewhere.
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

  /** Something else to take back on close. */
  onClose(undo: () => void): void {
    this.#undo.push(undo);
  }

  /** Takes back all registrations, newest first. */
  close(): void {
    for (const undo of this.#undo.splice(0).reverse()) undo();
    this.freeScratch();
  }
}
