/**
 * Float schemes on whole tensors: what a scheme makes of one, and its compact bytes (decode-scheme.ts gives
 * the numbers back from those). Pure; knows no store and no model.
 *
 * Schemes are for matrices (MH §IV-B speaks of float matrices): tensors of another type, of fewer than two
 * dimensions (biases, what batch norm keeps) or without elements stay exact, and so does a tensor whose
 * compact form would not be smaller. What stays exact is shared with the exact model, where that is stored.
 */
import { ByteWriter } from "../delta/bytes.js";
import type { DeltaCodec } from "../delta/codec.js";
import { encodingCodes } from "../delta/encoded.js";
import { StemmaError } from "../errors.js";
import { tensorByteLength } from "../tensor/dtype.js";
import { tensorId } from "../tensor/hash.js";
import type { TensorHeader } from "../tensor/tensor.js";
import { Streams } from "../random/streams.js";
import { decodeScheme, isReducible } from "./decode-scheme.js";
import { encodeFixed, encodeNormalized } from "./grid.js";
import { singleToBfloat16, singleToHalf } from "./halves.js";
import { plainCodec, writeNested } from "./nested-tensor.js";
import { encodeQuantized } from "./quantize.js";
import { schemeCodes, type Scheme, type SchemeCode } from "./scheme.js";
import { bytesOf, wordsOf } from "./float-words.js";

export interface ReducedTensor {
  /**
   * The tensor that a reader gets, as many bytes as before; the given bytes themselves where it stays exact.
   */
  readonly reduced: Uint8Array;
  /** 0, raw, where it stays exact. */
  readonly code: SchemeCode | 0;
  /** The compact form: `decodeScheme` gives `reduced` from it. */
  readonly bytes: Uint8Array;
}

/**
 * @param seed decimal string of an unsigned 64-bit number: what random tables are drawn from, in a stream
 * named by the
 *   tensor's id, so that equal tensors are reduced alike
 * @throws TENSOR_SIZE_MISMATCH, RECIPE_PARAMETERS_INVALID for a seed that is none
 */
export function reduceTensor(
  scheme: Scheme,
  header: TensorHeader,
  bytes: Uint8Array,
  seed = "0",
  codec: DeltaCodec = plainCodec(),
): ReducedTensor {
  const exact: ReducedTensor = { reduced: bytes, code: encodingCodes.raw, bytes };
  const length = tensorByteLength(header.dtype, header.shape);
  if (bytes.length !== length)
    throw new StemmaError(
      "TENSOR_SIZE_MISMATCH",
      `A tensor ${header.dtype} [${header.shape.join(", ")}] has ${length} bytes, not ${bytes.length}. Check where its header came from.`,
      { expected: length, actual: bytes.length },
    );
  if (!isReducible(header)) return exact;
  const compact = encode(scheme, header, bytes, seed, codec);
  if (compact === undefined || compact.length >= bytes.length) return exact;
  const code = schemeCodes[scheme.name];
  return { reduced: decodeScheme(header, code, compact, codec), code, bytes: compact };
}

function encode(
  { name, bits }: Scheme,
  header: TensorHeader,
  bytes: Uint8Array,
  seed: string,
  codec: DeltaCodec,
): Uint8Array | undefined {
  const words = wordsOf(bytes),
    { shape } = header;
  switch (name) {
    case "float16":
      return encodeHalves(codec, words, shape, "F16", singleToHalf);
    case "bfloat16":
      return encodeHalves(codec, words, shape, "BF16", singleToBfloat16);
    case "fixed":
      return encodeFixed(codec, words, shape, bits);
    case "normalized":
      return encodeNormalized(codec, words, shape, bits);
    case "quantize-uniform":
      return encodeQuantized(codec, words, shape, bits, undefined);
    case "quantize-random":
      return encodeQuantized(
        codec,
        words,
        shape,
        bits,
        new Streams(seed, 0).stream(`quantize-random/${tensorId(header, bytes)}`),
      );
  }
}

function encodeHalves(
  codec: DeltaCodec,
  words: Uint32Array,
  shape: readonly number[],
  dtype: "F16" | "BF16",
  of: (word: number) => number,
): Uint8Array {
  const out = new ByteWriter();
  const halves = new Uint16Array(words.length);
  for (let i = 0; i < halves.length; i++) halves[i] = of(words[i]!);
  writeNested(out, codec, { dtype, shape }, bytesOf(halves));
  return out.finish();
}
