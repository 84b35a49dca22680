/**
 * Fixed planes: code `fixedPlanes`, a layout of float32 matrices whose first byte says something. Every
 * output channel's numbers share the exponent of the largest, and each is written as sign and magnitude in
 * that unit, highest byte first. The first byte of IEEE's own order is the sign and 7 of 8 exponent bits,
 * intervals a factor of 4 wide; here it places a weight within 1/128 of the power of two above its channel's
 * largest. Lossless: after three such bytes come the bits of each number below them, of which there are as
 * many as the number is binary orders below the largest, so that the whole is shorter than raw without any
 * entropy coder. Against no base: bounds from a prefix are what it is for.
 *
 * Bytes: lengths of exponents and of each of three planes as varints ‖ exponents, one of each channel
 * (biased, 1 … 254), a segment ‖ planes, rows of segments (plane-segments.ts), coded in the context of
 * whether the magnitude is nought above ‖ for each segment the sized bits below: those of the mantissa that
 * are left, first bit lowest; where the planes are all nought, one bit whether the number is nought, and if
 * it is not its 31 bits without sign. The first 1, 2, 3 planes are readable from a prefix. Lengths stand
 * first, so that a few bytes say how long each prefix is, however many channels there are.
 */
import type { TensorHeader } from "../tensor/tensor.js";
import { ByteReader, ByteWriter, uninitialisedBytes } from "./bytes.js";
import {
  decodeSegments,
  encodeSegment,
  readSegments,
  segmentElements,
  segmentsOf,
  type StoredSegment,
} from "./plane-segments.js";
import { encodingMalformed } from "./encoding-malformed.js";
import type { PlaneArrays, KernelMemory } from "./kernel-memory.js";

/** Byte planes ahead of the rest. */
export const fixedPlaneCount = 3;
const elementBytes = 4;
/** Bits of a plane's byte that are magnitude. */
const magnitudeMasks = [127, 255, 255] as const;
const mostRestBytes = 4;

/** What a prefix says of a matrix. Element i belongs to channel i mod channels. */
export interface FixedLevels {
  readonly shape: readonly number[];
  /** Of each channel the largest biased exponent, 1 … 254. */
  readonly exponents: Uint8Array;
  /**
   * The first planes, 1 to 3: sign and the highest bits of 23 of the magnitude, one byte of each element a
   * plane.
   */
  readonly planes: readonly Uint8Array[];
}

/** Channels of a kernel: its last axis, or the one before where that is 1 (depthwise kernels). */
export function channelsOf(shape: readonly number[]): number {
  return shape.at(-1)! > 1 ? shape.at(-1)! : shape.at(-2)!;
}

/** Whether a tensor's type and shape are of those that can lie so. */
export function isFixedKind({ dtype, shape }: TensorHeader): boolean {
  return dtype === "F32" && shape.length >= 2 && !shape.includes(0) && channelsOf(shape) <= segmentElements;
}

/**
 * @param shape of a tensor for which isFixedKind holds
 * @returns undefined where a number has no place in it (NaN, infinity, denormals beside numbers not much
 * larger), or it would not be shorter than raw
 */
export function encodeFixedPlanes(
  memory: KernelMemory,
  shape: readonly number[],
  bytes: Uint8Array,
): Uint8Array | undefined {
  const count = bytes.length / elementBytes,
    channels = channelsOf(shape),
    { kernels } = memory,
    segments = segmentsOf(count);
  const arrays = memory.planeArrays(segments[0]!.length, elementBytes, channels, 0),
    {
      heap: { u8 },
      elements,
      exponents,
      state,
    } = arrays;
  const load = (from: number, length: number): void => {
    u8.set(bytes.subarray(elementBytes * from, elementBytes * (from + length)), elements);
  };
  u8.fill(1, exponents, exponents + channels);
  for (const { from, length } of segments) {
    load(from, length);
    if (kernels.fixedExponents(elements, length, from % channels, channels, exponents) < 0) return undefined;
  }
  const planes = Array.from({ length: fixedPlaneCount }, () => new ByteWriter()),
    rest = new ByteWriter();
  for (const { from, length } of segments) {
    if (segments.length > 1) load(from, length);
    const bits = kernels.fixedSplit(
      elements,
      length,
      from % channels,
      channels,
      exponents,
      arrays.planes,
      arrays.stride,
      arrays.stream,
    );
    if (bits < 0) return undefined;
    rest.sized(u8.slice(arrays.stream, arrays.stream + Math.ceil(bits / 8)));
    u8.fill(0, state, state + length);
    planes.forEach((out, plane) => {
      const symbols = arrays.planes + plane * arrays.stride;
      out.bytes(encodeSegment(memory, arrays, symbols, length));
      kernels.markTouched(symbols, length, magnitudeMasks[plane]!, state);
    });
  }
  u8.fill(0, state, state + channels);
  const parts = [
      encodeSegment(memory, arrays, exponents, channels),
      ...planes.map((plane) => plane.finish()),
    ],
    all = new ByteWriter();
  for (const part of parts) all.varint(part.length);
  for (const part of parts) all.bytes(part);
  all.bytes(rest.finish());
  return all.length < bytes.length ? all.finish() : undefined;
}

