/**
 * kernels.wasm as functions: checks its hash and instantiates it on the memory of TensorFlow.js's wasm
 * backend, for one thread or several. Pointers are byte offsets in that memory; sizes are numbers of elements.
 * Does not know tensors.
 */
import { createHash } from "node:crypto";
import { isStemmaError, StemmaError } from "../../errors.js";
import { KernelThreads } from "./kernel-threads.js";
import { kernelsHash } from "./kernels-hash.js";
import { withSharedMemory } from "./shared-memory.js";

type Numbers<Count extends number, Found extends number[] = []> = Found["length"] extends Count
  ? Found
  : Numbers<Count, [...Found, number]>;
type Kernel<Count extends number> = (...args: Numbers<Count>) => void;

/** The exports of kernels.wasm with the number of their parameters; assembly/ documents each. */
export interface KernelModule {
  packPanels: Kernel<6>;
  matMulRows: Kernel<8>;
  matMulInPlace: Kernel<9>;
  matMulTransposed: Kernel<11>;
  convolveRows: Kernel<20>;
  convolutionFilterGradient: Kernel<23>;
  convolutionInputGradient: Kernel<20>;
  addBias: Kernel<4>;
  zero: Kernel<2>;
  foldedShift: Kernel<6>;
  matMulRowsShifted: Kernel<10>;
  convolveRowsShifted: Kernel<23>;
  depthwiseShifted: Kernel<22>;
  depthwise: Kernel<19>;
  depthwiseFilterGradient: Kernel<20>;
  depthwiseInputGradient: Kernel<19>;
  maxPool: Kernel<16>;
  averagePool: Kernel<16>;
  maxPoolGradient: Kernel<17>;
  segmentSumFloat: Kernel<6>;
  segmentSumInt: Kernel<6>;
  clip: Kernel<5>;
  reluGradient: Kernel<4>;
  relu6Gradient: Kernel<4>;
  clipGradient: Kernel<6>;
  rowsPerBlock: (columns: number) => number;
  sumRows: Kernel<7>;
  scaleColumns: Kernel<5>;
  batchNormBlocks: Kernel<6>;
  batchNormStatistics: Kernel<5>;
  batchNormFactor: Kernel<5>;
  batchNormApply: Kernel<8>;
  batchNormBlockSums: Kernel<11>;
  batchNormSums: Kernel<4>;
  batchNormCoefficients: Kernel<10>;
  batchNormGradient: Kernel<11>;
  resizeGradient: Kernel<9>;
  lstmStep: Kernel<12>;
  lstmStepGradient: Kernel<12>;
  gruGates: Kernel<10>;
  gruStep: Kernel<9>;
  gruStepGradient: Kernel<10>;
  gruGatesGradient: Kernel<10>;
  gruResetAfterStep: Kernel<11>;
  gruResetAfterStepGradient: Kernel<12>;
  sgdStep: Kernel<5>;
  momentumStep: Kernel<9>;
  adagradStep: Kernel<8>;
  rmsPropStep: Kernel<13>;
  rmsPropCentredStep: Kernel<15>;
  adamStep: Kernel<15>;
  allFinite: (pointer: number, count: number) => number;
}

export interface InstantiatedKernels {
  readonly kernels: KernelModule;
  readonly threads: KernelThreads;
}

/**
 * Instantiates the kernels on `memory`, for `threads` threads; for more than one, `memory` must be shared.
 * @throws ENGINE_HASH_MISMATCH when the bytes differ from the committed ones; BACKEND_UNAVAILABLE when they
 * do not compile on this machine
 */
export async function instantiateKernels(
  bytes: Uint8Array,
  memory: WebAssembly.Memory,
  threads = 1,
): Promise<InstantiatedKernels> {
  const actual = createHash("sha256").update(bytes).digest("hex");
  if (actual !== kernelsHash) {
    throw new StemmaError(
      "ENGINE_HASH_MISMATCH",
      `kernels.wasm has the SHA-256 ${actual}, not the expected ${kernelsHash}. Restore the file, or rebuild it with \`npm run kernels\`.`,
      { expected: kernelsHash, actual },
    );
  }
  try {
    const module = await WebAssembly.compile(threads > 1 ? withSharedMemory(bytes) : new Uint8Array(bytes));
    const instance = new WebAssembly.Instance(module, { env: { memory } });
    return {
      kernels: instance.exports as unknown as KernelModule,
      threads: await KernelThreads.start(threads, instance, { module, memory }),
    };
  } catch (cause) {
    if (isStemmaError(cause)) throw cause;
    throw new StemmaError(
      "BACKEND_UNAVAILABLE",
      "The training kernels do not run on this machine. Use a machine and a Node version with WebAssembly SIMD.",
      { cause },
    );
  }
}
