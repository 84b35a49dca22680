/**
 * The committed WebAssembly of the codec is loaded only with the pinned hash
 * (test/unit/launcher/kernels.slow.test.ts compiles it).
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import { deltaHash } from "../../../../shared/delta/kernels/delta-hash.js";
import { wasmKernels } from "../../../../shared/delta/kernels/wasm.js";
import {
  assertIsPinned,
  assertOnlyImportsMemory,
  readCommitted,
} from "../../../helpers/committed-kernels.js";

test("the committed kernels have the pinned hash", () => assertIsPinned("delta", deltaHash));

test("the kernels import their memory and nothing else, and bring no data that would overwrite it", async () => {
  assertOnlyImportsMemory(await readCommitted("delta"));
});

test("other bytes than the committed ones are refused by their hash", async () => {
  const bytes = new Uint8Array(await readCommitted("delta"));
  bytes[bytes.length - 1]! ^= 1;
  await assert.rejects(wasmKernels(bytes), (error) => isStemmaError(error, "ENGINE_HASH_MISMATCH"));
});
