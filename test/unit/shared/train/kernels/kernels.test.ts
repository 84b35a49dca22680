/**
 * The committed WebAssembly of training is what its sources compile to, and shares the backend's memory
 * safely.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { kernelsHash } from "../../../../../shared/train/kernels/kernels-hash.js";

const root = fileURLToPath(new URL("../../../../../../", import.meta.url));
const committed = join(root, "shared/train/kernels/kernels.wasm");

test("the committed kernels are what their sources compile to, and have the pinned hash", async () => {
  const { compileKernels, hashFile } = (await import(
    pathToFileURL(join(root, "launcher/kernels.mjs")).href
  )) as { compileKernels: () => Promise<Buffer>; hashFile: (bytes: Uint8Array) => string };
  const bytes = await readFile(committed);
  assert.equal(createHash("sha256").update(bytes).digest("hex"), kernelsHash);
  assert.equal(await readFile(join(root, "shared/train/kernels/kernels-hash.ts"), "utf8"), hashFile(bytes));
  assert.ok(
    bytes.equals(await compileKernels()),
    "run `npm run kernels` and commit kernels.wasm with its hash",
  );
});

/** Section ids and contents of a wasm module. */
function sections(bytes: Uint8Array): Map<number, Uint8Array> {
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

test("the kernels have no data and no memory of their own, which would overwrite tensors", async () => {
  const found = sections(await readFile(committed));
  const memory = 5;
  const data = 11;
  const start = 8;
  const imports = 2;
  assert.deepEqual(
    [memory, data, start].filter((id) => found.has(id)),
    [],
  );
  assert.equal(found.get(imports)![0], 1, "one import: the memory");
});
