/**
 * Finds how a tensor follows from its references, by content: equal numbers in a sample, equal rows or columns by their
 * hashes. Takes time in proportion to the tensors' bytes. Pure.
 */
import { dtypeBits } from "../../tensor/dtype.js";
import type { Tensor, TensorHeader } from "../../tensor/tensor.js";
import { axisBytes, canCast, canScale, derive, type Derivation, type PositionRun } from "./derivation.js";

/** So many elements are compared, and this share of them must be equal. */
const comparedElements = 512;
const minEqualShare = 0.5;
/** Of rows or columns, this share must be those of the base. */
const minKnownShare = 0.25;
const maxRank = 4;
const maxOctaves = 60;

function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((size, i) => size === b[i]);
}

/** Whether two tensors of one type and shape look equal. */
function looksEqual(a: Tensor, b: Tensor): boolean {
  if (a.dtype !== b.dtype || !sameShape(a.shape, b.shape)) return false;
  const width = dtypeBits(a.dtype) / 8;
  const count = a.bytes.length / width;
  const step = Math.max(1, Math.floor(count / comparedElements));
  let equal = 0;
  let compared = 0;
  for (let i = 0; i < count; i += step, compared++) {
    let isEqual = true;
    for (let byte = 0; byte < width; byte++)
      isEqual &&= a.bytes[i * width + byte] === b.bytes[i * width + byte];
    if (isEqual) equal++;
  }
  return compared > 0 && equal >= minEqualShare * compared;
}

/** The derivation under which most of the child's numbers come out exactly; undefined: none was found. */
export function findDerivation(child: Tensor, references: readonly Tensor[]): Derivation | undefined {
  const base = references[0];
  const { dtype } = child;
  if (base === undefined || child.bytes.length === 0 || dtypeBits(dtype) % 8 !== 0) return undefined;
  if (!canCast(base.dtype, dtype)) return undefined;
  const own = derive([base], { averaged: 1, dtype });
  if (base.dtype !== dtype && looksEqual(child, own)) return { averaged: 1, dtype };
  const found =
    findAverage(child, references) ?? findScale(child, own) ?? findTaken(child, own) ?? findAxes(child, own);
  return found === undefined ? undefined : { averaged: 1, ...found, dtype };
}

type Found = Partial<Derivation>;

function findAverage(child: Tensor, references: readonly Tensor[]): Found | undefined {
  const { dtype, shape } = references[0]!;
  if (!canScale(dtype) || !references.every((each) => each.dtype === dtype && sameShape(each.shape, shape)))
    return undefined;
  for (let averaged = references.length; averaged > 1; averaged--)
    if (looksEqual(child, derive(references, { averaged, dtype: child.dtype }))) return { averaged };
  return undefined;
}

/** A power of two between the numbers, by the exponents of a few of them. */
function findScale(child: Tensor, own: Tensor): Found | undefined {
  if (!canScale(child.dtype) || !sameShape(child.shape, own.shape)) return undefined;
  const bits = { F32: [4, 23, 255], BF16: [2, 7, 255], F16: [2, 10, 31] }[
    child.dtype as "F32" | "BF16" | "F16"
  ];
  const [width, mantissa, mask] = bits as [number, number, number];
  const exponentAt = (bytes: Uint8Array, i: number): number => {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const word = width === 4 ? view.getUint32(4 * i, true) : view.getUint16(2 * i, true);
    return (word >>> mantissa) & mask;
  };
  const count = child.bytes.length / width;
  for (let i = 0; i < Math.min(count, comparedElements); i++) {
    const [to, from] = [exponentAt(child.bytes, i), exponentAt(own.bytes, i)];
    if (to === 0 || from === 0 || to === mask || from === mask || to === from) continue;
    const octaves = to - from;
    return Math.abs(octaves) <= maxOctaves &&
      looksEqual(child, derive([own], { averaged: 1, octaves, dtype: child.dtype }))
      ? { octaves }
      : undefined;
  }
  return undefined;
}

function findAxes(child: Tensor, own: Tensor): Found | undefined {
  const rank = child.shape.length;
  if (rank < 2 || rank > maxRank || own.shape.length !== rank) return undefined;
  for (const axes of permutations(rank)) {
    if (
      axes.every((axis, i) => axis === i) ||
      !sameShape(
        axes.map((axis) => own.shape[axis]!),
        child.shape,
      )
    )
      continue;
    if (looksEqual(child, derive([own], { averaged: 1, axes, dtype: child.dtype }))) return { axes };
  }
  return undefined;
}

function permutations(count: number): readonly (readonly number[])[] {
  if (count === 0) return [[]];
  return permutations(count - 1).flatMap((rest) =>
    Array.from({ length: count }, (_, at) => [...rest.slice(0, at), count - 1, ...rest.slice(at)]),
  );
}

/** Rows, columns or other positions of one axis that are the base's, in any order, with new ones between. */
function findTaken(child: Tensor, own: Tensor): Found | undefined {
  const rank = child.shape.length;
  if (rank === 0 || own.shape.length !== rank || own.bytes.length === 0) return undefined;
  const differing = child.shape.flatMap((size, axis) => (size === own.shape[axis] ? [] : [axis]));
  const axes =
    differing.length === 0 ? child.shape.map((_, axis) => axis) : differing.length === 1 ? differing : [];
  for (const axis of axes) {
    if (rank === 1 && child.shape[0] === own.shape[0]) continue;
    const runs = runsOf(child, own, axis);
    const known = runs.reduce((sum, { from, length }) => sum + (from < 0 ? 0 : length), 0);
    if (known >= Math.max(1, minKnownShare * Math.min(child.shape[axis]!, own.shape[axis]!)))
      return { taken: { axis, runs } };
  }
  return undefined;
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
function positionHashes({ dtype, shape, bytes }: TensorHeader & Tensor, axis: number): Uint32Array {
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
