/**
 * A piece is what the kernels code in one call: a complete tensor or a slab of a large one. This file has
 * what encode-piece.ts and decode-piece.ts share: types, flags, the prediction, and the context of every
 * number.
 *
 * Method: differences of the numbers' bits, ordered as integers, from a prediction (FM-Delta's mapping), or
 * exponents where there is no prediction (ZipNN's). A symbol is the bit length of a difference, or an
 * exponent; its context is the magnitude to expect. The bits that a symbol leaves open follow as they are.
 *
 * Bytes, codes `packed` and `rans`: flags u8 (predictor, vectors of scales that are sent, differences in
 * units) ‖ mean i16 ‖ alpha·64 i16 where extrapolated ‖ side information (side-information.ts) ‖ streams,
 * each but the last after its length as a varint. `packed` has four streams of Huffman codes and open bits
 * (kernels/assembly/unpack.ts defines which numbers are in which); `rans` has one of rANS symbols and two of
 * open bits, of the first half of the numbers and of the second.
 */
import type { EncodedTensor, Predictor } from "./encoded.js";
import { encodingMalformed } from "./encoding-malformed.js";
import type { KernelMemory, PieceArrays } from "./kernel-memory.js";
import type { NumberKind, View } from "./numbers.js";
import type { Scales } from "./scales.js";
import type { Alphabet } from "./symbol-definitions.js";

/** The predictors by the lowest two bits of a piece's flags. */
export const predictors: readonly Predictor[] = ["none", "base", "extrapolated"];

/** The other bits of a piece's flags. */
export const flagBits = { rows: 4, columns: 8, inner: 16, inUnits: 32 } as const;

/** An extrapolation by more than a factor of ±4 is not a useful prediction. */
export const maxAlpha64 = 256;

export interface Prediction {
  readonly predictor: Predictor;
  readonly alpha64: number;
  /** True if differences count units in the last place, without regard to a number's size. */
  readonly inUnits: boolean;
}

/** Bytes of the tensors to predict from, of the same kind and count as the piece. */
export interface PieceReferences {
  readonly base?: Uint8Array | undefined;
  readonly previous?: Uint8Array | undefined;
}

export interface PieceShape {
  readonly kind: NumberKind;
  readonly count: number;
  readonly view: View;
}

/** A piece and its arrays in the kernels' memory. */
export interface Piece extends PieceShape {
  readonly memory: KernelMemory;
  readonly arrays: PieceArrays;
}

/** The parameters by which the kernels map a piece's lanes to symbols (see kernels/assembly/symbols.ts). */
export interface SymbolMapping {
  readonly alphabet: Alphabet;
  readonly orderMask: number;
  readonly shift: number;
  readonly limit: number;
  readonly emax: number;
  readonly exponentMask: number;
}

/** @param mean of the piece's scales, in quarter octaves */
export function symbolMapping(
  { shift, isFloat }: NumberKind,
  { predictor, inUnits }: Pick<Prediction, "predictor" | "inUnits">,
  mean: number,
): SymbolMapping {
  if (!isFloat) return { alphabet: "differences", orderMask: 0, shift, limit: 50, emax: -1, exponentMask: 0 };
  const floats = { orderMask: -1, shift } as const;
  const limit = 2 * (25 - shift);
  if (inUnits) return { ...floats, alphabet: "differences", limit, emax: -1, exponentMask: 0 };
  const octave = 127 + Math.ceil(mean / 4);
  const asExponent = (exponent: number): number => Math.max(0, Math.min(254, exponent));
  if (predictor === "none")
    return { ...floats, alphabet: "exponents", limit: 0, emax: asExponent(octave + 4), exponentMask: 0 };
  // Where a difference is large compared with the prediction, the number is about as large as the difference.
  // So the exponents of escapes begin three octaves above the mean difference.
  return { ...floats, alphabet: "differences", limit, emax: asExponent(octave + 3), exponentMask: 255 };
}

