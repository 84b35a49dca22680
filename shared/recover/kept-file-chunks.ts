/** The bytes of a recovered file, compared with the SHA-256 that was stated of it. */
import { createHash } from "node:crypto";
import { StemmaError } from "../errors.js";
import type { KeptFile } from "../model/kept-file.js";
import type { TensorSource } from "../tensor/tensor.js";

/**
 * The file that is kept as it is.
 * @param source the model's only tensor
 * @throws ROOT_MISMATCH at the end, where the bytes are those that were recorded, and not those of the stated SHA-256
 */
export function keptFileChunks(
  kept: KeptFile,
  source: Pick<TensorSource, "chunks">,
): AsyncGenerator<Uint8Array> {
  return withSha256(kept, source.chunks());
}

/** @throws ROOT_MISMATCH at the end, where the bytes have another SHA-256 */
export async function* withSha256(
  { name, sha256 }: Pick<KeptFile, "name" | "sha256">,
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const hash = createHash("sha256");
  for await (const chunk of chunks) {
    hash.update(chunk);
    yield chunk;
  }
  const actual = hash.digest("hex");
  if (actual === sha256) return;
  throw new StemmaError(
    "ROOT_MISMATCH",
    `The file ${name} has the SHA-256 ${actual}, and who saved it stated ${sha256}, so it is not used. Look where it ` +
      "comes from, and save the file again.",
    { expected: sha256, actual },
  );
}
