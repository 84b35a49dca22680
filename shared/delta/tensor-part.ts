/**
 * Cuts a tensor into parts, as the encoder and the decoder see it. Each part has references of the same shape. Pure.
 */
import { StemmaError } from "../errors.js";
import { dtypeBits, tensorByteLength, type DType } from "../tensor/dtype.js";
import { hasSameHeader } from "../tensor/same-header.js";
import { commonBlock, extractBlock } from "./common-block.js";
import type { References, Tensor, TensorHeader } from "./encoded.js";
import { numberKind, viewOf, type NumberKind } from "./numbers.js";
import type { PieceShape } from "./piece.js";

/** Maximum count of numbers in a piece; it bounds the kernels' memory (about 24 bytes per number). */
export const maxPieceNumbers = 2 ** 21;

/** First byte of an encoding in parts: slabs of a large tensor, or a common block and the rest. */
export const partKinds = { slabs: 1, commonBlock: 2 } as const;

/** Depth of parts within parts: a common block of slabs, slabs of a slab. */
export const maxPartDepth = 4;

/** A tensor or part of one, with the bytes of references of the same type and shape. */
export interface TensorPart extends TensorHeader {
  readonly base: Uint8Array | undefined;
  readonly previous: Uint8Array | undefined;
}

/** @throws TENSOR_SIZE_MISMATCH */
export function checkTensorLength({ dtype, shape }: TensorHeader, length: number): void {
  const expected = tensorByteLength(dtype, shape);
  if (expected !== length)
    throw new StemmaError(
      "TENSOR_SIZE_MISMATCH",
      `A tensor ${dtype} [${shape.join(", ")}] has ${expected} bytes, not ${length}. Check where its header came from.`,
      { expected, actual: length },
    );
}

export function referenceMissing(
  { dtype, shape }: TensorHeader,
  reference: "base" | "previous",
): StemmaError<"DELTA_REFERENCE_MISSING"> {
  const description = reference === "base" ? "a base" : "the tensor before its base";
  return new StemmaError(
    "DELTA_REFERENCE_MISSING",
    `A tensor ${dtype} [${shape.join(", ")}] was encoded against ${description}, which was not given. Load that first, or ask for the tensor raw.`,
    { what: reference },
  );
}

/** The reference, where it has the tensor's type and shape. */
export function sameShapeReference(header: TensorHeader, reference: Tensor | undefined): Tensor | undefined {
  return reference !== undefined && hasSameHeader(header, reference) ? reference : undefined;
}

/** The complete tensor as one part. */
export function wholeTensor({ dtype, shape }: TensorHeader, { base, previous }: References): TensorPart {
  const usable = sameShapeReference({ dtype, shape }, base);
  return {
    dtype,
    shape,
    base: usable?.bytes,
    previous: usable === undefined ? undefined : sameShapeReference(usable, previous)?.bytes,
  };
}

/** Count of numbers in `bytes` bytes of a type; count of bytes where its numbers are not coded as numbers. */
export function numberCount(dtype: DType, bytes: number): number {
  return bytes / (numberKind(dtype)?.bytes ?? 1);
}

/** A part as one piece for the kernels. */
export function pieceShape({ dtype, shape }: TensorHeader, kind: NumberKind, count: number): PieceShape {
  return { kind, count, view: viewOf(numberShape({ dtype, shape }), count) };
}

/** The shape of a tensor's numbers: complex numbers are pairs. */
export function numberShape({ dtype, shape }: TensorHeader): readonly number[] {
  return dtype === "C64" ? [...shape, 2] : shape;
}

/** A part and the bytes of the tensor that it covers. */
export interface Slab {
  readonly part: TensorPart;
  readonly from: number;
  readonly to: number;
}

/** The slabs of a tensor of more than `maxPieceNumbers` numbers, in order. @param length of it in bytes */
export function slabsOf(whole: TensorPart, length: number, kind: NumberKind): readonly Slab[] {
  const { dtype, base, previous } = whole;
  let from = 0;
  return slabShapes(whole, length, kind).map((shape) => {
    const start = from;
    const to = start + tensorByteLength(dtype, shape);
    from = to;
    const part = { dtype, shape, base: base?.subarray(start, to), previous: previous?.subarray(start, to) };
    return { part, from: start, to };
  });
}

/** Slabs are complete rows where a row is short enough, else runs of numbers. */
function slabShapes(
  { dtype, shape }: TensorHeader,
  length: number,
  kind: NumberKind,
): readonly (readonly number[])[] {
  const rowNumbers = length / (shape[0] ?? 1) / kind.bytes;
  const elements = (8 * length) / dtypeBits(dtype);
  const cut = (total: number, each: number, inner: readonly number[]): (readonly number[])[] =>
    Array.from({ length: Math.ceil(total / each) }, (_, i) => [Math.min(each, total - i * each), ...inner]);
  return shape.length > 1 && rowNumbers <= maxPieceNumbers
    ? cut(shape[0]!, Math.floor(maxPieceNumbers / rowNumbers), shape.slice(1))
    : cut(elements, maxPieceNumbers / 2, []);
}

export function elementBytes(dtype: DType): number {
  return dtypeBits(dtype) / 8;
}

/** Shape of the block that a tensor has in common with a base of another shape; undefined: none. */
export function commonBlockWith(
  header: TensorHeader,
  base: Tensor | undefined,
): readonly number[] | undefined {
  return base?.dtype === header.dtype ? commonBlock(header.shape, base.shape) : undefined;
}

/** The common block as a part, with the same block of each reference. */
export function blockPart(
  { dtype }: TensorHeader,
  block: readonly number[],
  { base, previous }: References,
): TensorPart {
  const extract = (tensor: Tensor): Uint8Array =>
    extractBlock(tensor.bytes, tensor.shape, block, elementBytes(dtype));
  const before = base === undefined ? undefined : sameShapeReference(base, previous);
  return {
    dtype,
    shape: block,
    base: base === undefined ? undefined : extract(base),
    previous: before === undefined ? undefined : extract(before),
  };
}

/** Returns the bytes outside the common block, as a part without references. */
export function remainderPart(dtype: DType, bytes: number): TensorPart {
  return { dtype, shape: [bytes / elementBytes(dtype)], base: undefined, previous: undefined };
}
