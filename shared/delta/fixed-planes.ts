/**
 * Fixed planes: the encoding `fixedPlanes` of float32 matrices, whose first byte already bounds every number.
 * The numbers of an output channel share the exponent of the largest of them, and each is written as sign and
 * magnitude in that unit, highest byte first. The first byte of IEEE 754's own order is the sign and 7 of 8
 * exponent bits: intervals a factor of 4 wide. Here the first byte places a weight within 1/128 of the power
 * of two above its channel's largest.
 *
 * Lossless: three such bytes are followed by the bits of each number below them. A number has as many of
 * these bits as it is binary orders below the largest, so the encoding is shorter than raw even without an
 * entropy coder. It uses no base, because its purpose is to give bounds from a prefix.
 *
 * Bytes: lengths of the exponents and of each of three planes as varints ‖ exponents, one of each channel
 * (biased, 1 … 254), as a segment ‖ planes, as segments (plane-segments.ts), in the context of whether the
 * magnitude in the planes above is zero ‖ for each segment the sized bits below: the remaining bits of each
 * mantissa, first bit lowest; where a number's planes are all zero, one bit whether the number is zero and,
 * if it is not, its 31 bits without sign. A prefix holds the first 1, 2 or 3 planes. The lengths come first,
 * so that the first few bytes determine how long each prefix is, however many channels there are.
 */
import type { TensorHeader } from "../tensor/tensor.js";
import { uninitializedBytes } from "../tensor/uninitialized-bytes.js";
import { ByteReader, ByteWriter } from "./bytes.js";
import {
  decodeSegments,
  encodeSegment,
  readSegments,
  segmentElements,
  segmentsOf,
  type SegmentMemory,
  type StoredSegment,
} from "./plane-segments.js";
import { encodingMalformed } from "./encoding-malformed.js";
import type { PlaneArrays, KernelMemory } from "./kernel-memory.js";

/** Byte planes ahead of the bits below. */
export const fixedPlaneCount = 3;
const elementBytes = 4;
/** Bits of a plane's byte that are magnitude. */
const magnitudeMasks = [127, 255, 255] as const;
/** Maximum bytes per element of the bits below its planes. */
const maxRemainderBytes = 4;

/** The part of a matrix that a prefix holds. Element i belongs to channel i mod channels. */
export interface FixedLevels {
  readonly shape: readonly number[];
  /** The largest biased exponent of each channel, 1 … 254. */
  readonly exponents: Uint8Array;
  /**
   * The first 1 to 3 planes, one byte of every element each: the sign and the highest of 23 bits of the
   * magnitude.
   */
  readonly planes: readonly Uint8Array[];
}

/** Channels of a kernel: its last axis, or the one before where that is 1 (depthwise kernels). */
export function channelsOf(shape: readonly number[]): number {
  return shape.at(-1)! > 1 ? shape.at(-1)! : shape.at(-2)!;
}

/** True if tensors of this type and shape can be stored in fixed planes. */
export function isFixedKind({ dtype, shape }: TensorHeader): boolean {
  return dtype === "F32" && shape.length >= 2 && !shape.includes(0) && channelsOf(shape) <= segmentElements;
}

/**
 * @param shape of a tensor for which isFixedKind holds
 * @returns undefined where a number cannot be written in this form (NaN, infinity, denormals together with
 * numbers not much larger), or where the encoding would not be shorter than raw
 */
export function encodeFixedPlanes(
  memory: KernelMemory,
  shape: readonly number[],
  bytes: Uint8Array,
): Uint8Array | undefined {
  const count = bytes.length / elementBytes;
  const channels = channelsOf(shape);
  const { kernels } = memory;
  const segments = segmentsOf(count);
  const arrays = memory.planeArrays(segments[0]!.length, elementBytes, channels, 0);
  const {
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
  const planes = Array.from({ length: fixedPlaneCount }, () => new ByteWriter());
  const rest = new ByteWriter();
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
  ];
  const all = new ByteWriter();
  for (const part of parts) all.varint(part.length);
  for (const part of parts) all.bytes(part);
  all.bytes(rest.finish());
  return all.length < bytes.length ? all.finish() : undefined;
}

/** Lengths of the exponents and of each plane. */
function readLengths(reader: ByteReader): readonly number[] {
  return Array.from({ length: 1 + fixedPlaneCount }, () => reader.varint());
}

/** Returns how many of the first bytes hold the first `levels` planes. @throws DELTA_MALFORMED */
export function fixedPrefixBytes(bytes: Uint8Array, levels: number): number {
  const reader = new ByteReader(bytes);
  const lengths = readLengths(reader);
  const headBytes = bytes.length - reader.remaining;
  return levels > fixedPlaneCount
    ? bytes.length
    : lengths.slice(0, 1 + levels).reduce((sum, length) => sum + length, headBytes);
}

