/**
 * What the codec reads and writes: a tensor's encoding by code and bytes, and the references it needs. Pack
 * entries and transfer manifests carry these codes; a code never changes its meaning.
 */
import type { Tensor, TensorHeader } from "../tensor/tensor.js";

export const encodingCodes = {
  /** The tensor's bytes as they are. */
  raw: 0,
  /** No bytes: the tensor is its base. */
  equal: 1,
  /** Huffman-coded symbols and open bits, of differences from a prediction or of exponents. */
  packed: 2,
  /** The same symbols by rANS, which codes a symbol in less than a bit: where most numbers are equal. */
  close: 3,
  /** Byte planes, highest first, each readable without those below it. */
  planes: 4,
  /**
   * Several encodings one after the other: of the slabs of a large tensor, or of the block that it has in
   * common with its base and of the rest.
   */
  parts: 5,
  /**
   * Float32 matrices in planes of one exponent a channel: the first planes bound every number. Never on the
   * wire.
   */
  fixedPlanes: 6,
} as const;
export type EncodingCode = (typeof encodingCodes)[keyof typeof encodingCodes];

export function isEncodingCode(code: number): code is EncodingCode {
  return Number.isInteger(code) && code >= 0 && code <= 6;
}

/**
 * What a tensor may be encoded against: its base (an ancestor's or a sibling's tensor), and another point of
 * the same training, before the base or after it: the prediction is on the line through both.
 */
export interface References {
  readonly base?: Tensor | undefined;
  readonly previous?: Tensor | undefined;
}

export interface EncodedTensor {
  readonly code: EncodingCode;
  readonly bytes: Uint8Array;
  /** The references that `decodeTensor` needs. */
  readonly against: { readonly base: boolean; readonly previous: boolean };
}

/** How a tensor is predicted: from nothing, by its base, or by base + alpha64/64 · (base − previous). */
export type Predictor = "none" | "base" | "extrapolated";

export interface EncodeOptions {
  /**
   * "packed", the default, is smallest. "planes" keeps high-order bytes readable alone. "fixed" does so in
   * fixed planes, without base, and gives planes for tensors that cannot be stored in those.
   */
  readonly layout?: "packed" | "planes" | "fixed";
}

export const noReferences = { base: false, previous: false } as const;
export type { Tensor, TensorHeader };
