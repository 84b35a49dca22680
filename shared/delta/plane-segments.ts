/**
 * Rows of bytes, one of every element, as the layouts of byte planes keep them: segments of 2^20 elements,
 * each coded where that pays, in the context of whether the bytes above say anything yet.
 *
 * Bytes of a segment: mode u8 (0 raw, 1 coded) ‖ sized bytes; coded: sized tables ‖ stream.
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
const alphabet = 256;
/** A plane is coded only where it gets at least this much smaller; decoding costs time. */
const leastGain = 0.99;

/** First element and length of every segment. */
export function segmentsOf(count: number): readonly { readonly from: number; readonly length: number }[] {
  return Array.from({ length: Math.ceil(count / segmentElements) }, (_, i) => ({
    from: i * segmentElements,
    length: Math.min(segmentElements, count - i * segmentElements),
  }));
}

/** The segment of `length` bytes at `plane` in the kernels' memory, by the contexts in the room's state. */
export function encodeSegment(
  memory: KernelMemory,
  arrays: PlaneArrays,
  plane: number,
  length: number,
): Uint8Array {
  const symbols = arrays.heap.u8.subarray(plane, plane + length),
    coded = codedSegment(memory, arrays, symbols),
    out = new ByteWriter();
  out.u8(coded === undefined ? 0 : 1);
  out.sized(coded ?? symbols);
  return out.finish();
}

function codedSegment(
  memory: KernelMemory,
  { heap: { u8, u16 }, state, indices, stream, streamEnd }: PlaneArrays,
  symbols: Uint8Array,
): Uint8Array | undefined {
  const counts = [new Uint32Array(alphabet), new Uint32Array(alphabet)] as const;
  for (let i = 0; i < symbols.length; i++) counts[u8[state + i]! as 0 | 1][symbols[i]!]!++;
  const rows = counts.map((row) => {
    const shares = new Uint16Array(alphabet);
    normaliseFrequencies(row, shares);
    return shares;
  });
  let bits = 0;
  rows.forEach((shares, context) =>
    shares.forEach((share, symbol) => {
      if (share > 0) bits += counts[context as 0 | 1][symbol]! * (11 - roughLog2(share)) + 5;
    }),
  );
  if (bits / 8 + 16 > leastGain * symbols.length) return undefined;
  for (let i = 0; i < symbols.length; i++) u16[(indices >> 1) + i] = (u8[state + i]! << 8) | symbols[i]!;
  const begin = memory.kernels.ransEncode(
    indices,
    symbols.length,
    memory.frequencyTables(rows, [], false, { alphabetSize: alphabet }),
    stream,
    streamEnd,
  );
  if (begin === 0) return undefined;
  const out = new ByteWriter(),
    coder = new RangeEncoder();
  codeShares(coder, rows);
  out.sized(coder.finish());
  out.bytes(u8.subarray(begin, streamEnd));
  return out.length < symbols.length ? out.finish() : undefined;
}

/** A segment as it is stored. */
export interface StoredSegment {
  readonly isCoded: boolean;
  readonly bytes: Uint8Array;
}

/** The segments of a row of `count` bytes. @throws DELTA_MALFORMED */
export function readSegments(bytes: Uint8Array, count: number): readonly StoredSegment[] {
  const reader = new ByteReader(bytes);
  const segments = segmentsOf(count).map(({ length }) => {
    const mode = reader.u8(),
      part = reader.sized();
    if (mode > 1 || (mode === 0 && part.length !== length))
      throw encodingMalformed("a byte plane is not as long as the tensor");
    return { isCoded: mode === 1, bytes: part };
  });
  if (reader.left > 0) throw encodingMalformed("a byte plane is longer than the tensor");
  return segments;
}

/** A symbol of which so many of 2048 are nought is foreseen. */
const mostlyZero = 1600;

/** A coded segment, opened: its shares by context, and its stream. */
interface CodedSegment {
  readonly rows: readonly Uint16Array[];
  readonly stream: Uint8Array;
}

