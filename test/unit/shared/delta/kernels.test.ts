/**
 * The committed WebAssembly of the codec is what its sources compile to, and is loaded only with the pinned
 * hash.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { isStemmaError } from "../../../../shared/errors.js";
import { deltaHash } from "../../../../shared/delta/kernels/delta-hash.js";
import { wasmKernels } from "../../../../shared/delta/kernels/wasm.js";

const root = fileURLToPath(new URL("../../../../../", import.meta.url));
const committed = join(root, "shared/delta/kernels/delta.wasm");

test("the committed kernels are what their sources compile to, and have the pinned hash", async () => {
  const { compileKernels, hashFile } = (await import(
    pathToFileURL(join(root, "launcher/kernels.mjs")).href
  )) as {
    readonly compileKernels: (name: string) => Promise<Buffer>;
    readonly hashFile: (bytes: Uint8Array, name: string) => string;
  };
  const bytes = await readFile(committed);
  assert.equal(createHash("sha256").update(bytes).digest("hex"), deltaHash);
  assert.equal(
    await readFile(join(root, "shared/delta/kernels/delta-hash.ts"), "utf8"),
    hashFile(bytes, "delta"),
  );
  assert.ok(
    bytes.equals(await compileKernels("delta")),
    "run `npm run kernels` and commit delta.wasm with its hash",
  );
});

/** Section ids of a wasm module (spec, 5.5.2). */
function sectionsOf(bytes: Uint8Array): ReadonlyMap<number, Uint8Array> {
  const found = new Map<number, Uint8Array>();
  for (let at = 8; at < bytes.length;) {
    const id = bytes[at++]!;
    let size = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++]!;
      size |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    found.set(id, bytes.subarray(at, at + size));
    at += size;
  }
  return found;
}

test("the kernels import their memory and nothing else, and bring no data that would overwrite it", async () => {
  const sections = sectionsOf(await readFile(committed));
  const imports = 2;
  const memory = 5;
  const start = 8;
  const data = 11;
  assert.deepEqual(
    [memory, start, data].filter((id) => sections.has(id)),
    [],
  );
  assert.equal(sections.get(imports)![0], 1);
});

test("other bytes than the committed ones are refused by their hash", async () => {
  const bytes = new Uint8Array(await readFile(committed));
  bytes[bytes.length - 1]! ^= 1;
  await assert.rejects(wasmKernels(bytes), (error) => isStemmaError(error, "ENGINE_HASH_MISMATCH"));
});
