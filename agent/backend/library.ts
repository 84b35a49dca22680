/** Finds the two libraries of an installed TensorFlow (a wheel's, or JetPack's) and checks them before they run. */
import { createHash } from "node:crypto";
import { realpath } from "node:fs/promises";
import { join } from "node:path";
import type { Files } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { whoMayChange } from "../../shared/programs/who-may-change.js";
import { changeableByOthers, noLibrary, otherArchitecture, symbolsMissing } from "./backend-errors.js";
import { readSharedLibrary, type SharedLibrary } from "./elf.js";
import { neededSymbols } from "./needed-symbols.js";

export const libraryNames = ["libtensorflow_cc.so.2", "libtensorflow_framework.so.2"] as const;

/** A library as it was when it was linked. */
export interface LibraryFile {
  readonly name: string;
  readonly bytes: number;
  readonly modifiedMs: number;
  readonly sha256: Hash;
}

/** @returns the folder that has both, without symbolic links. @throws BACKEND_UNAVAILABLE */
export async function findLibrary(files: Files, folder: string): Promise<string> {
  for (const each of [folder, join(folder, "tensorflow")]) {
    const found = await Promise.all(libraryNames.map((name) => files.stat(join(each, name))));
    if (found.every((stat) => stat !== undefined)) return await realpath(each);
  }
  throw noLibrary(folder, libraryNames);
}

/**
 * Checks architecture, functions and who may change them, without running them.
 * @param owner user id that may change them beside root
 * @throws BACKEND_UNAVAILABLE
 */
export async function checkLibrary(
  files: Files,
  folder: string,
  { arch, owner }: { readonly arch: string; readonly owner: number | undefined },
): Promise<void> {
  const missing = new Set(neededSymbols);
  for (const name of libraryNames) {
    const path = join(folder, name);
    const problem = await whoMayChange(path, owner);
    if (problem !== undefined) throw changeableByOthers(problem.path, problem.text);
    await withLibrary(files, path, async (library) => {
      if (library.arch !== arch) throw otherArchitecture(path, library.arch, arch);
      for (const symbol of [...missing]) if (await library.defines(symbol)) missing.delete(symbol);
    });
  }
  if (missing.size > 0) throw symbolsMissing(folder, [...missing]);
}

export async function withLibrary<T>(
  files: Files,
  path: string,
  use: (library: SharedLibrary) => Promise<T>,
): Promise<T> {
  const file = await files.open(path, "read");
  try {
    return await use(await readSharedLibrary(file, path));
  } finally {
    await file.close();
  }
}

/** Reads both libraries completely. */
export async function describeLibraries(files: Files, folder: string): Promise<LibraryFile[]> {
  const described: LibraryFile[] = [];
  for (const name of libraryNames) {
    const path = join(folder, name);
    const stat = await files.stat(await realpath(path));
    described.push({
      name,
      bytes: stat?.size ?? 0,
      modifiedMs: stat?.modifiedMs ?? 0,
      sha256: await hashOfFile(files, path),
    });
  }
  return described;
}

const chunkBytes = 4 * 2 ** 20;

async function hashOfFile(files: Files, path: string): Promise<Hash> {
  const file = await files.open(path, "read");
  try {
    const hash = createHash("sha256");
    const chunk = new Uint8Array(chunkBytes);
    for (let at = 0; ;) {
      const count = await file.read(chunk, at);
      if (count === 0) return hash.digest("hex") as Hash;
      hash.update(chunk.subarray(0, count));
      at += count;
    }
  } finally {
    await file.close();
  }
}
