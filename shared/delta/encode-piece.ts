/** Encodes one piece: chooses scales and tables that fit its numbers, then writes its streams. */
import { ByteWriter } from "./bytes.js";
import { chooseTables, type TableChoice } from "./choose-tables.js";
import { encodingCodes } from "./encoded.js";
import type { ExpectedTables, KernelMemory } from "./kernel-memory.js";
import {
  computeContexts,
  flagBits,
  loadLanes,
  predictors,
  preparePrediction,
  symbolMapping,
  type Piece,
  type PieceReferences,
  type PieceShape,
  type Prediction,
  type SymbolMapping,
} from "./piece.js";
import { scalesOf, type Scales } from "./scales.js";
import { contextCount, writeSideInformation } from "./side-information.js";
import { symbolCount } from "./huffman.js";

const { packed, rans } = encodingCodes;

/** Differences in units need no scale: they have one context, whose table describes them. */
const unitScales: Scales = { mean: 0, rows: undefined, columns: undefined, inner: undefined };

export interface PieceSource extends PieceReferences {
  /** Exactly `count` numbers, as in the references. */
  readonly bytes: Uint8Array;
}

export interface EncodedPiece {
  readonly code: typeof packed | typeof rans;
  readonly bytes: Uint8Array;
}

/** A piece whose symbols are being written. */
interface Encoding extends Piece {
  readonly mapping: SymbolMapping;
  /** Byte offset of the prediction's lanes. */
  readonly prediction: number;
}

/** A piece with everything that is decided before its streams are written. */
interface AnalysedPiece {
  readonly encoding: Encoding;
  readonly scales: Scales;
  readonly choice: TableChoice;
  readonly expected: ExpectedTables;
}

function analysePiece(
  memory: KernelMemory,
  shape: PieceShape,
  source: PieceSource,
  predicted: Prediction,
): AnalysedPiece {
  const piece: Piece = {
    memory,
    arrays: memory.pieceArrays(shape.count, shape.view, source.bytes.length),
    ...shape,
  };
  const prediction = preparePrediction(piece, predicted, source);
  loadLanes(piece, source.bytes, piece.arrays.child);
  const scales = predicted.inUnits ? unitScales : measureScales(piece, prediction);
  const mapping = symbolMapping(shape.kind, predicted, scales.mean);
  computeContexts(piece, mapping, scales, prediction);
  const encoding: Encoding = { ...piece, mapping, prediction };
  const { counts, totals } = countSymbols(encoding);
  const expected = memory.expected(mapping.alphabet, mapping.shift);
  const choice = chooseTables(counts, totals, expected);
  return { encoding, scales, choice, expected };
}

/** Bits of a piece in this encoding, within a few bytes, without writing it. */
export function measurePiece(
  memory: KernelMemory,
  shape: PieceShape,
  source: PieceSource,
  predicted: Prediction,
): number {
  const { choice, scales } = analysePiece(memory, shape, source, predicted);
  // `choice.bits` counts tables, not vectors of scales.
  return choice.bits + 8 * writeSideInformation({ scales, lengths: [], frequencies: [] }).length;
}

/** Returns undefined where the encoding would not be smaller than the piece's bytes. */
export function encodePiece(
  memory: KernelMemory,
  shape: PieceShape,
  source: PieceSource,
  predicted: Prediction,
): EncodedPiece | undefined {
  const { bytes } = source;
  const { encoding, scales, choice, expected } = analysePiece(memory, shape, source, predicted);
  if (choice.bits / 8 >= bytes.length) return undefined;

  const out = new ByteWriter();
  writeHead(out, predicted, scales);
  out.sized(writeSideInformation({ scales, lengths: choice.lengths, frequencies: choice.frequencies }));
  if (choice.usesRans) writeRans(encoding, out, choice, expected);
  else writePacked(encoding, out, choice, expected);
  return out.length < bytes.length
    ? { code: choice.usesRans ? rans : packed, bytes: out.finish() }
    : undefined;
}

/** Measures the magnitudes of the differences; uses the arrays of scales for the sums. */
function measureScales({ memory, arrays, kind, view }: Piece, prediction: number): Scales {
  const { rows, columns, inner } = view;
  const { f32 } = arrays.heap;
  const hasStructure = rows * columns > 1;
  f32.fill(0, arrays.columns >> 2, (arrays.columns >> 2) + columns);
  if (hasStructure) f32.fill(0, arrays.inner >> 2, (arrays.inner >> 2) + inner);
  memory.kernels.magnitudes(
    prediction,
    arrays.child,
    rows,
    columns,
    inner,
    arrays.rows,
    arrays.columns,
    hasStructure ? arrays.inner : 0,
    kind.isFloat ? 0 : 1,
  );
  const sums = (offset: number, length: number): Float32Array =>
    f32.subarray(offset >> 2, (offset >> 2) + length);
  return scalesOf(
    view,
    sums(arrays.rows, rows),
    sums(arrays.columns, columns),
    hasStructure ? sums(arrays.inner, inner) : undefined,
  );
}

