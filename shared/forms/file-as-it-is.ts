/** Opens any file as the model that keeps it as it is (shared/model/kept-file.ts). */
import { basename } from "node:path";
import { StemmaError } from "../errors.js";
import { openRegularFile } from "../files/regular-file.js";
import { keptFileKey, metadataOfKeptFile, requireKeptFileName } from "../model/kept-file.js";
import { maxTensorBytes } from "../tensor/dtype.js";
import { readFully } from "../tensor/safetensors-reader.js";
import { assembledFile } from "./assembled-file.js";
import type { ModelFile } from "./model-file.js";
import { sha256OfFile } from "./sha256-of-file.js";

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
    const metadata = metadataOfKeptFile({ name, sha256: await sha256OfFile(file, size, path) });
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
