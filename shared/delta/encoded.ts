/**
 * The types that the codec reads and writes: a tensor's encoding as code and bytes, and the references it
 * needs. Pack entries and transfer manifests carry these codes; a code never changes its meaning.
 */
import type { Tensor, TensorHeader } from "../tensor/tensor.js";
import type { Links, NeededReferences } from "./links.js";

export const encodingCodes = {
  /** The tensor's bytes as they are. */
  raw: 0,
  /** The encoding without bytes: the tensor equals its base. */
  equal: 1,
  /**
   * Huffman-coded symbols of differences from a prediction or of exponents, and the bits that they leave
   * open.
   */
  packed: 2,
  /**
   * The same symbols coded by rANS, which can take less than a bit each: for tensors of mostly equal numbers.
   */
  rans: 3,
  /** Byte planes, highest first, each readable without those below it. */
  planes: 4,
  /**
   * Several encodings one after the other: those of the slabs of a large tensor, or those of the block in
   * common with the base and of the rest.
   */
  parts: 5,
  /**
   * Float32 matrices in planes with one exponent per channel: the first planes bound every number. Never sent
   * to another machine.
   */
  fixedPlanes: 6,
  /** The difference from a prediction by the base and a product of two small factors. */
  lowRank: 7,
  /** A general coder's stream, where repeats decide. */
  general: 8,
  /** Bits coded with probabilities mixed from their contexts: slow, for few values, sequences and repeats. */
  mixed: 9,
  /** The difference from what follows from the references: a cast, quantised, other rows or axes, an average. */
  derived: 10,
} as const;
export type EncodingCode = (typeof encodingCodes)[keyof typeof encodingCodes];

export function isEncodingCode(code: number): code is EncodingCode {
  return Number.isInteger(code) && code >= 0 && code <= 10;
}

/**
 * The tensors that a tensor may be encoded against: its base (an ancestor's or a sibling's tensor), and
 * another point of the same training, before or after the base. The prediction is a point on the line through
 * both. Some encodings are coded against more tensors (links.ts).
 */
export type References = Links<Tensor>;

export interface EncodedTensor {
  readonly code: EncodingCode;
  readonly bytes: Uint8Array;
  /** The references that `decodeTensor` needs. */
  readonly against: NeededReferences;
}

/** The prediction of a tensor: from nothing, by its base, or by base + alpha64/64 · (base − previous). */
export type Predictor = "none" | "base" | "extrapolated";

export interface EncodeOptions {
  /**
   * "packed", the default, is smallest. "planes" keeps high-order bytes readable alone. "fixed" does so in
   * fixed planes, without a base; tensors that cannot be stored in these are stored in planes.
   */
  readonly layout?: "packed" | "planes" | "fixed";
  /**
   * True to look for a low-rank prediction of floats that have a base. It takes several times as long, and is
   * used where it is smaller. Only with "packed".
   */
  readonly lowRank?: boolean;
  /** The highest rank that such a prediction may have; 64, the highest there is, by default. */
  readonly maxRank?: number;
  /** True, the default, if the encoding may be a general coder's; false where the reader does not know it. */
  readonly general?: boolean;
  /** True, the default, if the encoding may be mixed; false where the reader does not know it. */
  readonly mixed?: boolean;
  /** True, the default, if the encoding may be derived; false where the reader does not know it. */
  readonly derived?: boolean;
  /** True for raw bytes, without a search for other encodings, where the tensor does not follow from its references. */
  readonly ifFollows?: boolean;
}

export const noReferences: NeededReferences = { base: false, previous: false };
export type { Tensor, TensorHeader };
