/** The limit on the memory of the WebAssembly backend: exceeding it is an error, not a crash. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isStemmaError } from "../../../../../shared/errors.js";
import { guardMemory } from "../../../../../shared/train/backends/memory-guard.js";
import type { WasmModule } from "../../../../../shared/train/kernels/kernel-registry.js";

/**
 * An allocator of `capacity` bytes that behaves like Emscripten's: addresses are signed, 0 when it is full.
 */
function fakeModule(capacity: number, base = 2 ** 31): WasmModule {
  let next = base;
  return {
    _malloc: (bytes: number) => {
      if (next + bytes > base + capacity) return 0;
      next += bytes;
      return (next - bytes) | 0;
    },
    _free: () => {},
  } as unknown as WasmModule;
}

test("an address of 0 is an error, and allocations above 2 GiB are counted too", () => {
  const module = fakeModule(1000);
  const guard = guardMemory(module);
  const first = module._malloc(600);
  assert.ok(first < 0, "an address above 2 GiB is negative as a signed integer");
  assert.throws(
    () => module._malloc(600),
    (error) => isStemmaError(error, "MEMORY_EXHAUSTED") && error.details["allocated"] === 600,
  );
  assert.equal(guard.allocatedBytes(), 600);
  module._free(first >>> 0);
  assert.equal(guard.allocatedBytes(), 0);
});

test("the limit is enforced, an empty tensor always fits, and removing restores the allocator", () => {
  const module = fakeModule(1000);
  const guard = guardMemory(module, 100);
  const stock = module._malloc;
  module._malloc(100);
  assert.throws(
    () => module._malloc(1),
    (error) => isStemmaError(error, "MEMORY_EXHAUSTED"),
  );
  module._malloc(0);
  guard.remove();
  assert.notEqual(module._malloc, stock);
  assert.notEqual(module._malloc(500), 0);
});

test("no tensor ends where a kernel would read beyond the last address", () => {
  const mebibyte = 2 ** 20;
  const module = fakeModule(mebibyte, 2 ** 32 - mebibyte);
  const guard = guardMemory(module);
  assert.notEqual(module._malloc(mebibyte / 2), 0);
  assert.throws(
    () => module._malloc(mebibyte / 2 - 8),
    (error) => isStemmaError(error, "MEMORY_EXHAUSTED"),
  );
  assert.equal(guard.allocatedBytes(), mebibyte / 2);
});