/**
 * Writes a tensor's bytes as 32-bit lanes to `target`; types that need widening pass through the first
 * stream's array.
 */
export function loadLanes({ memory, arrays, kind, count }: Piece, bytes: Uint8Array, target: number): void {
  if (kind.widening === 0) {
    arrays.heap.u8.set(bytes, target);
    return;
  }
  arrays.heap.u8.set(bytes, arrays.stream);
  memory.kernels.widen(arrays.stream, target, count, kind.widening);
}

/**
 * Computes the prediction of every number.
 * @param references must have what the predictor needs
 * @returns the byte offset of the prediction's lanes
 */
export function preparePrediction(
  piece: Piece,
  { predictor, alpha64 }: Pick<Prediction, "predictor" | "alpha64">,
  references: PieceReferences,
): number {
  const { memory, arrays, kind, count } = piece;
  const { u32 } = arrays.heap;
  if (predictor === "none") {
    u32.fill(0, arrays.base >> 2, (arrays.base >> 2) + count);
    return arrays.base;
  }
  loadLanes(piece, references.base!, arrays.base);
  if (predictor === "base") return arrays.base;
  loadLanes(piece, references.previous!, arrays.previous);
  memory.kernels.predict(arrays.base, arrays.previous, count, alpha64 / 64, arrays.prediction);
  if (kind.shift > 0) {
    // Rounded to numbers that the type can represent, so that differences are whole steps.
    const half = 1 << (kind.shift - 1);
    const keep = -(1 << kind.shift);
    for (let i = arrays.prediction >> 2, end = i + count; i < end; i++) u32[i] = (u32[i]! + half) & keep;
  }
  return arrays.prediction;
}

/**
 * Computes the context of every number from the scales and, for floats with a prediction, the prediction's
 * exponent.
 * @param prediction byte offset of its lanes
 */
export function computeContexts(
  { memory, arrays, view }: Piece,
  mapping: SymbolMapping,
  { mean, rows, columns, inner }: Scales,
  prediction: number,
): void {
  const { i32 } = arrays.heap;
  const hasExponents = mapping.alphabet === "exponents";
  const sign = hasExponents ? -1 : 1;
  // The centre of the contexts: in units in the last place, a difference of 2^(q/4) from a number of exponent
  // e is 2^(q/4 - e + 150); symbol-definitions.ts defines which magnitudes a context stands for.
  const centre = hasExponents
    ? 4 * (mapping.emax - 127) + 8 - mean
    : mean + 16 + (mapping.exponentMask > 0 ? 600 - 4 * mapping.shift : 0);
  const writeVector = (
    target: number,
    length: number,
    vector: Int8Array | undefined,
    offset: number,
  ): void => {
    const start = target >> 2;
    if (vector === undefined) i32.fill(offset, start, start + length);
    else for (let i = 0; i < length; i++) i32[start + i] = offset + sign * vector[i]!;
  };
  writeVector(arrays.rows, view.rows, rows, centre);
  writeVector(arrays.columns, view.columns, columns, 0);
  if (inner !== undefined) writeVector(arrays.inner, view.inner, inner, 0);
  memory.kernels.contexts(
    prediction,
    view.rows,
    view.columns,
    view.inner,
    arrays.rows,
    arrays.columns,
    inner === undefined ? 0 : arrays.inner,
    mapping.exponentMask,
    arrays.contexts,
  );
}

/** Returns how a coded piece is predicted, from its bytes alone. @throws DELTA_MALFORMED */
export function predictorOf(bytes: Uint8Array): Predictor {
  const predictor = predictors[(bytes[0] ?? 3) & 3];
  if (predictor === undefined) throw encodingMalformed("its flags name no predictor");
  return predictor;
}

/** Returns which references a predictor reads. */
export function referencesOf(predictor: Predictor): EncodedTensor["against"] {
  return { base: predictor !== "none", previous: predictor === "extrapolated" };
}
