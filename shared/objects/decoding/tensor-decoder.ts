/**
 * Chooses the codec by a tensor's encoding code: shared/delta for 0 to 10, a float scheme from 16. Does not
 * depend on a store.
 */
import type { DeltaCodec } from "../../delta/codec.js";
import { isEncodingCode, noReferences, type References } from "../../delta/encoded.js";
import type { NeededReferences } from "../../delta/links.js";
import { StemmaError } from "../../errors.js";
import type { decodeScheme } from "../../schemes/decode-scheme.js";
import { isSchemeCode } from "../../schemes/scheme.js";
import type { TensorHeader } from "../../tensor/tensor.js";

/** Encoded bytes and the number of their encoding. */
export interface EncodedBytes {
  readonly code: number;
  readonly bytes: Uint8Array;
}

export interface TensorDecoder {
  readonly delta: DeltaCodec;
  /** Returns which references decoding needs. @throws PACK_FORMAT_UNKNOWN, DELTA_MALFORMED */
  readonly needs: (header: TensorHeader, encoded: EncodedBytes) => NeededReferences;
  /**
   * Returns the tensor's bytes, `byteLength` of them, as its header declares. @throws PACK_FORMAT_UNKNOWN,
   * DELTA_MALFORMED, and other errors of a codec that gets malformed bytes
   */
  readonly decode: (
    header: TensorHeader,
    encoded: EncodedBytes,
    references: References,
    byteLength: number,
  ) => Uint8Array;
}

function unknown(code: number): StemmaError {
  return new StemmaError(
    "PACK_FORMAT_UNKNOWN",
    `A tensor has the encoding code ${code}, which this Stemma does not know. Use a newer Stemma.`,
    { code },
  );
}

let loading: Promise<TensorDecoder> | undefined;
/** The decoder, loaded on the first call; all stores of this process share it and its workspace. */
export function tensorDecoder(): Promise<TensorDecoder> {
  return (loading ??= loadDecoder());
}

async function loadDecoder(): Promise<TensorDecoder> {
  // Most commands decode nothing.
  const [{ sharedDeltaCodec }, schemes] = await Promise.all([
    import("../../delta/load.js"),
    import("../../schemes/decode-scheme.js"),
  ]);
  return decoderOf(await sharedDeltaCodec(), schemes.decodeScheme);
}

function decoderOf(delta: DeltaCodec, ofScheme: typeof decodeScheme): TensorDecoder {
  return {
    delta,
    needs: (header, { code, bytes }) => {
      if (isSchemeCode(code)) return noReferences;
      if (!isEncodingCode(code)) throw unknown(code);
      return delta.requiredReferences({ code, bytes });
    },
    decode: (header, { code, bytes }, references, byteLength) => {
      if (isEncodingCode(code)) return delta.decodeTensor(header, { code, bytes }, references, byteLength);
      if (!isSchemeCode(code)) throw unknown(code);
      return ofScheme(header, code, bytes, delta);
    },
  };
}