/** Planes as they are stored, and the exponents of their channels. */
interface OpenPlanes {
  readonly channels: number;
  readonly planes: readonly (readonly StoredSegment[])[];
  /**
   * Returns arrays for one segment and for streams of `streamBytes` bytes, with the exponents decoded into
   * them.
   */
  readonly arraysFor: (streamBytes: number) => PlaneArrays;
}

interface PlanesToOpen {
  readonly shape: readonly number[];
  /** Elements of the matrix. */
  readonly count: number;
  /** The number of planes that are read, 1 to 3. */
  readonly levels: number;
}

/** Reads the head, the exponents and the first `levels` planes. @throws DELTA_MALFORMED */
function openPlanes(
  memory: KernelMemory,
  reader: ByteReader,
  { shape, count, levels }: PlanesToOpen,
): OpenPlanes {
  const [exponentBytes, ...lengths] = readLengths(reader);
  const channels = channelsOf(shape);
  const [exponentSegment] = readSegments(reader.take(exponentBytes!), channels);
  const planes = lengths.slice(0, levels).map((length) => readSegments(reader.take(length), count));
  const streamBytesOf = (segment: number): number =>
    planes.reduce((sum, plane) => sum + plane[segment]!.bytes.length, 0);
  const maxStreamBytes = segmentsOf(count).reduce(
    (max, _, segment) => Math.max(max, streamBytesOf(segment)),
    exponentSegment!.bytes.length,
  );
  const arraysFor = (streamBytes: number): PlaneArrays => {
    const arrays = memory.planeArrays(
      Math.min(count, segmentElements),
      elementBytes,
      channels,
      Math.max(streamBytes, maxStreamBytes),
    );
    const { heap, exponents } = arrays;
    const target = { memory, arrays: { ...arrays, planes: exponents }, length: channels };
    decodeSegments(target, [exponentSegment!], [0]);
    for (let i = exponents; i < exponents + channels; i++)
      if (heap.u8[i]! < 1 || heap.u8[i]! > 254)
        throw encodingMalformed("the exponent of a channel is not one of a finite number");
    return arrays;
  };
  return { channels, planes, arraysFor };
}

function decodeSegmentOf(target: SegmentMemory, planes: OpenPlanes["planes"], segment: number): void {
  decodeSegments(
    target,
    planes.map((plane) => plane[segment]!),
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
  const reader = new ByteReader(bytes);
  const count = target.length / elementBytes;
  const opened = openPlanes(memory, reader, { shape, count, levels: fixedPlaneCount });
  const { channels, planes, arraysFor } = opened;
  const segments = segmentsOf(count);
  const remainders = segments.map(({ length }) => {
    const remainder = reader.sized();
    if (remainder.length > maxRemainderBytes * length)
      throw encodingMalformed("more bits follow its planes than belong to its elements");
    return remainder;
  });
  if (reader.remaining > 0) throw encodingMalformed("bytes follow its last element");
  const arrays = arraysFor(remainders.reduce((max, { length }) => Math.max(max, length), 0));
  const { stream, elements } = arrays;
  const { u8 } = arrays.heap;
  segments.forEach(({ from, length }, segment) => {
    const remainder = remainders[segment]!;
    decodeSegmentOf({ memory, arrays, length }, planes, segment);
    u8.set(remainder, stream);
    const bits = memory.kernels.fixedJoin(
      arrays.planes,
      arrays.stride,
      length,
      from % channels,
      channels,
      arrays.exponents,
      stream,
      8 * remainder.length,
      elements,
    );
    if (bits < 0)
      throw encodingMalformed("an element is larger than its channel, or its last bits are missing");
    if (Math.ceil(bits / 8) !== remainder.length || (bits % 8 > 0 && remainder.at(-1)! >>> (bits % 8) !== 0))
      throw encodingMalformed("bits follow its last element");
    target.set(u8.subarray(elements, elements + elementBytes * length), elementBytes * from);
  });
}

/**
 * Decodes the first `levels` (1 to 3) planes.
 * @param bytes the encoding, or a prefix that holds these planes
 * @throws DELTA_MALFORMED
 */
export function decodeFixedLevels(
  memory: KernelMemory,
  shape: readonly number[],
  bytes: Uint8Array,
  levels: number,
): FixedLevels {
  const count = shape.reduce((product, extent) => product * extent, 1);
  const opened = openPlanes(memory, new ByteReader(bytes), { shape, count, levels });
  const arrays = opened.arraysFor(0);
  const { exponents } = arrays;
  const { u8 } = arrays.heap;
  const planes = opened.planes.map(() => uninitializedBytes(count));
  segmentsOf(count).forEach(({ from, length }, segment) => {
    decodeSegmentOf({ memory, arrays, length }, opened.planes, segment);
    planes.forEach((plane, i) => {
      const symbols = arrays.planes + i * arrays.stride;
      plane.set(u8.subarray(symbols, symbols + length), from);
    });
  });
  return { shape, exponents: u8.slice(exponents, exponents + opened.channels), planes };
}
