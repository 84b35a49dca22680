/**
 * Which codec decodes which representation of a tensor: shared/delta the codes 0 to 6, a float scheme the
 * codes from 16. Knows no store.
 */
import type { DeltaCodec } from "../../delta/codec.js";
import { isEncodingCode, type References } from "../../delta/encoded.js";
import { loadDeltaCodec } from "../../delta/load.js";
import { StemmaError } from "../../errors.js";
import { decodeScheme } from "../../schemes/decode-scheme.js";
import { isSchemeCode } from "../../schemes/scheme.js";
import type { TensorHeader } from "../../tensor/tensor.js";

export interface TensorDecoder {
  readonly delta: DeltaCodec;
  /** What a tensor's bytes were coded against. @throws PACK_FORMAT_UNKNOWN, DELTA_MALFORMED */
  needs(
    header: TensorHeader,
    code: number,
    bytes: Uint8Array,
  ): { readonly base: boolean; readonly previous: boolean };
  /**
   * A tensor's own bytes, as many as its header says. @throws PACK_FORMAT_UNKNOWN; DELTA_MALFORMED and what
   * else a codec says of bytes that are not its own
   */
  decode(
    header: TensorHeader,
    code: number,
    bytes: Uint8Array,
    references: References,
    byteLength: number,
  ): Uint8Array;
}

function unknown(code: number): StemmaError {
  return new StemmaError(
    "PACK_FORMAT_UNKNOWN",
    `A tensor is coded in a way (${code}) that this Stemma does not know. Use a newer one.`,
    { code },
  );
}

let loading: Promise<TensorDecoder> | undefined;
/** Loaded once, at first need: one workspace serves every store of this process. */
export function tensorDecoder(): Promise<TensorDecoder> {
  return (loading ??= loadDeltaCodec().then(decoderOf));
}

function decoderOf(delta: DeltaCodec): TensorDecoder {
  return {
    delta,
    needs(header, code, bytes) {
      if (isSchemeCode(code)) return { base: false, previous: false };
      if (!isEncodingCode(code)) throw unknown(code);
      return delta.requiredReferences({ code, bytes });
    },
    decode(header, code, bytes, references, byteLength) {
      if (isEncodingCode(code)) return delta.decodeTensor(header, { code, bytes }, references, byteLength);
      if (!isSchemeCode(code)) throw unknown(code);
      return decodeScheme(header, code, bytes, delta);
    },
  };
}
