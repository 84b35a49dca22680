/**
 * The stored form of a byte plane in both plane encodings: one byte of every element, in segments of 2^20
 * elements. Each segment is rANS-coded where that pays, in two contexts: whether the element's higher bytes
 * have any bit that counts ("touched"), or none yet.
 *
 * Bytes of a segment: mode u8 (0 raw, 1 coded) ‖ sized bytes; coded: sized frequency tables ‖ stream.
 */
import { ByteReader, ByteWriter } from "./bytes.js";
import { normaliseFrequencies, frequencyTotal } from "./frequencies.js";
import { roughLog2 } from "./numbers.js";
import {
  codeNumber,
  newBitModel,
  numberContexts,
  RangeDecoder,
  RangeEncoder,
  type BitCoder,
} from "./range-coder.js";
import { encodingMalformed } from "./encoding-malformed.js";
import type { PlaneArrays, KernelMemory } from "./kernel-memory.js";

export const segmentElements = 2 ** 20;
const alphabetSize = 256;
/** A segment is coded only where that leaves at most this share of the bytes, because decoding takes time. */
const maxCodedShare = 0.99;

/** First element and length of every segment. */
export function segmentsOf(count: number): readonly { readonly from: number; readonly length: number }[] {
  return Array.from({ length: Math.ceil(count / segmentElements) }, (_, i) => ({
    from: i * segmentElements,
    length: Math.min(segmentElements, count - i * segmentElements),
  }));
}

/**
 * Encodes the segment of `length` bytes at `plane` in the kernels' memory, by the contexts in the arrays'
 * `state`.
 */
export function encodeSegment(
  memory: KernelMemory,
  arrays: PlaneArrays,
  plane: number,
  length: number,
): Uint8Array {
  const symbols = arrays.heap.u8.subarray(plane, plane + length);
  const coded = codeSymbols(memory, arrays, symbols);
  const out = new ByteWriter();
  out.u8(coded === undefined ? 0 : 1);
  out.sized(coded ?? symbols);
  return out.finish();
}

/** Estimated cost of a symbol in a table, and of a segment beyond its symbols and table, in bits. */
const shareBits = 5;
const segmentBits = 16 * 8;
/** The bits of a plane that is stored raw, beyond its bytes. */
const rawSegmentBits = 4 * 8;

/** Returns undefined where coding does not pay. */
function codeSymbols(
  memory: KernelMemory,
  { heap: { u8, u16 }, state, indices, stream, streamEnd }: PlaneArrays,
  symbols: Uint8Array,
): Uint8Array | undefined {
  const counts = [new Uint32Array(alphabetSize), new Uint32Array(alphabetSize)] as const;
  for (let i = 0; i < symbols.length; i++) counts[u8[state + i]! as 0 | 1][symbols[i]!]!++;
  const rows = counts.map((row) => {
    const shares = new Uint16Array(alphabetSize);
    normaliseFrequencies(row, shares);
    return shares;
  });
  if (expectedBits(counts, rows) + segmentBits > 8 * maxCodedShare * symbols.length) return undefined;
  for (let i = 0; i < symbols.length; i++) u16[(indices >> 1) + i] = (u8[state + i]! << 8) | symbols[i]!;
  const table = memory.frequencyTables(rows, [], false, { alphabetSize });
  const begin = memory.kernels.ransEncode(indices, symbols.length, table, stream, streamEnd);
  if (begin === 0) return undefined;
  const out = new ByteWriter();
  const coder = new RangeEncoder();
  codeShares(coder, rows);
  out.sized(coder.finish());
  out.bytes(u8.subarray(begin, streamEnd));
  return out.length < symbols.length ? out.finish() : undefined;
}

/** Bits of the symbols and, roughly, of the table. */
function expectedBits(counts: readonly Uint32Array[], rows: readonly Uint16Array[]): number {
  let bits = 0;
  rows.forEach((shares, context) =>
    shares.forEach((share, symbol) => {
      if (share > 0) bits += counts[context]![symbol]! * (11 - roughLog2(share)) + shareBits;
    }),
  );
  return bits;
}

/** Elements whose bytes are counted for an estimate. */
const countedElements = 1024;
/** Bits by which entropy comes out too low for each symbol that was seen. */
const millerMadow = 0.72;
const counts = new Uint32Array(2 * alphabetSize);
const logarithms = Float64Array.from({ length: countedElements + 1 }, (_, count) => roughLog2(count));

/**
 * Estimates how many bits the planes of elements of `width` bytes take, against a base or without: the
 * entropy of each plane's bytes in a sample, and its table.
 */
