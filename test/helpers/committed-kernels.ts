/** The committed WebAssembly of a kind of kernels: that it is what its sources compile to, and what is in it. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { checkout as root, launcherModule } from "./launcher-modules.js";

interface Compiler {
  readonly modules: Readonly<
    Record<string, { readonly folder: string; readonly wasm: string; readonly hashFile: string }>
  >;
  readonly compileKernels: (name: string) => Promise<Buffer>;
  readonly hashFile: (bytes: Uint8Array, name: string) => string;
}

const loadCompiler = (): Promise<Compiler> => launcherModule("launcher/kernels.mjs");

/** As launcher/kernels.mjs has them, which loads the compiler. */
const committedFiles = {
  train: { folder: "shared/train/kernels", wasm: "kernels.wasm", hashFile: "kernels-hash.ts" },
  delta: { folder: "shared/delta/kernels", wasm: "delta.wasm", hashFile: "delta-hash.ts" },
} as const;

export async function readCommitted(name: "train" | "delta"): Promise<Buffer> {
  const { folder, wasm } = committedFiles[name];
  return await readFile(join(root, folder, wasm));
}

/** @param pinned the hash that the program demands of it */
export async function assertIsPinned(name: "train" | "delta", pinned: string): Promise<void> {
  const bytes = await readCommitted(name);
  assert.equal(createHash("sha256").update(bytes).digest("hex"), pinned);
}

/** Compiles the sources, which takes seconds. */
export async function assertIsCompiled(name: "train" | "delta"): Promise<void> {
  const { modules, compileKernels, hashFile } = await loadCompiler();
  const { folder, wasm, hashFile: file } = committedFiles[name];
  const own = modules[name];
  assert.deepEqual([own?.folder, own?.wasm, own?.hashFile], [folder, wasm, file]);
  const bytes = await readCommitted(name);
  assert.equal(await readFile(join(root, folder, file), "utf8"), hashFile(bytes, name));
  assert.ok(
    bytes.equals(await compileKernels(name)),
    "run `npm run kernels` and commit the wasm with its hash",
  );
}

/** The module imports one thing, its memory, and has no memory, start function or data of its own. */
export function assertOnlyImportsMemory(bytes: Uint8Array): void {
  const [imports, memory, start, data] = [2, 5, 8, 11];
  const sections = sectionsOf(bytes);
  assert.deepEqual(
    [memory, start, data].filter((id) => sections.has(id)),
    [],
  );
  assert.equal(sections.get(imports)![0], 1);
}

/** Contents of the sections of a wasm module, by their ids (spec, 5.5.2). */
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
