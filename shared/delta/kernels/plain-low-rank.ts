/** Twin of assembly/low-rank.ts: matrix products of low-rank predictions, in the same order of operations. */
import type { Heap } from "./kernels.js";

const round = Math.fround;
/** Larger numbers are outliers of a row and a column that are quiet otherwise, and would hide all structure. */
const limit = 256;

export function weightDifferences(
  { f32 }: Heap,
  base: number,
  child: number,
  rows: number,
  columns: number,
  rowWeights: number,
  columnWeights: number,
  out: number,
): void {
  let at = 0;
  for (let row = 0; row < rows; row++) {
    const weight = f32[(rowWeights >> 2) + row]!;
    for (let column = 0; column < columns; column++, at++) {
      const difference = round(f32[(child >> 2) + at]! - f32[(base >> 2) + at]!);
      const weighted = round(round(difference * weight) * f32[(columnWeights >> 2) + column]!);
      f32[(out >> 2) + at] = Math.abs(weighted) < limit ? weighted : 0;
    }
  }
}

export function multiply(
  { f32 }: Heap,
  matrix: number,
  rows: number,
  columns: number,
  right: number,
  width: number,
  out: number,
): void {
  const sums = new Float32Array(width);
  for (let row = 0; row < rows; row++) {
    sums.fill(0);
    const m = (matrix >> 2) + row * columns;
    for (let column = 0; column < columns; column++) {
      const x = f32[m + column]!;
      const r = (right >> 2) + column * width;
      for (let k = 0; k < width; k++) sums[k] = round(sums[k]! + round(x * f32[r + k]!));
    }
    f32.set(sums, (out >> 2) + row * width);
  }
}

export function multiplyTransposed(
  { f32 }: Heap,
  matrix: number,
  rows: number,
  columns: number,
  left: number,
  width: number,
  out: number,
): void {
  for (let row = 0; row < rows; row++) {
    const m = (matrix >> 2) + row * columns;
    const l = (left >> 2) + row * width;
    for (let column = 0; column < columns; column++) {
      const x = f32[m + column]!;
      const o = (out >> 2) + column * width;
      for (let k = 0; k < width; k++) f32[o + k] = round(f32[o + k]! + round(x * f32[l + k]!));
    }
  }
}

export function addProduct(
  { f32, u32 }: Heap,
  base: number,
  rows: number,
  columns: number,
  left: number,
  rank: number,
  right: number,
  out: number,
): void {
  const sums = new Float32Array(columns);
  for (let row = 0; row < rows; row++) {
    sums.fill(0);
    for (let k = 0; k < rank; k++) {
      const x = f32[(left >> 2) + row * rank + k]!;
      const r = (right >> 2) + k * columns;
      for (let column = 0; column < columns; column++)
        sums[column] = round(sums[column]! + round(x * f32[r + column]!));
    }
    const b = (base >> 2) + row * columns;
    const o = (out >> 2) + row * columns;
    for (let column = 0; column < columns; column++) {
      const own = u32[b + column]!;
      f32[o + column] = round(f32[b + column]! + sums[column]!);
      if ((u32[o + column]! & 0x7f800000) === 0x7f800000) u32[o + column] = own;
    }
  }
}