export function estimatePlanes(bytes: Uint8Array, base: Uint8Array | undefined, width: number): number {
  const count = bytes.length / width;
  const step = spacingFrom(Math.ceil(count / countedElements));
  const touched = new Uint8Array(Math.ceil(count / step));
  let bits = 0;
  for (let plane = width - 1; plane >= 0; plane--) {
    counts.fill(0);
    for (let i = 0, at = plane; i < touched.length; i++, at += step * width) {
      const symbol = (bytes[at]! - (base === undefined ? 0 : base[at]!)) & 255;
      counts[touched[i]! * alphabetSize + symbol]!++;
      if (base !== undefined && symbol !== 0) touched[i] = 1;
    }
    bits += Math.min(8 * count + rawSegmentBits, segmentBits + countedBits(count / touched.length));
  }
  return bits;
}

/** The next odd number that is not a multiple of 3, so that kernels of 3 × 3 are sampled at every position. */
function spacingFrom(step: number): number {
  return step % 2 !== 0 && (step === 1 || step % 3 !== 0) ? step : spacingFrom(step + 1);
}

/**
 * Bits of what was counted in both contexts, each time for so many elements, and of the tables. A sample's entropy
 * comes out too low; the term of Miller and Madow corrects that.
 */
function countedBits(each: number): number {
  let entropy = 0;
  let used = 0;
  for (let start = 0; start < counts.length; start += alphabetSize) {
    let total = 0;
    for (let at = start; at < start + alphabetSize; at++) {
      const count = counts[at]!;
      if (count === 0) continue;
      used++;
      total += count;
      entropy -= count * logarithms[count]!;
    }
    entropy += total * logarithms[total]!;
  }
  return each * (entropy + (each > 1 ? millerMadow * used : 0)) + shareBits * used;
}

/** A segment as it is stored. */
export interface StoredSegment {
  readonly isCoded: boolean;
  readonly bytes: Uint8Array;
}

/** Reads the segments of a plane of `count` bytes. @throws DELTA_MALFORMED */
export function readSegments(bytes: Uint8Array, count: number): readonly StoredSegment[] {
  const reader = new ByteReader(bytes);
  const segments = segmentsOf(count).map(({ length }) => {
    const mode = reader.u8();
    const part = reader.sized();
    if (mode > 1 || (mode === 0 && part.length !== length))
      throw encodingMalformed("a byte plane is not as long as the tensor");
    return { isCoded: mode === 1, bytes: part };
  });
  if (reader.remaining > 0) throw encodingMalformed("a byte plane is longer than the tensor");
  return segments;
}

/** The frequency of symbol 0 (of 2048) from which on the kernel that predicts it is faster. */
const mostlyZero = 1600;

/** A coded segment with its table read: frequencies by context, and the stream. */
interface CodedSegment {
  readonly rows: readonly Uint16Array[];
  readonly stream: Uint8Array;
}

function openSegment(bytes: Uint8Array): CodedSegment {
  const reader = new ByteReader(bytes);
  const rows = [new Uint16Array(alphabetSize), new Uint16Array(alphabetSize)];
  codeShares(new RangeDecoder(reader.sized()), rows);
  for (const row of rows) {
    const sum = row.reduce((total, share) => total + share, 0);
    if (sum !== 0 && sum !== frequencyTotal)
      throw encodingMalformed("a table of frequencies does not add up");
  }
  return { rows, stream: reader.rest() };
}

function hasRow(row: Uint16Array | undefined): boolean {
  return row?.some((share) => share > 0) === true;
}

/** The kernels' memory for decoding one segment of every plane. */
export interface SegmentMemory {
  readonly memory: KernelMemory;
  /**
   * The memory of planes: its contexts (`state`) are overwritten; its array for streams must hold those of
   * all planes together.
   */
  readonly arrays: PlaneArrays;
  /** Elements of the segment. */
  readonly length: number;
}

/**
 * Decodes the segments of planes, the highest plane first, into the planes' arrays in the kernels' memory.
 * @param masks for each plane the bits that affect the contexts of the planes below; 0: none
 * @throws DELTA_MALFORMED
 */