interface SymbolCounts {
  /** The counts by context and symbol. */
  readonly counts: Uint32Array;
  /** The totals by context. */
  readonly totals: Uint32Array;
}

/** Maps every number to its symbol, and counts the symbols of every context. */
function countSymbols({ memory, arrays, count, mapping, prediction }: Encoding): SymbolCounts {
  const { kernels, histogram, totals } = memory;
  const { emax, orderMask, shift, limit } = mapping;
  const { u32 } = arrays.heap;
  const counts = u32.subarray(histogram >> 2, (histogram >> 2) + contextCount * symbolCount);
  counts.fill(0);
  if (mapping.alphabet === "exponents")
    kernels.exponentSymbols(arrays.child, arrays.contexts, count, emax, arrays.indices, histogram);
  else
    kernels.differenceSymbols(
      prediction,
      arrays.child,
      arrays.contexts,
      count,
      emax,
      orderMask,
      shift,
      limit,
      arrays.indices,
      arrays.folded,
      histogram,
    );
  kernels.rowTotals(histogram, totals);
  return { counts, totals: u32.subarray(totals >> 2, (totals >> 2) + contextCount) };
}

function writeHead(out: ByteWriter, { predictor, alpha64, inUnits }: Prediction, scales: Scales): void {
  out.u8(
    predictors.indexOf(predictor) |
      (scales.rows ? flagBits.rows : 0) |
      (scales.columns ? flagBits.columns : 0) |
      (scales.inner ? flagBits.inner : 0) |
      (inUnits ? flagBits.inUnits : 0),
  );
  out.i16(scales.mean);
  if (predictor === "extrapolated") out.i16(alpha64);
}

/** Writes four streams of Huffman codes; each code is followed by the bits that its symbol leaves open. */
function writePacked(
  encoding: Encoding,
  out: ByteWriter,
  { lengths }: TableChoice,
  expected: ExpectedTables,
): void {
  const { memory, arrays, count } = encoding;
  const table = memory.codeTables(lengths, expected, false);
  const middle = 2 * (count >> 2);
  const streams = [
    ...packNumbers(encoding, table, { from: 0, to: middle, target: arrays.stream }),
    ...packNumbers(encoding, table, { from: middle, to: count, target: arrays.secondStream }),
  ];
  streams.forEach((stream, i) => (i < 3 ? out.sized(stream) : out.bytes(stream)));
}

/** Writes one stream of rANS symbols and two streams of the bits that they leave open. */
function writeRans(
  encoding: Encoding,
  out: ByteWriter,
  { frequencies }: TableChoice,
  expected: ExpectedTables,
): void {
  const { memory, arrays, count } = encoding;
  const table = memory.frequencyTables(frequencies, expected.frequencies, false);
  const begin = memory.kernels.ransEncode(arrays.indices, count, table, arrays.stream, arrays.secondStream);
  // rANS was chosen because its stream is shorter than the numbers, so the stream fits.
  if (begin === 0) throw new RangeError("the rANS stream is longer than its frequency tables predict");
  const symbols = arrays.heap.u8.slice(begin, arrays.secondStream);
  const range = { from: 0, to: count, target: arrays.stream };
  const [first, second] = packNumbers(encoding, expected.extraCoding, range);
  out.sized(symbols);
  out.sized(first);
  out.bytes(second);
}

interface PackedRange {
  readonly from: number;
  readonly to: number;
  /** Byte offset of an array for streams. */
  readonly target: number;
}

/**
 * Packs the numbers from `from` to before `to` into two streams and returns views of the kernels' memory: the
 * first stream starts at `target`, the second half an array later.
 */
function packNumbers(
  { memory, arrays, mapping }: Encoding,
  table: number,
  { from, to, target }: PackedRange,
): readonly [Uint8Array, Uint8Array] {
  const { u8, u32 } = arrays.heap;
  const { scratch } = memory;
  const second = target + arrays.halfStream;
  memory.kernels.packBits(
    arrays.indices + 2 * from,
    arrays.folded + 4 * from,
    arrays.child + 4 * from,
    to - from,
    mapping.shift,
    table,
    target,
    second,
    scratch,
  );
  const stream = (start: number, index: number): Uint8Array =>
    u8.subarray(start, start + Math.ceil(u32[(scratch >> 2) + index]! / 8));
  return [stream(target, 0), stream(second, 1)];
}
