/**
 * Positions along the axes of a tensor: taken in another order, transposed, split into known and new ones; and samples
 * of elements. Only for types whose elements are whole bytes. Pure.
 */
import { dtypeBits, tensorByteLength, type DType } from "../../tensor/dtype.js";
import type { Tensor } from "../../tensor/tensor.js";

/** A run of positions along an axis, and where it starts in the base; −1: these are new. */
export interface PositionRun {
  readonly from: number;
  readonly length: number;
}

/** The positions along an axis, and which they come from. */
export interface TakenPositions {
  readonly axis: number;
  readonly runs: readonly PositionRun[];
}

export function transposed({ dtype, shape, bytes }: Tensor, axes: readonly number[]): Tensor {
  const width = dtypeBits(dtype) / 8;
  const strides: number[] = [];
  shape.reduceRight((stride, size, axis) => ((strides[axis] = stride), stride * size), width);
  const own = axes.map((axis) => shape[axis]!);
  const out = new Uint8Array(bytes.length);
  const position = own.map(() => 0);
  for (let to = 0, from = 0; to < out.length; to += width) {
    for (let byte = 0; byte < width; byte++) out[to + byte] = bytes[from + byte]!;
    for (let axis = own.length - 1; axis >= 0; axis--) {
      const stride = strides[axes[axis]!]!;
      from += stride;
      if (++position[axis]! < own[axis]!) break;
      from -= stride * own[axis]!;
      position[axis] = 0;
    }
  }
  return { dtype, shape: own, bytes: out };
}

/** A tensor's bytes as the positions of one axis cut them: `outer` groups of `size` positions. */
export interface AxisBytes {
  readonly outer: number;
  readonly size: number;
  readonly innerBytes: number;
}

export function axisBytes(dtype: DType, shape: readonly number[], axis: number): AxisBytes {
  const size = shape[axis]!;
  const outer = shape.slice(0, axis).reduce((product, each) => product * each, 1);
  return {
    outer,
    size,
    innerBytes: outer * size === 0 ? 0 : tensorByteLength(dtype, shape) / (outer * size),
  };
}

export function takenFrom({ dtype, shape, bytes }: Tensor, { axis, runs }: TakenPositions): Tensor {
  const known = runs.filter(({ from }) => from >= 0);
  const count = known.reduce((sum, { length }) => sum + length, 0);
  const { outer, size, innerBytes } = axisBytes(dtype, shape, axis);
  const out = new Uint8Array(outer * count * innerBytes);
  for (let group = 0, to = 0; group < outer; group++)
    for (const { from, length } of known) {
      const start = (group * size + from) * innerBytes;
      out.set(bytes.subarray(start, start + length * innerBytes), to);
      to += length * innerBytes;
    }
  return { dtype, shape: shape.map((each, i) => (i === axis ? count : each)), bytes: out };
}

/** A tensor without the positions that are new. */
export function knownPart(tensor: Tensor, taken: TakenPositions | undefined): Tensor {
  if (taken === undefined) return tensor;
  let end = 0;
  const runs = taken.runs.map(({ from, length }) => {
    end += length;
    return { from: from < 0 ? -1 : end - length, length };
  });
  return takenFrom(tensor, { ...taken, runs });
}

/** Cuts a tensor into its known and its new positions, or joins them (`join`) into its bytes. */
export function splitPositions(
  whole: Uint8Array,
  { outer, size, innerBytes }: AxisBytes,
  runs: readonly PositionRun[],
  parts: { readonly known: Uint8Array; readonly fresh: Uint8Array; readonly join: boolean },
): void {
  const at = { known: 0, fresh: 0 };
  for (let group = 0; group < outer; group++) {
    let position = group * size;
    for (const { from, length } of runs) {
      const side = from < 0 ? "fresh" : "known";
      const [start, bytes] = [position * innerBytes, length * innerBytes];
      if (parts.join) whole.set(parts[side].subarray(at[side], at[side] + bytes), start);
      else parts[side].set(whole.subarray(start, start + bytes), at[side]);
      at[side] += bytes;
      position += length;
    }
  }
}

/** Some of a tensor's elements, as a tensor of one axis. */
export function pick(tensor: Tensor, positions: ArrayLike<number>): Tensor {
  const width = dtypeBits(tensor.dtype) / 8;
  const bytes = new Uint8Array(positions.length * width);
  const all = tensor.bytes;
  for (let i = 0, at = 0; i < positions.length; i++) {
    const start = positions[i]! * width;
    for (let byte = 0; byte < width; byte++, at++) bytes[at] = all[start + byte]!;
  }
  return { dtype: tensor.dtype, shape: [positions.length], bytes };
}

/** Evenly spaced elements of a tensor of `count`, about `wanted` of them. */
export function sampledPositions(count: number, wanted: number): Int32Array {
  const step = Math.max(1, Math.floor(count / wanted));
  const positions = new Int32Array(Math.ceil(count / step));
  for (let i = 0; i < positions.length; i++) positions[i] = i * step;
  return positions;
}
