/**
 * Byte planes, the highest byte of every element first: the encoding `planes`. The first planes are readable
 * from a prefix of the bytes, and against a base they need only the same planes of the base. Each byte is
 * coded as its difference from the base's byte (without base: as it is), in the context of whether all bytes
 * above were equal to the base's.
 *
 * Bytes: flags u8 (1: against a base) ‖ length of each plane as a varint ‖ planes, as segments
 * (plane-segments.ts).
 */
import { ByteReader, ByteWriter } from "./bytes.js";
import { decodeSegments, encodeSegment, readSegments, segmentsOf } from "./plane-segments.js";
import { encodingMalformed } from "./encoding-malformed.js";
import type { KernelMemory } from "./kernel-memory.js";

/** Plans store no shorter tensor in planes: they would save less than their index entry. One disk page. */
export const minPlanesBytes = 4096;
const anyBit = 255;
/** Elements joined at a time: with their base they fit into a processor core's cache. */
const joinedElements = 2 ** 15;

/**
 * Encodes all planes of elements of `width` bytes. @param base as long as `bytes`; undefined: without base
 */
export function encodePlanes(
  memory: KernelMemory,
  bytes: Uint8Array,
  width: number,
  base: Uint8Array | undefined,
): Uint8Array {
  const planes = Array.from({ length: width }, () => new ByteWriter());
  const { kernels } = memory;
  for (const { from, length } of segmentsOf(bytes.length / width)) {
    const arrays = memory.planeArrays(length, width, 0, 0);
    const {
      heap: { u8 },
    } = arrays;
    const range = [from * width, (from + length) * width] as const;
    u8.set(bytes.subarray(...range), arrays.elements);
    if (base !== undefined) u8.set(base.subarray(...range), arrays.base);
    u8.fill(0, arrays.state, arrays.state + length);
    kernels.splitPlanes(
      arrays.elements,
      base === undefined ? 0 : arrays.base,
      length,
      width,
      arrays.planes,
      arrays.stride,
    );
    planes.forEach((out, plane) => {
      const symbols = arrays.planes + plane * arrays.stride;
      out.bytes(encodeSegment(memory, arrays, symbols, length));
      if (base !== undefined) kernels.markTouched(symbols, length, anyBit, arrays.state);
    });
  }
  const all = new ByteWriter();
  all.u8(base === undefined ? 0 : 1);
  for (const plane of planes) all.varint(plane.length);
  for (const plane of planes) all.bytes(plane.finish());
  return all.finish();
}

/** True if `bytes` need a base. */
export function planesNeedBase(bytes: Uint8Array): boolean {
  return bytes[0] === 1;
}

/** Returns how many of the first bytes hold the first `planes` planes. @throws DELTA_MALFORMED */
export function planesPrefixBytes(bytes: Uint8Array, width: number, planes: number): number {
  const reader = new ByteReader(bytes);
  const lengths = readLengths(reader, width);
  const headBytes = bytes.length - reader.remaining;
  return lengths.slice(0, planes).reduce((sum, length) => sum + length, headBytes);
}

function readLengths(reader: ByteReader, width: number): readonly number[] {
  if (reader.u8() > 1) throw encodingMalformed("its flags are unknown");
  return Array.from({ length: width }, () => reader.varint());
}

export interface StoredPlanes {
  /** The encoding, or a prefix of it that holds the planes to decode. */
  readonly bytes: Uint8Array;
  /** Bytes of an element. */
  readonly width: number;
  /** The base's bytes, of which only the planes to decode are used. */
  readonly base: Uint8Array | undefined;
}

/**
 * Decodes the first `planes` planes; the bytes below them become zero.
 * @throws DELTA_MALFORMED
 */
export function decodePlanes(
  memory: KernelMemory,
  { bytes, width, base }: StoredPlanes,
  target: Uint8Array,
  planes = width,
): void {
  const reader = new ByteReader(bytes);
  const from = planesNeedBase(bytes) ? base : undefined;
  const count = target.length / width;
  const { kernels } = memory;
  const rows = readLengths(reader, width)
    .slice(0, planes)
    .map((length) => readSegments(reader.take(length), count));
  if (planesNeedBase(bytes) && from?.length !== target.length)
    throw encodingMalformed("it needs a base of the same size, which is missing");
  if (planes === width && reader.remaining > 0) throw encodingMalformed("bytes follow its last plane");
  const masks = rows.map(() => (from === undefined ? 0 : anyBit));
  segmentsOf(count).forEach(({ from: first, length }, segment) => {
    const parts = rows.map((row) => row[segment]!);
    const streamBytes = parts.reduce((sum, part) => sum + part.bytes.length, 0);
    const arrays = memory.planeArrays(length, width, 0, streamBytes);
    const { u8 } = arrays.heap;
    decodeSegments({ memory, arrays, length }, parts, masks);
    for (let done = 0; done < length; done += joinedElements) {
      const elements = Math.min(joinedElements, length - done);
      const offset = (first + done) * width;
      const elementsBytes = elements * width;
      if (from !== undefined) u8.set(from.subarray(offset, offset + elementsBytes), arrays.base);
      kernels.joinPlanes(
        arrays.planes + done,
        arrays.stride,
        elements,
        width,
        planes,
        from === undefined ? 0 : arrays.base,
        arrays.elements,
      );
      target.set(u8.subarray(arrays.elements, arrays.elements + elementsBytes), offset);
    }
  });
}
