/**
 * Finds which rows, columns or other positions of a tensor are those of another, by hashes. They are first of
 * single elements, then of a few of each position, then of all. Pure.
 */
import { dtypeBits, type DType } from "../../tensor/dtype.js";
import type { Tensor } from "../../tensor/tensor.js";
import { derive } from "./derivation.js";
import { findRuns } from "./find-runs.js";
import { axisBytes, type PositionRun, type TakenPositions, pick } from "./positions.js";

/** The least share of rows or columns that must be the base's. */
const minKnownShare = 0.25;
/** The number of elements of each row, column or other position that are hashed. */
const elementsPerPosition = 8;
/** Bits of the table of first elements, for each position: so many keep most unknown ones out. */
const tableBitsPerPosition = 16;

/** Rows, columns or other positions of one axis that are the base's, in any order, with new ones between. */
export function findTaken(child: Tensor, base: Tensor): { readonly taken: TakenPositions } | undefined {
  const rank = child.shape.length;
  if (rank === 0 || base.shape.length !== rank || base.bytes.length === 0) return undefined;
  if (rank === 1 && child.dtype === base.dtype && dtypeBits(child.dtype) === 8)
    return takenBytes(child, base);
  const differing = child.shape.flatMap((size, axis) => (size === base.shape[axis] ? [] : [axis]));
  const axes =
    differing.length === 0 ? child.shape.map((_, axis) => axis) : differing.length === 1 ? differing : [];
  let own = base.dtype === child.dtype ? base : undefined;
  for (const axis of axes) {
    // An order says nothing where there is one position, or where each is a single element.
    if (child.shape[axis] === base.shape[axis] && (rank === 1 || child.shape[axis] === 1)) continue;
    const minKnown = Math.max(1, minKnownShare * Math.min(child.shape[axis]!, base.shape[axis]!));
    if (base.dtype === child.dtype && knownFirstElements(child, base, axis) < minKnown) continue;
    // A few elements of each position tell whether it is worth hashing all of them.
    for (const isSampled of [true, false]) {
      if (!isSampled) own ??= derive([base], { averaged: 1, dtype: child.dtype });
      const from = isSampled ? sampledAlong(base, axis, child.dtype) : own!;
      const runs = runsOf(isSampled ? sampledAlong(child, axis, child.dtype) : child, from, axis);
      const known = runs.reduce((sum, run) => sum + (run.from < 0 ? 0 : run.length), 0);
      if (known < minKnown) break;
      if (!isSampled) return { taken: { axis, runs } };
    }
  }
  return undefined;
}

/** Runs of bytes, also nearly equal ones; undefined where too few, or all at their own places, are the base's. */
function takenBytes(child: Tensor, base: Tensor): { readonly taken: TakenPositions } | undefined {
  const runs = findRuns(child.bytes, base.bytes);
  const known = runs.reduce((sum, run) => sum + (run.from < 0 ? 0 : run.length), 0);
  if (known < minKnownShare * Math.min(child.bytes.length, base.bytes.length)) return undefined;
  const isInPlace = runs.length === 1 && runs[0]!.from === 0 && child.bytes.length === base.bytes.length;
  return isInPlace || runs.length === 0 ? undefined : { taken: { axis: 0, runs } };
}

/**
 * Counts the positions of the child that begin with an element with which some position of the base may
 * begin: never fewer than are the base's, and hardly more. Both have one type.
 */
function knownFirstElements(child: Tensor, base: Tensor, axis: number): number {
  const bits = 32 - Math.clz32(tableBitsPerPosition * base.shape[axis]!);
  const table = new Uint8Array(2 ** bits / 8);
  firstElements(base, axis, bits, (hash) => {
    table[hash >>> 3]! |= 1 << (hash & 7);
  });
  let known = 0;
  firstElements(child, axis, bits, (hash) => {
    known += (table[hash >>> 3]! >>> (hash & 7)) & 1;
  });
  return known;
}

/** Hashes of `bits` bits of the first element at each position. */
function firstElements(
  { dtype, shape, bytes }: Tensor,
  axis: number,
  bits: number,
  visit: (hash: number) => void,
): void {
  const { size, innerBytes } = axisBytes(dtype, shape, axis);
  const width = dtypeBits(dtype) / 8;
  for (let position = 0, at = 0; position < size; position++, at += innerBytes) {
    let word = 0;
    for (let byte = 0; byte < width; byte++) word = Math.imul(word ^ bytes[at + byte]!, 0x9e3779b1);
    visit((word ^ (word >>> 15)) >>> (32 - bits));
  }
}

/** The tensor with only a few positions of its other axes, cast. */
function sampledAlong(tensor: Tensor, axis: number, dtype: DType): Tensor {
  const { shape } = tensor;
  let left = elementsPerPosition;
  const kept = shape.map((size, i) => {
    if (i === axis) return size;
    const count = Math.min(size, left);
    left = Math.max(1, Math.floor(left / Math.max(1, count)));
    return count;
  });
  const positions = new Int32Array(kept.reduce((product, count) => product * count, 1));
  let filled = 1;
  shape.forEach((size, i) => {
    const count = kept[i]!;
    // From the last to the first, so that none is overwritten before it is read.
    for (let before = filled - 1; before >= 0; before--) {
      const start = positions[before]! * size;
      for (let k = count - 1; k >= 0; k--)
        positions[before * count + k] = start + Math.floor((k * size) / count);
    }
    filled *= count;
  });
  return { ...derive([pick(tensor, positions)], { averaged: 1, dtype }), shape: kept };
}

function runsOf(child: Tensor, own: Tensor, axis: number): readonly PositionRun[] {
  const places = new Map<number, number>();
  positionHashes(own, axis).forEach((hash, position) => places.set(hash, position));
  const runs: { from: number; length: number }[] = [];
  for (const hash of positionHashes(child, axis)) {
    const from = places.get(hash) ?? -1;
    const last = runs.at(-1);
    if (last !== undefined && (from < 0 ? last.from < 0 : last.from >= 0 && from === last.from + last.length))
      last.length++;
    else runs.push({ from, length: 1 });
  }
  return runs;
}

/** A hash of the bytes at each position of an axis. */
function positionHashes({ dtype, shape, bytes }: Tensor, axis: number): Uint32Array {
  const { outer, size, innerBytes } = axisBytes(dtype, shape, axis);
  const hashes = new Uint32Array(size).fill(0x811c9dc5);
  for (let group = 0, at = 0; group < outer; group++)
    for (let position = 0; position < size; position++) {
      let hash = hashes[position]!;
      for (let byte = 0; byte < innerBytes; byte++, at++) hash = Math.imul(hash ^ bytes[at]!, 0x01000193);
      hashes[position] = hash;
    }
  return hashes;
}
