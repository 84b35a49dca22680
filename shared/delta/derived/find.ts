/**
 * Finds how a tensor follows from its references, by content: equal numbers in a sample, equal rows or columns by their
 * hashes. Tensors that do not follow are told by a sample of their elements. Pure.
 */
import { dtypeBits, type DType } from "../../tensor/dtype.js";
import type { Tensor, TensorHeader } from "../../tensor/tensor.js";
import { derive, sourceOf, type Derivation } from "./derivation.js";
import { findMeanWeighting, findWeightedAverage } from "./find-average.js";
import { findQuantisation } from "./find-quantisation.js";
import { canCast, canScale } from "./float-numbers.js";
import { axisBytes, transposed, type PositionRun } from "./positions.js";
import { hasCodes, quantised, type Scaling } from "./quantisation.js";
import { pick, sampledPositions } from "./samples.js";

/** So many elements are compared, and this share of them must be equal. */
const comparedElements = 512;
const minEqualShare = 0.5;
/** Of rows or columns, this share must be those of the base. */
const minKnownShare = 0.25;
/** Of each row, column or other position so many elements are hashed first. */
const elementsPerPosition = 8;
const maxRank = 4;
const maxOctaves = 60;

function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((size, i) => size === b[i]);
}

/** Whether two samples of one type and length are mostly equal. */
function looksEqual(a: Tensor, b: Tensor): boolean {
  if (a.dtype !== b.dtype || a.bytes.length !== b.bytes.length) return false;
  const width = dtypeBits(a.dtype) / 8;
  const compared = a.bytes.length / width;
  let equal = 0;
  for (let i = 0; i < compared; i++) {
    let isEqual = true;
    for (let byte = 0; byte < width; byte++)
      isEqual &&= a.bytes[i * width + byte] === b.bytes[i * width + byte];
    if (isEqual) equal++;
  }
  return compared > 0 && equal >= minEqualShare * compared;
}

/** A child and its references, and the same elements of each of them. */
interface Compared {
  readonly child: Tensor;
  readonly references: readonly Tensor[];
  readonly positions: Int32Array;
  readonly sample: Tensor;
  /** The sample of the base, in the child's type; undefined where the shapes differ. */
  readonly baseSample: Tensor | undefined;
}

/** A derivation, and what each group of a quantisation is scaled by. */
export interface FoundDerivation {
  readonly derivation: Derivation;
  readonly scaling?: Scaling | undefined;
}

/** The derivation under which most of the child's numbers come out, or nearly; undefined: none was found. */
export function findDerivation(child: Tensor, references: readonly Tensor[]): FoundDerivation | undefined {
  const base = references[0];
  const { dtype } = child;
  const areBytes = [child, ...references].every((each) => dtypeBits(each.dtype) % 8 === 0);
  if (base === undefined || child.bytes.length === 0 || base.bytes.length === 0 || !areBytes)
    return undefined;
  if (!canCast(base.dtype, dtype)) return findQuantised(child, references);
  const positions = sampledPositions((8 * child.bytes.length) / dtypeBits(dtype), comparedElements);
  const sample = pick(child, positions);
  const baseSample = sameShape(child.shape, base.shape)
    ? derive([pick(base, positions)], { averaged: 1, dtype })
    : undefined;
  if (base.dtype !== dtype && baseSample !== undefined && looksEqual(sample, baseSample))
    return { derivation: { averaged: 1, dtype } };
  const compared: Compared = { child, references, positions, sample, baseSample };
  const found =
    findAverage(compared) ??
    findScale(compared) ??
    findTaken(child, base) ??
    findAxes(compared) ??
    (baseSample === undefined ? undefined : findWeightedAverage(child, references, positions));
  return found === undefined ? undefined : { derivation: { averaged: 1, ...found, dtype } };
}

/** The tensor that was found to follow, without new positions. */
export function deriveFound(
  references: readonly Tensor[],
  { derivation, scaling }: FoundDerivation,
  header: TensorHeader,
): Tensor {
  const { quantisation } = derivation;
  if (quantisation === undefined || scaling === undefined) return derive(references, derivation);
  return quantised(sourceOf(references, derivation), quantisation, scaling, header);
}

/** Quantised, or dequantised: as it is, or with rows and columns exchanged first. */
function findQuantised(child: Tensor, [base, reference]: readonly Tensor[]): FoundDerivation | undefined {
  const { dtype } = child;
  const found = findQuantisation(child, base!, reference);
  if (found !== undefined)
    return { derivation: { averaged: 1, quantisation: found.quantisation, dtype }, scaling: found.scaling };
  if (base!.shape.length !== 2 || hasCodes(base!.dtype)) return undefined;
  const axes = [1, 0];
  const turned = findQuantisation(child, transposed(base!, axes), reference);
  if (turned === undefined) return undefined;
  return {
    derivation: { averaged: 1, axes, quantisation: turned.quantisation, dtype },
    scaling: turned.scaling,
  };
}

