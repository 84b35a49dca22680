/** Opens any file as the model that keeps it as it is (shared/model/kept-file.ts). */
import { createHash } from "node:crypto";
import { basename } from "node:path";
import { StemmaError } from "../errors.js";
import { openRegularFile } from "../files/regular-file.js";
import { keptFileKey, metadataOfKeptFile, requireKeptFileName } from "../model/kept-file.js";
import { maxTensorBytes } from "../tensor/dtype.js";
import { readFully, type ByteFile } from "../tensor/safetensors-reader.js";
import type { Hash } from "../tensor/tensor.js";
import { uninitializedBytes } from "../tensor/uninitialized-bytes.js";
import { assembledFile } from "./assembled-file.js";
import type { ModelFile } from "./model-file.js";

/** Bytes of one read. */
const pieceBytes = 4 * 1024 * 1024;

/**
 * Reads the file once, for its SHA-256; its bytes are read again when they are saved.
 * @param name what it is called where it is delivered; its own name when absent
 * @throws NAME_INVALID, MODEL_FILE_MALFORMED for an empty file, TENSOR_TOO_LARGE; FILE_MISSING, FILE_NOT_REGULAR,
 * FILE_FAILED
 */
export async function openFileAsItIs(
  path: string,
  {
    followLinks = true,
    name = basename(path),
  }: { readonly followLinks?: boolean; readonly name?: string } = {},
): Promise<ModelFile> {
  requireKeptFileName(name);
  const { file, size, requireUnchanged } = await openRegularFile(path, { followLinks });
  try {
    if (size === 0)
      throw new StemmaError(
        "MODEL_FILE_MALFORMED",
        `${path} is empty. Name the file that is to be delivered.`,
        {
          path,
        },
      );
    if (size > maxTensorBytes)
      throw new StemmaError(
        "TENSOR_TOO_LARGE",
        `${path} has ${size} bytes; a file that is kept as it is may have ${maxTensorBytes}. Split it.`,
        { path },
      );
    const metadata = metadataOfKeptFile({ name, sha256: await sha256Of(file, size, path) });
    const tensor = {
      name: keptFileKey,
      dtype: "U8" as const,
      shape: [size],
      read: (target: Uint8Array, from: number) => readFully(file, target, from, path),
    };
    return {
      ...assembledFile({ tensors: [tensor], metadata }),
      isPlain: false,
      architecture: undefined,
      beside: [],
      notes: [],
      rest: () => Promise.resolve(undefined),
      requireUnchanged,
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function sha256Of(file: ByteFile, size: number, path: string): Promise<Hash> {
  const hash = createHash("sha256");
  const piece = uninitializedBytes(Math.min(size, pieceBytes));
  for (let at = 0; at < size; at += piece.length) {
    const part = piece.subarray(0, Math.min(piece.length, size - at));
    await readFully(file, part, at, path);
    hash.update(part);
  }
  return hash.digest("hex") as Hash;
}
