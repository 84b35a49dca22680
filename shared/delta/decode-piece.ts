/** Decodes one piece, checking everything that its bytes claim. */
import { ByteReader } from "./bytes.js";
import { encodingCodes } from "./encoded.js";
import { encodingMalformed } from "./encoding-malformed.js";
import type { KernelMemory } from "./kernel-memory.js";
import {
  computeContexts,
  flagBits,
  maxAlpha64,
  predictors,
  preparePrediction,
  symbolMapping,
  type Piece,
  type PieceReferences,
  type PieceShape,
  type Prediction,
  type SymbolMapping,
} from "./piece.js";
import { readSideInformation, type SideInformation } from "./side-information.js";

const { rans } = encodingCodes;
const allFlags = 63;

export interface StoredPiece extends PieceReferences {
  readonly code: typeof encodingCodes.packed | typeof rans;
  readonly bytes: Uint8Array;
}

/** A piece whose streams are being read. */
interface Decoding extends Piece {
  readonly mapping: SymbolMapping;
  /** Byte offset of the prediction's lanes; 0 where no symbol is a difference. */
  readonly prediction: number;
}

/**
 * Decodes a piece into `target`, which is exactly `count` numbers long. @throws DELTA_MALFORMED
 */
export function decodePiece(
  memory: KernelMemory,
  shape: PieceShape,
  stored: StoredPiece,
  target: Uint8Array,
): void {
  const { kind, count, view } = shape;
  const usesRans = stored.code === rans;
  const reader = new ByteReader(stored.bytes);
  const head = readHead(reader, shape);
  checkReferences(head, stored);
  const side = readSideInformation(reader.sized(), view, { ...head, usesRans });
  const sizedStreams = Array.from({ length: usesRans ? 2 : 3 }, () => reader.sized());
  const streams = [...sizedStreams, reader.rest()];
  const streamBytes = streams.reduce((sum, { length }) => sum + length + readAheadBytes, 0);
  const arrays = memory.pieceArrays(count, view, streamBytes);
  const piece: Piece = { memory, arrays, ...shape };
  const mapping = symbolMapping(kind, head, head.mean);
  const hasExponents = mapping.alphabet === "exponents";
  // Contexts of exponents do not depend on a prediction.
  const prediction = hasExponents ? arrays.base : preparePrediction(piece, head, stored);
  computeContexts(piece, mapping, side.scales, prediction);
  const decoding = { ...piece, mapping, prediction: hasExponents ? 0 : prediction };
  if (usesRans) readRans(decoding, side, streams);
  else readPacked(decoding, side, streams);
  storeLanes(piece, target);
}

interface Head extends Prediction {
  readonly mean: number;
  /** The vectors of scales that follow: of rows, columns, inner elements. */
  readonly present: readonly [boolean, boolean, boolean];
}

/** @throws DELTA_MALFORMED */
function readHead(reader: ByteReader, { kind }: PieceShape): Head {
  const flags = reader.u8();
  const predictor = predictors[flags & 3];
  if (predictor === undefined || flags > allFlags) throw encodingMalformed("its flags name no predictor");
  const inUnits = (flags & flagBits.inUnits) !== 0;
  if (inUnits && (predictor === "none" || !kind.isFloat))
    throw encodingMalformed("only floats with a prediction differ by units");
  const mean = reader.i16();
  const alpha64 = predictor === "extrapolated" ? reader.i16() : 0;
  if (
    mean < -600 ||
    mean > 512 ||
    Math.abs(alpha64) > maxAlpha64 ||
    (predictor === "extrapolated" && !kind.isFloat)
  )
    throw encodingMalformed("a scale or factor is out of range");
  const present = [
    (flags & flagBits.rows) !== 0,
    (flags & flagBits.columns) !== 0,
    (flags & flagBits.inner) !== 0,
  ] as const;
  return { predictor, alpha64, inUnits, mean, present };
}

