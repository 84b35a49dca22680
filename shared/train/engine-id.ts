/**
 * The id of an engine: one hash of everything that decides the bits of a replay (docs/formats.md, "Engine").
 * Pure.
 */
import { sha256 } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";

/** The files in an engine's folder that its id covers. */
export const engineFiles = [
  "engine.json",
  "engine.mjs",
  "kernels.wasm",
  "tfjs-backend-wasm-simd.wasm",
] as const;

/**
 * The id of an engine: H("stemma-engine-1\0" ‖ for each file by name: name ‖ "\0" ‖ its SHA-256 in hex ‖
 * "\n").
 */
export function engineId(files: readonly { readonly name: string; readonly bytes: Uint8Array }[]): Hash {
  const lines = files.map(({ name, bytes }) => `${name}\0${sha256(bytes)}\n`).sort();
  return sha256("stemma-engine-1\0", ...lines);
}
