/**
 * Applies float schemes to tensors: returns the reduced tensor and its compact bytes, from which
 * decode-scheme.ts restores the reduced numbers. Pure; does not depend on stores or models.
 *
 * Schemes are for matrices (MH §IV-B speaks of float matrices). A tensor stays exact if it has another type,
 * fewer than two dimensions (biases, statistics of batch normalisation) or no elements, or if its compact
 * form would not be smaller. Tensors that stay exact are shared with the exact model, where that is stored.
 */
import { ByteWriter } from "../delta/bytes.js";
import type { DeltaCodec } from "../delta/codec.js";
import { encodingCodes } from "../delta/encoded.js";
import { checkTensorLength } from "../delta/tensor-part.js";
import { tensorId } from "../tensor/hash.js";
import type { Tensor, TensorHeader } from "../tensor/tensor.js";
import { Streams } from "../random/streams.js";
import { decodeScheme, isReducible } from "./decode-scheme.js";
import { encodeFixed, encodeNormalized, type FloatMatrix } from "./grid.js";
import { singleToBfloat16, singleToHalf } from "./halves.js";
import { plainCodec, writeNested } from "./nested-tensor.js";
import { encodeQuantized } from "./quantize.js";
import { schemeCodes, type Scheme, type SchemeCode } from "./scheme.js";
import { bytesOf, copyAsWords } from "./float-words.js";

export interface ReducedTensor {
  /**
   * The tensor that a reader gets, as many bytes as before; the same object as the input where it stays
   * exact.
   */
  readonly reduced: Uint8Array;
  /** 0 (raw) where the tensor stays exact. */
  readonly code: SchemeCode | 0;
  /** The compact form: `decodeScheme` gives `reduced` from it. */
  readonly bytes: Uint8Array;
}

export interface ReduceOptions {
  /**
   * Decimal text of an unsigned 64-bit number, from which random tables are drawn: "0" by default. Each
   * tensor has a stream named by its id, so that equal tensors are reduced alike.
   */
  readonly seed?: string;
  /** The codec; where absent, the one on the TypeScript kernels. */
  readonly codec?: DeltaCodec;
}

/** @throws TENSOR_SIZE_MISMATCH; RECIPE_PARAMETERS_INVALID for an invalid seed */
export function reduceTensor(
  scheme: Scheme,
  header: TensorHeader,
  bytes: Uint8Array,
  { seed = "0", codec = plainCodec() }: ReduceOptions = {},
): ReducedTensor {
  const exact: ReducedTensor = { reduced: bytes, code: encodingCodes.raw, bytes };
  checkTensorLength(header, bytes.length);
  if (!isReducible(header)) return exact;
  const compact = encodeScheme(scheme, { ...header, bytes }, seed, codec);
  if (compact === undefined || compact.length >= bytes.length) return exact;
  const code = schemeCodes[scheme.name];
  return { reduced: decodeScheme(header, code, compact, codec), code, bytes: compact };
}

function encodeScheme(
  { name, bits }: Scheme,
  tensor: Tensor,
  seed: string,
  codec: DeltaCodec,
): Uint8Array | undefined {
  const matrix = { words: copyAsWords(tensor.bytes), shape: tensor.shape };
  switch (name) {
    case "float16":
      return encodeHalves(codec, matrix, "F16", singleToHalf);
    case "bfloat16":
      return encodeHalves(codec, matrix, "BF16", singleToBfloat16);
    case "fixed":
      return encodeFixed(codec, matrix, bits);
    case "normalized":
      return encodeNormalized(codec, matrix, bits);
    case "quantize-uniform":
      return encodeQuantized(codec, matrix, bits, undefined);
    case "quantize-random": {
      const stream = new Streams(seed, 0).stream(`quantize-random/${tensorId(tensor, tensor.bytes)}`);
      return encodeQuantized(codec, matrix, bits, stream);
    }
  }
}

function encodeHalves(
  codec: DeltaCodec,
  { words, shape }: FloatMatrix,
  dtype: "F16" | "BF16",
  toHalf: (word: number) => number,
): Uint8Array {
  const out = new ByteWriter();
  const halves = new Uint16Array(words.length);
  for (let i = 0; i < halves.length; i++) halves[i] = toHalf(words[i]!);
  writeNested(out, codec, { dtype, shape, bytes: bytesOf(halves) });
  return out.finish();
}