function header(reader: ByteReader): readonly number[] {
  return Array.from({ length: 1 + fixedPlaneCount }, () => reader.varint());
}

/** How many of the first bytes hold the first `levels` planes. @throws DELTA_MALFORMED */
export function fixedPrefixBytes(bytes: Uint8Array, levels: number): number {
  const reader = new ByteReader(bytes),
    lengths = header(reader),
    before = bytes.length - reader.left;
  return levels > fixedPlaneCount
    ? bytes.length
    : lengths.slice(0, 1 + levels).reduce((sum, length) => sum + length, before);
}

/** Exponents in the kernels' memory, planes as they are stored. */
interface Opened {
  readonly channels: number;
  readonly rows: readonly (readonly StoredSegment[])[];
}

/**
 * Reads exponents and the first `levels` planes' places. @returns what it takes, and a arrays for every
 * segment, with the exponents in it
 */
function open(
  memory: KernelMemory,
  shape: readonly number[],
  reader: ByteReader,
  levels: number,
  count: number,
): Opened & { readonly arraysFor: (streamBytes: number) => PlaneArrays } {
  const [exponentBytes, ...lengths] = header(reader),
    channels = channelsOf(shape);
  const [own] = readSegments(reader.take(exponentBytes!), channels),
    rows = lengths.slice(0, levels).map((length) => readSegments(reader.take(length), count));
  const longest = segmentsOf(count).reduce(
    (most, _, segment) =>
      Math.max(
        most,
        rows.reduce((sum, row) => sum + row[segment]!.bytes.length, 0),
      ),
    own!.bytes.length,
  );
  const arraysFor = (streamBytes: number): PlaneArrays => {
    const arrays = memory.planeArrays(
        Math.min(count, segmentElements),
        elementBytes,
        channels,
        Math.max(streamBytes, longest),
      ),
      {
        heap: { u8 },
        exponents,
      } = arrays;
    decodeSegments(memory, { ...arrays, planes: exponents }, channels, [own!], [0]);
    for (let at = exponents; at < exponents + channels; at++)
      if (u8[at]! < 1 || u8[at]! > 254) throw encodingMalformed("an exponent of a channel is none");
    return arrays;
  };
  return { channels, rows, arraysFor };
}

function decodeRows(
  memory: KernelMemory,
  arrays: PlaneArrays,
  rows: Opened["rows"],
  segment: number,
  length: number,
): void {
  decodeSegments(
    memory,
    arrays,
    length,
    rows.map((row) => row[segment]!),
    magnitudeMasks,
  );
}

/**
 * @param shape of a tensor for which isFixedKind holds
 * @throws DELTA_MALFORMED
 */
export function decodeFixedPlanes(
  memory: KernelMemory,
  shape: readonly number[],
  bytes: Uint8Array,
  target: Uint8Array,
): void {
  const reader = new ByteReader(bytes),
    count = target.length / elementBytes,
    { channels, rows, arraysFor } = open(memory, shape, reader, fixedPlaneCount, count);
  const segments = segmentsOf(count),
    rests = segments.map(({ length }) => {
      const rest = reader.sized();
      if (rest.length > mostRestBytes * length)
        throw encodingMalformed("more bits follow its planes than belong to its elements");
      return rest;
    });
  if (reader.left > 0) throw encodingMalformed("bytes follow its last element");
  const arrays = arraysFor(rests.reduce((most, { length }) => Math.max(most, length), 0)),
    {
      heap: { u8 },
      stream,
      elements,
    } = arrays;
  segments.forEach(({ from, length }, segment) => {
    const rest = rests[segment]!;
    decodeRows(memory, arrays, rows, segment, length);
    u8.set(rest, stream);
    const bits = memory.kernels.fixedJoin(
      arrays.planes,
      arrays.stride,
      length,
      from % channels,
      channels,
      arrays.exponents,
      stream,
      8 * rest.length,
      elements,
    );
    if (bits < 0)
      throw encodingMalformed("an element is larger than its channel, or its last bits are missing");
    if (Math.ceil(bits / 8) !== rest.length || (bits % 8 > 0 && rest.at(-1)! >>> (bits % 8) !== 0))
      throw encodingMalformed("bits follow its last element");
    target.set(u8.subarray(elements, elements + elementBytes * length), elementBytes * from);
  });
}

/**
 * What the first `levels` (1 … 3) planes say.
 * @param bytes all of it, or a prefix that holds them
 * @throws DELTA_MALFORMED
 */
export function decodeFixedLevels(
  memory: KernelMemory,
  shape: readonly number[],
  bytes: Uint8Array,
  levels: number,
): FixedLevels {
  const count = shape.reduce((product, extent) => product * extent, 1),
    { channels, rows, arraysFor } = open(memory, shape, new ByteReader(bytes), levels, count);
  const arrays = arraysFor(0),
    {
      heap: { u8 },
      exponents,
    } = arrays,
    planes = rows.map(() => uninitialisedBytes(count));
  segmentsOf(count).forEach(({ from, length }, segment) => {
    decodeRows(memory, arrays, rows, segment, length);
    planes.forEach((plane, at) => {
      const symbols = arrays.planes + at * arrays.stride;
      plane.set(u8.subarray(symbols, symbols + length), from);
    });
  });
  return { shape, exponents: u8.slice(exponents, exponents + channels), planes };
}
