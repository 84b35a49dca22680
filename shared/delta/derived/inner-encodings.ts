/** The encodings that are inside of a derived tensor's: of known and new positions, and of scales. */
import type { Tensor, TensorHeader } from "../../tensor/tensor.js";
import type { ByteReader } from "../bytes.js";
import { encodingCodes, type EncodedTensor } from "../encoded.js";
import { encodingMalformed } from "../encoding-malformed.js";

const innerCodes: ReadonlySet<number> = new Set([
  encodingCodes.raw,
  encodingCodes.equal,
  encodingCodes.packed,
  encodingCodes.rans,
  encodingCodes.planes,
  encodingCodes.parts,
]);

/** Encodes a tensor as a part against a base of its type and shape, or without one. */
export type EncodeInner = (tensor: Tensor, base: Uint8Array | undefined) => EncodedTensor;
/** Decodes such a part. */
export type DecodeInner = (
  header: TensorHeader,
  encoded: { readonly code: number; readonly bytes: Uint8Array },
  base: Uint8Array | undefined,
) => Uint8Array;

/** @throws DELTA_MALFORMED */
export function innerCode(reader: ByteReader): number {
  const code = reader.u8();
  if (!innerCodes.has(code)) throw encodingMalformed("a part has another code than it may have");
  return code;
}
