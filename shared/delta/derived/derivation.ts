/**
 * Computes how one tensor follows from others: their average, other axes, some of its rows, another scale,
 * another type or quantised. Applied in this order; every machine computes the same bits, and a result that
 * is not a number is always the same NaN. Pure.
 */
import type { DType } from "../../tensor/dtype.js";
import type { Tensor } from "../../tensor/tensor.js";
import { averageOf, type Weighting } from "./average.js";
import type { BlockForm } from "./blocks.js";
import { cast, tensorOf, valuesOf, wordsOf } from "./float-numbers.js";
import { takenFrom, transposed, type TakenPositions } from "./positions.js";
import type { Quantisation } from "./quantisation.js";

export interface Derivation {
  /** Count of references that are averaged; 1: the base alone. */
  readonly averaged: number;
  /** The weighting; absent: every one counts the same, and sums are in float64. */
  readonly weighting?: Weighting | undefined;
  /** The axis of the base for each axis. */
  readonly axes?: readonly number[] | undefined;
  readonly taken?: TakenPositions | undefined;
  /** Every number times 2 to this power. */
  readonly octaves?: number | undefined;
  /** Floats become codes, or codes floats; else numbers are cast. */
  readonly quantisation?: Quantisation | undefined;
  /** Floats become bytes of blocks with their scales, or such blocks floats. */
  readonly blocks?: BlockForm | undefined;
  readonly dtype: DType;
}

/** Applies a derivation without quantisation or blocks, and without new positions. The references fit each other. */
export function derive(references: readonly Tensor[], derivation: Derivation): Tensor {
  return cast(sourceOf(references, derivation), derivation.dtype);
}

/** Returns the tensor that is cast or quantised in the end. */
export function sourceOf(references: readonly Tensor[], derivation: Derivation): Tensor {
  const { averaged, weighting, axes, taken, octaves } = derivation;
  let tensor = averaged > 1 ? averageOf(references.slice(0, averaged), weighting) : references[0]!;
  if (axes !== undefined) tensor = transposed(tensor, axes);
  if (taken !== undefined) tensor = takenFrom(tensor, taken);
  return octaves === undefined ? tensor : scaled(tensor, octaves);
}

function scaled(tensor: Tensor, octaves: number): Tensor {
  let factor = 1;
  for (let octave = Math.abs(octaves); octave > 0; octave--) factor *= octaves < 0 ? 0.5 : 2;
  return tensorOf(
    tensor.dtype,
    tensor.shape,
    wordsOf(Float32Array.from(valuesOf(tensor), (value) => value * factor)),
  );
}
