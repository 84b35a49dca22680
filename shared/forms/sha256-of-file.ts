/** The SHA-256 of a whole file, read in pieces. */
import { createHash } from "node:crypto";
import { readFully, type ByteFile } from "../tensor/safetensors-reader.js";
import type { Hash } from "../tensor/tensor.js";
import { uninitializedBytes } from "../tensor/uninitialized-bytes.js";

/** Bytes of one read. */
const pieceBytes = 4 * 1024 * 1024;

/** @throws FILE_FAILED, SAFETENSORS_TRUNCATED where the file became shorter than `size` bytes */
export async function sha256OfFile(file: ByteFile, size: number, path: string): Promise<Hash> {
  const hash = createHash("sha256");
  const piece = uninitializedBytes(Math.min(size, pieceBytes));
  for (let at = 0; at < size; at += piece.length) {
    const part = piece.subarray(0, Math.min(piece.length, size - at));
    await readFully(file, part, at, path);
    hash.update(part);
  }
  return hash.digest("hex") as Hash;
}