function openSegment(bytes: Uint8Array): CodedSegment {
  const reader = new ByteReader(bytes),
    rows = [new Uint16Array(alphabet), new Uint16Array(alphabet)];
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

/**
 * Decodes the segments of `length` bytes of planes, one below the other, to their places in the kernels'
 * memory.
 * @param arrays its state is overwritten; arrays for the streams of all planes together
 * @param masks of each plane the bits that count for the contexts of those below; 0: none does
 * @throws DELTA_MALFORMED
 */
export function decodeSegments(
  memory: KernelMemory,
  arrays: PlaneArrays,
  length: number,
  segments: readonly StoredSegment[],
  masks: readonly number[],
): void {
  const {
      heap: { u8 },
      planes,
      stride,
      state,
    } = arrays,
    { kernels } = memory,
    opened = segments.map(({ isCoded, bytes }) => (isCoded ? openSegment(bytes) : undefined));
  u8.fill(0, state, state + length);
  let isTouched = false;
  /** Whether a plane has a row for every context that may come. */
  const isWhole = (segment: CodedSegment | undefined, touched: boolean): boolean =>
    hasRow(segment?.rows[0]) && (!touched || hasRow(segment?.rows[1]));
  for (let plane = 0, done = 1; plane < segments.length; plane += done) {
    const at = planes + plane * stride,
      own = opened[plane],
      below = opened[plane + 1];
    done = 1;
    if (own === undefined) u8.set(segments[plane]!.bytes, at);
    else if (!isTouched && own.rows[0]![0]! >= mostlyZero)
      checkEnd(decodeMostlyZero(memory, arrays, length, own, at));
    else if (!isWhole(own, isTouched)) checkEnd(decodeSparsely(memory, arrays, length, own, at));
    else if (below !== undefined && isWhole(below, isTouched || masks[plane] !== 0)) {
      checkEnd(decodeTwo(memory, arrays, length, [own, below], masks[plane]!, at));
      done = 2;
    } else checkEnd(decodeOne(memory, arrays, length, own, at));
    if (opened.slice(plane + done).every((segment) => segment === undefined)) {
      copyRaw(u8, arrays, segments, plane + done);
      return;
    }
    for (let marked = plane; marked < plane + done; marked++) {
      if (masks[marked] === 0) continue;
      kernels.markTouched(planes + marked * stride, length, masks[marked]!, state);
      isTouched = true;
    }
  }
}

function checkEnd(result: number): void {
  if (result < 0) throw encodingMalformed("a byte plane's symbols do not end where they should");
}

function copyRaw(
  u8: Uint8Array,
  { planes, stride }: PlaneArrays,
  segments: readonly StoredSegment[],
  from: number,
): void {
  for (let plane = from; plane < segments.length; plane++)
    u8.set(segments[plane]!.bytes, planes + plane * stride);
}

function decodeMostlyZero(
  memory: KernelMemory,
  { heap: { u8 }, stream }: PlaneArrays,
  length: number,
  { rows, stream: bytes }: CodedSegment,
  plane: number,
): number {
  u8.set(bytes, stream);
  return memory.kernels.ransDecodeMostlyZero(
    length,
    memory.planeTables([{ rows: rows.slice(0, 1), mask: 0 }]),
    rows[0]![0]!,
    stream,
    stream + bytes.length,
    plane,
  );
}

function decodeOne(
  memory: KernelMemory,
  { heap: { u8 }, stream, state }: PlaneArrays,
  length: number,
  { rows, stream: bytes }: CodedSegment,
  plane: number,
): number {
  u8.set(bytes, stream);
  return memory.kernels.ransDecodeOne(
    state,
    length,
    memory.planeTables([{ rows, mask: 0 }]),
    stream,
    stream + bytes.length,
    plane,
  );
}

/** Where a context that may come has no row: whatever meets it is damaged. */
function decodeSparsely(
  memory: KernelMemory,
  { heap: { u8 }, stream, state }: PlaneArrays,
  length: number,
  { rows, stream: bytes }: CodedSegment,
  plane: number,
): number {
  u8.set(bytes, stream);
  return memory.kernels.ransDecode(
    state,
    length,
    memory.frequencyTables(
      rows.map((row) => (hasRow(row) ? row : undefined)),
      [],
      true,
    ),
    stream,
    stream + bytes.length,
    plane,
  );
}

function decodeTwo(
  memory: KernelMemory,
  { heap: { u8, u32 }, stream, state, stride }: PlaneArrays,
  length: number,
  [own, below]: readonly [CodedSegment, CodedSegment],
  mask: number,
  plane: number,
): number {
  const middle = stream + own.stream.length,
    places = memory.scratch >> 2;
  u8.set(own.stream, stream);
  u8.set(below.stream, middle);
  u32.set([stream, middle, middle, middle + below.stream.length], places);
  return memory.kernels.ransDecodeTwo(
    state,
    length,
    memory.planeTables([
      { rows: own.rows, mask },
      { rows: below.rows, mask: 0 },
    ]),
    memory.scratch,
    plane,
    stride,
  );
}

function codeShares(coder: BitCoder, rows: readonly Uint16Array[]): void {
  const flags = newBitModel(4),
    values = newBitModel(numberContexts);
  for (const row of rows) {
    let before = 0;
    for (let s = 0; s < alphabet; s++) {
      before = coder.bit(flags, before, row[s]! > 0 ? 1 : 0);
      if (before === 0) continue;
      const share = codeNumber(coder, values, row[s]!);
      if (share < 1 || share > frequencyTotal) throw encodingMalformed("a frequency is out of range");
      row[s] = share;
    }
  }
}
