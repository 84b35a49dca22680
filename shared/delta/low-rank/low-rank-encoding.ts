/**
 * A tensor predicted by its base and a product of two factors (docs/codec.md, "Low rank"): the predicted
 * tensor is the base of an ordinary encoding.
 *
 * Bytes: flags u8 (1: the line through previous and base) ‖ alpha·64 i16 where flagged ‖ split u8 ‖ rank u8 ‖
 * factors, sized ‖ code u8 and bytes of the difference from the predicted tensor.
 */
import { ByteReader, ByteWriter } from "../bytes.js";
import { decodePiece } from "../decode-piece.js";
import { encodingCodes, type EncodedTensor, type EncodingCode } from "../encoded.js";
import { encodePiece, type EncodedPiece } from "../encode-piece.js";
import { encodingMalformed } from "../encoding-malformed.js";
import { estimateNumbers } from "../estimate.js";
import type { KernelMemory } from "../kernel-memory.js";
import { numberKind, type NumberKind } from "../numbers.js";
import { maxAlpha64 } from "../piece.js";
import { numberCount, numberShape, referenceMissing, type TensorPart } from "../tensor-part.js";
import { chooseFactors, type ChosenFactors } from "./choose.js";
import { isPossibleRank, readScales, writeScales, type Factors, type MatrixSize } from "./factors.js";
import { predictLowRank, type LinePrediction } from "./prediction.js";

const extrapolatedFlag = 1;
const integers = numberKind("I32")!;
const alone = { predictor: "none", alpha64: 0, inUnits: false } as const;
interface RawLevels {
  readonly code: typeof encodingCodes.raw;
  readonly bytes: Uint8Array;
}

/** Encodings that may follow the factors. */
const innerCodes: ReadonlySet<number> = new Set([
  encodingCodes.equal,
  encodingCodes.packed,
  encodingCodes.rans,
  encodingCodes.parts,
]);

/** A part of floats with its bytes. */
export interface LowRankSource extends TensorPart {
  readonly kind: NumberKind;
  readonly bytes: Uint8Array;
  /** The highest rank to be looked for; undefined: any. */
  readonly maxRank?: number | undefined;
}

/**
 * @param encodePart encodes the part against another base @returns undefined where no factors are worth it
 */
export function encodeLowRank(
  memory: KernelMemory,
  part: LowRankSource,
  encodePart: (base: Uint8Array) => EncodedTensor,
): EncodedTensor | undefined {
  const { kind, bytes, base, previous } = part;
  if (!kind.isFloat || base === undefined) return undefined;
  const { predictor, alpha64 } = estimateNumbers(kind, numberCount(part.dtype, bytes.length), part);
  if (predictor === "none") return undefined;
  const line: LinePrediction = { kind, alpha64, references: { base, previous } };
  let best: (ChosenFactors & { readonly split: number }) | undefined;
  for (const { split, rows, columns } of unfoldings(numberShape(part))) {
    const found = chooseFactors(memory, { rows, columns, line, bytes }, part.maxRank);
    if (found !== undefined && (best === undefined || found.bits < best.bits)) best = { ...found, split };
  }
  if (best === undefined) return undefined;
  const out = new ByteWriter();
  out.u8(predictor === "extrapolated" ? extrapolatedFlag : 0);
  if (predictor === "extrapolated") out.i16(alpha64);
  out.u8(best.split);
  out.u8(best.factors.rank);
  out.sized(writeScales(best.factors));
  for (const factor of [best.factors.left, best.factors.right]) {
    const { code, bytes: coded } = encodeLevels(memory, factor, best.factors.rank);
    out.u8(code);
    out.sized(coded);
  }
  const inner = encodePart(predictLowRank(memory, line, best.factors));
  if (!innerCodes.has(inner.code) || !inner.against.base) return undefined;
  out.u8(inner.code);
  out.bytes(inner.bytes);
  return {
    code: encodingCodes.lowRank,
    bytes: out.finish(),
    against: { base: true, previous: predictor === "extrapolated" },
  };
}

/** The numbers of one side as integers, a row for each component. */
function encodeLevels(memory: KernelMemory, levels: Int32Array, rank: number): EncodedPiece | RawLevels {
  const bytes = new Uint8Array(levels.buffer, levels.byteOffset, levels.byteLength);
  const view = { rows: rank, columns: 1, inner: levels.length / rank };
  return (
    encodePiece(memory, { kind: integers, count: levels.length, view }, { bytes }, alone) ?? {
      code: encodingCodes.raw,
      bytes,
    }
  );
}

