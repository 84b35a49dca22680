/**
 * Copies a file in chunks and hashes it. The copy appears under its name only when it is complete and
 * durable.
 */
import type { Files, OpenFile } from "../../../../shared/ports.js";
import { Sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const chunkBytes = 4 * 1024 * 1024;
/** Files copied concurrently: their fsyncs share the disk's commits. */
export const maxConcurrentCopies = 16;

export interface CopiedFile {
  readonly bytes: number;
  readonly sha256: Hash;
}

/** Passes a file's bytes to `use` chunk by chunk, in a buffer that is reused; returns the length. */
export async function readChunks(
  file: OpenFile,
  use: (chunk: Uint8Array, position: number) => Promise<void> | void,
): Promise<number> {
  // Small buffers for small files: most packs are small, and many are copied concurrently.
  const buffer = new Uint8Array(Math.max(1, Math.min(chunkBytes, await file.size())));
  let position = 0;
  for (;;) {
    const count = await file.read(buffer, position);
    if (count === 0) return position;
    await use(buffer.subarray(0, count), position);
    position += count;
  }
}

/**
 * Writes to a temporary name, then fsyncs and renames. The caller fsyncs the folder once for all files
 * (`syncFolder`).
 */
export async function copyFile(files: Files, from: string, to: string): Promise<CopiedFile> {
  const temporary = `${to}.tmp`;
  await files.remove(temporary);
  const hash = new Sha256();
  const source = await files.open(from, "read");
  try {
    const target = await files.open(temporary, "create");
    let bytes: number;
    try {
      bytes = await readChunks(source, async (piece, position) => {
        hash.update(piece);
        await target.write(piece, position);
      });
      await target.sync();
    } finally {
      await target.close();
    }
    await files.rename(temporary, to);
    return { bytes, sha256: hash.digest() };
  } finally {
    await source.close();
  }
}

export async function hashFile(files: Files, path: string): Promise<CopiedFile> {
  const hash = new Sha256();
  const file = await files.open(path, "read");
  try {
    const bytes = await readChunks(file, (piece) => {
      hash.update(piece);
    });
    return { bytes, sha256: hash.digest() };
  } finally {
    await file.close();
  }
}
