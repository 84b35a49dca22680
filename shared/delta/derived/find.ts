/**
 * Finds how a tensor follows from its references, by content: equal numbers in a sample, equal rows or columns by their
 * hashes. Tensors that do not follow are told by a sample of their elements. Pure.
 */
import { dtypeBits, type DType } from "../../tensor/dtype.js";
import { hasSameHeader } from "../../tensor/same-header.js";
import type { Tensor, TensorHeader } from "../../tensor/tensor.js";
import { derive, sourceOf, type Derivation } from "./derivation.js";
import { findBlocks, inBlocks } from "./blocks.js";
import { findMeanWeighting, findWeightedAverage } from "./find-average.js";
import { findQuantisation } from "./find-quantisation.js";
import { canCast, canScale } from "./float-numbers.js";
import { findTaken } from "./find-taken.js";
import { transposed, pick, sampledPositions } from "./positions.js";
import { hasCodes, quantised, type Scaling } from "./quantisation.js";

/** The number of elements that are compared; a share of them must be equal. */
const comparedElements = 512;
const minEqualShare = 0.5;
const maxRank = 4;
const maxOctaves = 60;

function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((size, i) => size === b[i]);
}

/** True if two samples of one type and length are mostly equal. */
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

/** A child and its references, and the same elements of each of them, picked when first needed. */
class Compared {
  readonly base: Tensor;
  readonly hasBaseShape: boolean;
  #positions: Int32Array | undefined;
  #sample: Tensor | undefined;
  constructor(
    readonly child: Tensor,
    readonly references: readonly Tensor[],
  ) {
    this.base = references[0]!;
    this.hasBaseShape = sameShape(child.shape, this.base.shape);
  }

  get positions(): Int32Array {
    const { dtype, bytes } = this.child;
    return (this.#positions ??= sampledPositions((8 * bytes.length) / dtypeBits(dtype), comparedElements));
  }
  get sample(): Tensor {
    return (this.#sample ??= pick(this.child, this.positions));
  }
  /** True if most numbers of the sample are the base's, after this and a cast; the shapes are the same. */
  followsBy(change: Omit<Derivation, "averaged" | "dtype">): boolean {
    const { dtype } = this.child;
    return looksEqual(
      this.sample,
      derive([pick(this.base, this.positions)], { ...change, averaged: 1, dtype }),
    );
  }
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
  const compared = new Compared(child, references);
  if (base.dtype !== dtype && compared.hasBaseShape && compared.followsBy({}))
    return { derivation: { averaged: 1, dtype } };
  const found =
    findAverage(compared) ??
    findScale(compared) ??
    findTaken(child, base) ??
    findAxes(compared) ??
    (compared.hasBaseShape && references.length > 1
      ? findWeightedAverage(child, references, compared.positions)
      : undefined);
  return found === undefined ? undefined : { derivation: { averaged: 1, ...found, dtype } };
}

/** The tensor that was found to follow, without new positions. */
export function deriveFound(
  references: readonly Tensor[],
  { derivation, scaling }: FoundDerivation,
  header: TensorHeader,
): Tensor {
  const { quantisation, blocks } = derivation;
  if (blocks !== undefined) return inBlocks(sourceOf(references, derivation), blocks, header);
  if (quantisation === undefined || scaling === undefined) return derive(references, derivation);
  return quantised(sourceOf(references, derivation), quantisation, scaling, header);
}

/** Quantised, or dequantised: as it is, or with rows and columns exchanged first. */
function findQuantised(child: Tensor, [base, reference]: readonly Tensor[]): FoundDerivation | undefined {
  const { dtype } = child;
  const blocks = findBlocks(child, base!);
  if (blocks !== undefined) return { derivation: { averaged: 1, blocks, dtype } };
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

function findAverage(compared: Compared): Found | undefined {
  const { child, references, base } = compared;
  if (references.length < 2 || !compared.hasBaseShape || !canScale(base.dtype)) return undefined;
  if (!references.every((each) => hasSameHeader(each, base))) return undefined;
  const samples = references.map((each) => pick(each, compared.positions));
  for (let averaged = references.length; averaged > 1; averaged--)
    if (looksEqual(compared.sample, derive(samples, { averaged, dtype: child.dtype })))
      return { averaged, weighting: findMeanWeighting(child, references.slice(0, averaged)) };
  return undefined;
}

/**
 * The place of each type's exponent: bytes of a number, bits below it in the highest two of them, its largest value.
 */
const exponentFields: Partial<Record<DType, readonly [number, number, number]>> = {
  F32: [4, 7, 255],
  BF16: [2, 7, 255],
  F16: [2, 10, 31],
};

/** Reads exponents; a single one is undefined where it cannot be scaled. */
function exponentReader({ dtype, bytes }: Tensor): ((index: number) => number | undefined) | undefined {
  const field = exponentFields[dtype];
  if (field === undefined) return undefined;
  const [width, below, mask] = field;
  return (index) => {
    const end = (index + 1) * width;
    const exponent = ((bytes[end - 2]! | (bytes[end - 1]! << 8)) >>> below) & mask;
    return exponent === 0 || exponent === mask ? undefined : exponent - (mask >> 1);
  };
}

/** Numbers whose exponents tell by which power of two a tensor was scaled, if it was. */
const votingElements = 64;

/** A power of two between the numbers: the one that most of a few numbers have between their exponents. */
function findScale(compared: Compared): Found | undefined {
  const { child, base, hasBaseShape } = compared;
  const exponentOf = exponentReader(child);
  const baseExponentOf = exponentReader(base);
  if (!hasBaseShape || exponentOf === undefined || baseExponentOf === undefined) return undefined;
  const count = child.shape.reduce((product, size) => product * size, 1);
  const step = Math.max(1, Math.floor(count / votingElements));
  // Boyer and Moore's majority vote.
  let octaves = 0;
  let votes = 0;
  for (let i = 0; i < count; i += step) {
    const to = exponentOf(i);
    const from = baseExponentOf(i);
    if (to === undefined || from === undefined) continue;
    if (votes === 0) octaves = to - from;
    votes += to - from === octaves ? 1 : -1;
  }
  const isPossible = votes > 0 && octaves !== 0 && Math.abs(octaves) <= maxOctaves;
  return isPossible && compared.followsBy({ octaves }) ? { octaves } : undefined;
}

function findAxes(compared: Compared): Found | undefined {
  const { child, base } = compared;
  const rank = child.shape.length;
  if (rank < 2 || rank > maxRank || base.shape.length !== rank) return undefined;
  for (const axes of permutations(rank)) {
    // Axes of one position may change places without any effect.
    const isSame = axes
      .filter((axis) => base.shape[axis] !== 1)
      .every((axis, i, moved) => i === 0 || axis > moved[i - 1]!);
    const shape = axes.map((axis) => base.shape[axis]!);
    if (isSame || !sameShape(shape, child.shape)) continue;
    const from = pick(base, beforeTransposing(compared.positions, child.shape, axes));
    if (looksEqual(compared.sample, derive([from], { averaged: 1, dtype: child.dtype }))) return { axes };
  }
  return undefined;
}

/** Returns where elements of a transposed tensor of this shape were before. */
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