/** Returns the predicted tensor and what is to be decoded against it. @throws DELTA_MALFORMED */
export function readLowRank(
  memory: KernelMemory,
  part: TensorPart & { readonly kind: NumberKind },
  bytes: Uint8Array,
): { readonly predicted: Uint8Array; readonly code: EncodingCode; readonly bytes: Uint8Array } {
  const { kind, base, previous } = part;
  const reader = new ByteReader(bytes);
  const isExtrapolated = readFlags(reader);
  if (!kind.isFloat) throw encodingMalformed(`${part.dtype} has no low-rank encoding`);
  const alpha64 = isExtrapolated ? reader.i16() : 0;
  if (Math.abs(alpha64) > maxAlpha64) throw encodingMalformed("a factor is out of range");
  const size = unfold(numberShape(part), reader.u8());
  const rank = reader.u8();
  if (size === undefined || !isPossibleRank(size, rank))
    throw encodingMalformed("its factors do not have the tensor's shape");
  const scales = readScales(reader.sized(), size, rank);
  const left = readLevels(memory, reader, { count: rank * size.rows, rank });
  const right = readLevels(memory, reader, { count: rank * size.columns, rank });
  const code = reader.u8();
  if (!innerCodes.has(code)) throw encodingMalformed("its difference has another code than it may have");
  if (base === undefined) throw referenceMissing(part, "base");
  if (isExtrapolated && previous === undefined) throw referenceMissing(part, "previous");
  const factors: Factors = { ...size, rank, ...scales, left, right };
  const predicted = predictLowRank(memory, { kind, alpha64, references: { base, previous } }, factors);
  return { predicted, code: code as EncodingCode, bytes: reader.rest() };
}

/** @throws DELTA_MALFORMED */
function readLevels(
  memory: KernelMemory,
  reader: ByteReader,
  { count, rank }: { readonly count: number; readonly rank: number },
): Int32Array {
  const code = reader.u8();
  const bytes = reader.sized();
  const levels = new Int32Array(count);
  const target = new Uint8Array(levels.buffer);
  if (code === encodingCodes.raw && bytes.length === target.length) target.set(bytes);
  else if (code === encodingCodes.packed || code === encodingCodes.rans)
    decodePiece(
      memory,
      { kind: integers, count, view: { rows: rank, columns: 1, inner: count / rank } },
      { code, bytes },
      target,
    );
  else throw encodingMalformed("its factors have another code than they may have");
  return levels;
}

/** Returns which references a low-rank encoding needs. @throws DELTA_MALFORMED */
export function requiredByLowRank(bytes: Uint8Array): EncodedTensor["against"] {
  return { base: true, previous: readFlags(new ByteReader(bytes)) };
}

function readFlags(reader: ByteReader): boolean {
  const flags = reader.u8();
  if (flags > extrapolatedFlag) throw encodingMalformed("its flags name no prediction");
  return flags === extrapolatedFlag;
}

/** A tensor as a matrix: the first `split` dimensions give the row, the others the column. */
interface Unfolding extends MatrixSize {
  readonly split: number;
}

/** Smaller matrices have no structure that pays for its factors. */
const minSide = 4;
const minNumbers = 1024;
/** Sides longer than this are not worth their memory. */
const maxSide = 2 ** 20;
const maxUnfoldings = 2;

/** The unfolding at `split`; undefined where that does not cut the shape in two. */
function unfold(shape: readonly number[], split: number): Unfolding | undefined {
  if (split < 1 || split >= shape.length) return undefined;
  const product = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1);
  return { split, rows: product(shape.slice(0, split)), columns: product(shape.slice(split)) };
}

/** The unfoldings worth trying, the one with the fewest rows and columns first. */
function unfoldings(shape: readonly number[]): readonly Unfolding[] {
  const all: Unfolding[] = [];
  for (let split = 1; split < shape.length; split++) {
    const found = unfold(shape, split);
    if (
      found !== undefined &&
      Math.min(found.rows, found.columns) >= minSide &&
      Math.max(found.rows, found.columns) <= maxSide &&
      found.rows * found.columns >= minNumbers
    )
      all.push(found);
  }
  const sides = ({ rows, columns }: Unfolding): number => rows + columns;
  return all.sort((a, b) => sides(a) - sides(b)).slice(0, maxUnfoldings);
}
