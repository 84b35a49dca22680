/**
 * Codes tensors for the archive: a small one at once, a large one in a thread, so that nobody who is served
 * waits for it.
 */
import type { EncodedTensor, References } from "../../shared/delta/encoded.js";
import type { Tensor } from "../../shared/tensor/tensor.js";
import { openTensorCoder, type TensorCoder } from "../../shared/wire/coding/tensor-coder.js";
import type { ArchiveEncoding } from "./archive-plan.js";

export interface ArchiveCoder {
  /** Gives its arguments away: they may not be read afterwards. */
  encode(tensor: Tensor, references: References, layout: ArchiveEncoding): Promise<EncodedTensor>;
  close(): Promise<void>;
}

/** Coding takes about 8 ms a megabyte on a slow machine: up to this much is done without a thread. */
const inlineBytes = 4 * 1024 * 1024;

export function archiveCoder(mostInlineBytes = inlineBytes): ArchiveCoder {
  const here = openTensorCoder(0);
  let thread: TensorCoder | undefined;
  return {
    encode: (tensor, references, layout) =>
      (tensor.bytes.length <= mostInlineBytes
        ? here
        : (thread ??= openTensorCoder(Number.POSITIVE_INFINITY))
      ).encode(tensor, references, { layout }),
    async close() {
      await here.close();
      await thread?.close();
    },
  };
}