export function decodeSegments(
  target: SegmentMemory,
  segments: readonly StoredSegment[],
  masks: readonly number[],
): void {
  const { memory, arrays, length } = target;
  const { heap, planes, stride, state } = arrays;
  const { u8 } = heap;
  const opened = segments.map(({ isCoded, bytes }) => (isCoded ? openSegment(bytes) : undefined));
  u8.fill(0, state, state + length);
  let hasTouched = false;
  for (let plane = 0, done = 1; plane < segments.length; plane += done) {
    const own = opened[plane];
    const below = opened[plane + 1];
    const offset = planes + plane * stride;
    done = 1;
    if (own === undefined) u8.set(segments[plane]!.bytes, offset);
    else if (!hasTouched && own.rows[0]![0]! >= mostlyZero) decodeMostlyZero(target, own, offset);
    else if (!hasAllRows(own, hasTouched)) decodeSparsely(target, own, offset);
    else if (below !== undefined && hasAllRows(below, hasTouched || masks[plane] !== 0)) {
      decodeTwo(target, [own, below], masks[plane]!, offset);
      done = 2;
    } else decodeOne(target, own, offset);
    if (opened.slice(plane + done).every((segment) => segment === undefined)) {
      copyRaw(arrays, segments, plane + done);
      return;
    }
    for (let marked = plane; marked < plane + done; marked++) {
      if (masks[marked] === 0) continue;
      memory.kernels.markTouched(planes + marked * stride, length, masks[marked]!, state);
      hasTouched = true;
    }
  }
}

/** True if a segment has frequencies for every context that may occur. */
function hasAllRows({ rows }: CodedSegment, canBeTouched: boolean): boolean {
  return hasRow(rows[0]) && (!canBeTouched || hasRow(rows[1]));
}

function checkEnd(result: number): void {
  if (result < 0) throw encodingMalformed("a byte plane's symbols do not end where they should");
}

function copyRaw(
  { heap: { u8 }, planes, stride }: PlaneArrays,
  segments: readonly StoredSegment[],
  first: number,
): void {
  for (let plane = first; plane < segments.length; plane++)
    u8.set(segments[plane]!.bytes, planes + plane * stride);
}

/**
 * Decodes a plane without contexts whose most frequent symbol is 0: the kernel predicts it, which is faster.
 */
function decodeMostlyZero({ memory, arrays, length }: SegmentMemory, own: CodedSegment, plane: number): void {
  const { stream } = arrays;
  arrays.heap.u8.set(own.stream, stream);
  const table = memory.planeTables([{ rows: own.rows.slice(0, 1), mask: 0 }]);
  const zeroShare = own.rows[0]![0]!;
  const end = stream + own.stream.length;
  checkEnd(memory.kernels.ransDecodeMostlyZero(length, table, zeroShare, stream, end, plane));
}

function decodeOne({ memory, arrays, length }: SegmentMemory, own: CodedSegment, plane: number): void {
  const { stream, state } = arrays;
  arrays.heap.u8.set(own.stream, stream);
  const table = memory.planeTables([{ rows: own.rows, mask: 0 }]);
  const end = stream + own.stream.length;
  checkEnd(memory.kernels.ransDecodeOne(state, length, table, stream, end, plane));
}

/**
 * Decodes a plane without frequencies for one of its contexts; bytes in which that context occurs are
 * refused.
 */
function decodeSparsely({ memory, arrays, length }: SegmentMemory, own: CodedSegment, plane: number): void {
  const { stream, state } = arrays;
  arrays.heap.u8.set(own.stream, stream);
  const rows = own.rows.map((row) => (hasRow(row) ? row : undefined));
  const table = memory.frequencyTables(rows, [], true);
  const end = stream + own.stream.length;
  checkEnd(memory.kernels.ransDecode(state, length, table, stream, end, plane));
}

/** Decodes two planes together, so that the processor can overlap the work. @param mask of the upper one */
function decodeTwo(
  { memory, arrays, length }: SegmentMemory,
  [own, below]: readonly [CodedSegment, CodedSegment],
  mask: number,
  plane: number,
): void {
  const { heap, stream, state, stride } = arrays;
  const { scratch } = memory;
  const middle = stream + own.stream.length;
  heap.u8.set(own.stream, stream);
  heap.u8.set(below.stream, middle);
  heap.u32.set([stream, middle, middle, middle + below.stream.length], scratch >> 2);
  const tables = memory.planeTables([
    { rows: own.rows, mask },
    { rows: below.rows, mask: 0 },
  ]);
  checkEnd(memory.kernels.ransDecodeTwo(state, length, tables, scratch, plane, stride));
}

function codeShares(coder: BitCoder, rows: readonly Uint16Array[]): void {
  const flags = newBitModel(4);
  const values = newBitModel(numberContexts);
  for (const row of rows) {
    let before = 0;
    for (let s = 0; s < alphabetSize; s++) {
      before = coder.bit(flags, before, row[s]! > 0 ? 1 : 0);
      if (before === 0) continue;
      const share = codeNumber(coder, values, row[s]!);
      if (share < 1 || share > frequencyTotal) throw encodingMalformed("a frequency is out of range");
      row[s] = share;
    }
  }
}
