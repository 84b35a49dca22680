/**
 * How one tensor follows from others: their average, other axes, some of its rows, another scale, another type. Applied
 * in this order; every machine computes the same bits, and a result that is not a number is always the same NaN. Pure.
 */
import type { DType } from "../../tensor/dtype.js";
import type { Tensor } from "../../tensor/tensor.js";
import { cast, tensorOf, valuesOf, wordsOf } from "./float-numbers.js";
import { takenFrom, transposed, type TakenPositions } from "./positions.js";

export interface Derivation {
  /** Count of references that are averaged; 1: the base alone. */
  readonly averaged: number;
  /** For each axis the axis of the base. */
  readonly axes?: readonly number[] | undefined;
  readonly taken?: TakenPositions | undefined;
  /** Every number times 2 to this power. */
  readonly octaves?: number | undefined;
  readonly dtype: DType;
}

/** The tensor that the derivation gives, without new positions. The references fit each other. */
export function derive(references: readonly Tensor[], derivation: Derivation): Tensor {
  const { averaged, axes, taken, octaves, dtype } = derivation;
  let tensor = averaged > 1 ? averageOf(references.slice(0, averaged)) : references[0]!;
  if (axes !== undefined) tensor = transposed(tensor, axes);
  if (taken !== undefined) tensor = takenFrom(tensor, taken);
  if (octaves !== undefined) tensor = scaled(tensor, octaves);
  return cast(tensor, dtype);
}

function averageOf(references: readonly Tensor[]): Tensor {
  const { dtype, shape } = references[0]!;
  const all = references.map(valuesOf);
  const mean = Float32Array.from(all[0]!, (first, i) => {
    let sum = first;
    for (let k = 1; k < all.length; k++) sum += all[k]![i]!;
    return sum / all.length;
  });
  return tensorOf(dtype, shape, wordsOf(mean));
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
