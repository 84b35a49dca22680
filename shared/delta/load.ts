/**
 * The codec with the kernels that this machine can run: WebAssembly with SIMD, else their twin in TypeScript.
 * Only this module reads a file.
 */
import { readFile } from "node:fs/promises";
import { isStemmaError } from "../errors.js";
import { createDeltaCodec, type DeltaCodec } from "./codec.js";
import type { DeltaKernels } from "./kernels/kernels.js";
import { plainKernels } from "./kernels/plain.js";
import { wasmKernels } from "./kernels/wasm.js";

/** @throws ENGINE_HASH_MISMATCH when delta.wasm is not the committed one */
export async function loadDeltaKernels(): Promise<DeltaKernels> {
  const bytes = await readFile(new URL("./kernels/delta.wasm", import.meta.url));
  try {
    return await wasmKernels(bytes);
  } catch (error) {
    if (isStemmaError(error, "BACKEND_UNAVAILABLE")) return plainKernels();
    throw error;
  }
}

export async function loadDeltaCodec(): Promise<DeltaCodec> {
  return createDeltaCodec(await loadDeltaKernels());
}

let ofThread: Promise<DeltaCodec> | undefined;
/**
 * One codec for everything that codes in this thread. A codec's memory grows with the largest tensor that it had (to
 * eight times that) and never shrinks; its calls do not wait in the middle, so all can share one.
 */
export function sharedDeltaCodec(): Promise<DeltaCodec> {
  return (ofThread ??= loadDeltaCodec());
}
