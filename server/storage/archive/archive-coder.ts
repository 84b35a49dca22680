/**
 * Encodes tensors for the archive: small ones in this thread, large ones in another, so that encoding does
 * not block the server.
 */
import type { EncodedTensor, EncodeOptions, References } from "../../../shared/delta/encoded.js";
import type { Tensor } from "../../../shared/tensor/tensor.js";
import { openTensorCoder, type TensorCoder } from "../../../shared/wire/coding/tensor-coder.js";
import type { ArchiveEncoding } from "./archive-plan.js";

export interface ArchiveCoder {
  /** Takes over its arguments: the caller must not read them afterwards. */
  encode(
    tensor: Tensor,
    references: References,
    options: EncodeOptions & { readonly layout: ArchiveEncoding },
  ): Promise<EncodedTensor>;
  close(): Promise<void>;
}

/** Larger tensors are encoded in a thread, because encoding takes about 8 ms per MB on a slow machine. */
const defaultInlineBytes = 4 * 1024 * 1024;
/** Finding a low-rank prediction takes up to this many times as long. */
const lowRankEffort = 32;

export function archiveCoder(maxInlineBytes = defaultInlineBytes): ArchiveCoder {
  const inline = openTensorCoder(0);
  let thread: TensorCoder | undefined;
  return {
    encode: (tensor, references, options) =>
      (tensor.bytes.length * (options.lowRank === true ? lowRankEffort : 1) <= maxInlineBytes
        ? inline
        : (thread ??= openTensorCoder(Number.POSITIVE_INFINITY))
      ).encode(tensor, references, options),
    async close() {
      await inline.close();
      await thread?.close();
    },
  };
}
