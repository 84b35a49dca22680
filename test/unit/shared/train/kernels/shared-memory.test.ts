/** Modules whose memory is declared as shared: the same code, and nothing else than modules is taken. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, resolve } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { isStemmaError } from "../../../../../shared/errors.js";
import { withSharedMemory } from "../../../../../shared/train/kernels/shared-memory.js";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../../../../..");
const kernels = (): Promise<Buffer> => readFile(`${root}/shared/train/kernels/kernels.wasm`);
const backend = (): Promise<Buffer> =>
  readFile(
    createRequire(import.meta.url).resolve(
      "@tensorflow/tfjs-backend-wasm/wasm-out/tfjs-backend-wasm-simd.wasm",
    ),
  );
/** Magic, version and sections, each with its id and content. */
const moduleOf = (...sections: readonly (readonly [number, readonly number[]])[]): Uint8Array =>
  Uint8Array.from([
    ...[0, 97, 115, 109, 1, 0, 0, 0],
    ...sections.flatMap(([id, content]) => [id, content.length, ...content]),
  ]);

/** Where the module may be cut without a section that ends too early. */
function sectionEnds(module: Uint8Array): Set<number> {
  const ends = new Set([8]);
  for (let at = 8; at < module.length;) {
    let length = 0;
    let scale = 1;
    do {
      at += 1;
      length += (module[at]! & 127) * scale;
      scale *= 128;
    } while (module[at]! >= 128);
    at += 1 + length;
    ends.add(at);
  }
  return ends;
}

test("only the limits of the memory change", async () => {
  for (const module of [await kernels(), await backend()]) {
    const shared = withSharedMemory(module);
    assert.ok(WebAssembly.validate(shared));
    // A maximum that was missing takes up to three bytes; the length of a section may take one more.
    assert.ok(shared.length - module.length <= 4);
    const tail = module.subarray(-10_000);
    assert.ok(tail.equals(shared.subarray(-10_000)));
  }
  const memory = withSharedMemory(moduleOf([5, [1, 0, 3]]));
  assert.deepEqual(memory, moduleOf([5, [1, 3, 3, 128, 128, 4]]));
  assert.deepEqual(withSharedMemory(moduleOf([5, [1, 1, 3, 9]])), moduleOf([5, [1, 3, 3, 9]]));
});

test("a memory is found behind imports of every other kind", () => {
  const name = [1, 97];
  const others = [...name, ...name, 0, 4, ...name, ...name, 1, 112, 0, 2, ...name, ...name, 3, 127, 0];
  const before = moduleOf([2, [4, ...others, ...name, ...name, 2, 0, 1]]);
  const after = moduleOf([2, [4, ...others, ...name, ...name, 2, 3, 1, 128, 128, 4]]);
  assert.deepEqual(withSharedMemory(before), after);
  const none = moduleOf([2, [3, ...others]]);
  assert.deepEqual(withSharedMemory(none), none);
});

test("bytes that are not a module are refused, wherever they end", async () => {
  const refused = (bytes: Uint8Array): void => {
    assert.throws(
      () => withSharedMemory(bytes),
      (error) => isStemmaError(error, "BACKEND_UNAVAILABLE"),
    );
  };
  for (const text of ["", "\0asm", "{}", "not a module"]) refused(Buffer.from(text));
  refused(moduleOf([5, [2, 0, 3, 0, 3]]));
  refused(moduleOf([2, [1, 1, 97, 1, 97, 9]]));
  refused(moduleOf([2, [1, 1, 97, 1, 97, 2, 0, 255, 255, 255, 255, 255, 1]]));
  const module = await kernels();
  const borders = sectionEnds(module);
  for (let length = 0; length < 400; length += 1)
    if (!borders.has(length)) refused(module.subarray(0, length));
});