type Found = Partial<Derivation>;

function findAverage({ child, references, positions, sample, baseSample }: Compared): Found | undefined {
  const { dtype, shape } = references[0]!;
  if (baseSample === undefined || !canScale(dtype)) return undefined;
  if (!references.every((each) => each.dtype === dtype && sameShape(each.shape, shape))) return undefined;
  const samples = references.map((each) => pick(each, positions));
  for (let averaged = references.length; averaged > 1; averaged--)
    if (looksEqual(sample, derive(samples, { averaged, dtype: child.dtype })))
      return { averaged, weighting: findMeanWeighting(child, references.slice(0, averaged)) };
  return undefined;
}

/** A power of two between the numbers, by the exponents of a few of them. */
function findScale({ child, sample, baseSample }: Compared): Found | undefined {
  if (!canScale(child.dtype) || baseSample === undefined) return undefined;
  const bits = { F32: [4, 23, 255], BF16: [2, 7, 255], F16: [2, 10, 31] }[
    child.dtype as "F32" | "BF16" | "F16"
  ];
  const [width, mantissa, mask] = bits as [number, number, number];
  const exponents = ({ bytes }: Tensor): Int32Array => {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return Int32Array.from({ length: bytes.length / width }, (_, i) => {
      const word = width === 4 ? view.getUint32(4 * i, true) : view.getUint16(2 * i, true);
      return (word >>> mantissa) & mask;
    });
  };
  const from = exponents(baseSample);
  for (const [i, to] of exponents(sample).entries()) {
    if (to === 0 || from[i] === 0 || to === mask || from[i] === mask || to === from[i]) continue;
    const octaves = to - from[i]!;
    return Math.abs(octaves) <= maxOctaves &&
      looksEqual(sample, derive([baseSample], { averaged: 1, octaves, dtype: child.dtype }))
      ? { octaves }
      : undefined;
  }
  return undefined;
}

function findAxes({ child, references, positions, sample }: Compared): Found | undefined {
  const base = references[0]!;
  const rank = child.shape.length;
  if (rank < 2 || rank > maxRank || base.shape.length !== rank) return undefined;
  for (const axes of permutations(rank)) {
    const isSame = axes.every((axis, i) => axis === i);
    const shape = axes.map((axis) => base.shape[axis]!);
    if (isSame || !sameShape(shape, child.shape)) continue;
    const from = pick(base, beforeTransposing(positions, child.shape, axes));
    if (looksEqual(sample, derive([from], { averaged: 1, dtype: child.dtype }))) return { axes };
  }
  return undefined;
}

/** Where elements of a transposed tensor of this shape were before. */
function beforeTransposing(
  positions: Int32Array,
  shape: readonly number[],
  axes: readonly number[],
): Int32Array {
  const strides = shape.map(() => 0);
  let stride = 1;
  for (let axis = axes.length - 1; axis >= 0; axis--) {
    const own = axes.indexOf(axis);
    strides[own] = stride;
    stride *= shape[own]!;
  }
  return positions.map((position) => {
    let from = 0;
    for (let axis = shape.length - 1, left = position; axis >= 0; axis--) {
      from += (left % shape[axis]!) * strides[axis]!;
      left = Math.floor(left / shape[axis]!);
    }
    return from;
  });
}

function permutations(count: number): readonly (readonly number[])[] {
  if (count === 0) return [[]];
  return permutations(count - 1).flatMap((rest) =>
    Array.from({ length: count }, (_, at) => [...rest.slice(0, at), count - 1, ...rest.slice(at)]),
  );
}

/** Rows, columns or other positions of one axis that are the base's, in any order, with new ones between. */
function findTaken(child: Tensor, base: Tensor): Found | undefined {
  const rank = child.shape.length;
  if (rank === 0 || base.shape.length !== rank || base.bytes.length === 0) return undefined;
  const differing = child.shape.flatMap((size, axis) => (size === base.shape[axis] ? [] : [axis]));
  const axes =
    differing.length === 0 ? child.shape.map((_, axis) => axis) : differing.length === 1 ? differing : [];
  let own = base.dtype === child.dtype ? base : undefined;
  for (const axis of axes) {
    // An order says nothing where there is one position, or where each is a single element.
    if (child.shape[axis] === base.shape[axis] && (rank === 1 || child.shape[axis] === 1)) continue;
    const minKnown = Math.max(1, minKnownShare * Math.min(child.shape[axis]!, base.shape[axis]!));
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