/** @throws DELTA_MALFORMED */
function checkReferences({ predictor }: Prediction, { base, previous }: PieceReferences): void {
  if (predictor !== "none" && base === undefined)
    throw encodingMalformed("it needs a base of the same kind, which is missing");
  if (predictor === "extrapolated" && previous === undefined)
    throw encodingMalformed("it needs the tensor before its base, which is missing");
}

/** Writes the decoded lanes to the tensor's bytes; the counterpart of `loadLanes`. */
function storeLanes({ memory, arrays, kind, count }: Piece, target: Uint8Array): void {
  const { u8 } = arrays.heap;
  if (kind.widening === 0) {
    target.set(u8.subarray(arrays.child, arrays.child + target.length));
    return;
  }
  memory.kernels.narrow(arrays.child, arrays.stream, count, kind.widening);
  target.set(u8.subarray(arrays.stream, arrays.stream + target.length));
}

/** Gap after each stream, which the kernels may read but do not use. */
const readAheadBytes = 16;

/**
 * Writes the streams one after the other into the kernels' memory, and the offset and the number of bits of
 * each into the scratch words.
 */
function placeStreams(
  { memory, arrays: { heap, stream } }: Decoding,
  streams: readonly Uint8Array[],
): number {
  let offset = stream;
  streams.forEach((bytes, i) => {
    heap.u8.set(bytes, offset);
    heap.u32[(memory.scratch >> 2) + 2 * i] = offset;
    heap.u32[(memory.scratch >> 2) + 2 * i + 1] = 8 * bytes.length;
    offset += bytes.length + readAheadBytes;
  });
  return memory.scratch;
}

/** @throws DELTA_MALFORMED */
function readPacked(decoding: Decoding, { lengths }: SideInformation, streams: readonly Uint8Array[]): void {
  const { memory, arrays, count, mapping, prediction } = decoding;
  const { alphabet, orderMask, shift, emax } = mapping;
  const { u32 } = arrays.heap;
  const table = memory.codeTables(lengths, memory.expected(alphabet, shift), true);
  const scratch = placeStreams(decoding, streams);
  const result = memory.kernels.unpackBits(
    prediction,
    arrays.contexts,
    count,
    table,
    scratch,
    orderMask,
    shift,
    emax,
    arrays.child,
  );
  const bytesRead = (stream: number): number => Math.ceil(u32[(scratch >> 2) + 2 * stream + 1]! / 8);
  if (result < 0 || streams.some(({ length }, i) => bytesRead(i) !== length))
    throw encodingMalformed("its streams do not hold as many numbers as the tensor has");
}

/**
 * Decodes the symbols into the array of indices, then reads the bits that they leave open. @throws
 * DELTA_MALFORMED
 */
function readRans(
  decoding: Decoding,
  { frequencies }: SideInformation,
  [symbols, ...extras]: readonly Uint8Array[],
): void {
  const { memory, arrays, count, mapping, prediction } = decoding;
  const { alphabet, orderMask, shift, emax } = mapping;
  const expected = memory.expected(alphabet, shift);
  const table = memory.frequencyTables(frequencies, expected.frequencies, true);
  const half = count >> 1;
  placeStreams(decoding, [symbols!]);
  const result = memory.kernels.ransDecode(
    arrays.contexts,
    count,
    table,
    arrays.stream,
    arrays.stream + symbols!.length,
    arrays.indices,
  );
  if (result < 0) throw encodingMalformed("its symbols do not end where they should");
  const scratch = placeStreams(decoding, extras);
  const readExtras = (which: 0 | 1, first: number, numbers: number): boolean => {
    const stream = arrays.heap.u32[(scratch >> 2) + 2 * which]!;
    const { length } = extras[which]!;
    const bits = memory.kernels.unpackExtras(
      prediction === 0 ? 0 : prediction + 4 * first,
      arrays.indices + first,
      numbers,
      expected.extraDecoding,
      stream,
      8 * length,
      orderMask,
      shift,
      emax,
      arrays.child + 4 * first,
    );
    return bits >= 0 && Math.ceil(bits / 8) === length;
  };
  if (!readExtras(0, 0, half) || !readExtras(1, half, count - half))
    throw encodingMalformed("its numbers do not end where they should");
}
