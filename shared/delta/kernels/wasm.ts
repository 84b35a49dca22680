/** delta.wasm on a memory of its own: checks its hash, instantiates it, grows its memory on demand. */
import { createHash } from "node:crypto";
import { StemmaError } from "../../errors.js";
import { deltaHash } from "./delta-hash.js";
import { heapOf, type DeltaKernels, type Heap, type KernelFunctions } from "./kernels.js";

const pageBytes = 65_536;

/**
 * @param bytes delta.wasm
 * @throws ENGINE_HASH_MISMATCH when the bytes are not the committed ones; BACKEND_UNAVAILABLE when they do
 * not run here
 */
export async function wasmKernels(bytes: Uint8Array): Promise<DeltaKernels> {
  const actual = createHash("sha256").update(bytes).digest("hex");
  if (actual !== deltaHash)
    throw new StemmaError(
      "ENGINE_HASH_MISMATCH",
      `The delta codec cannot be loaded: delta.wasm has the SHA-256 ${actual} and not ${deltaHash}. Restore the file, or rebuild it with \`npm run kernels\`.`,
      { expected: deltaHash, actual },
    );
  const memory = new WebAssembly.Memory({ initial: 16 });
  let functions: KernelFunctions;
  try {
    const { instance } = await WebAssembly.instantiate(bytes, { env: { memory } });
    functions = instance.exports as unknown as KernelFunctions;
  } catch (cause) {
    throw new StemmaError(
      "BACKEND_UNAVAILABLE",
      "The WebAssembly kernels of the delta codec do not run on this machine, because they need SIMD. Use the TypeScript kernels (plainKernels), which give the same bytes.",
      { cause },
    );
  }
  let heap = heapOf(memory.buffer);
  const reserve = (bytesNeeded: number): Heap => {
    if (bytesNeeded > heap.u8.length) {
      memory.grow(Math.ceil((bytesNeeded - heap.u8.length) / pageBytes));
      heap = heapOf(memory.buffer);
    }
    return heap;
  };
  return { name: "wasm", reserve, ...functions };
}
