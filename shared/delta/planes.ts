/**
 * Byte planes, highest byte of every element first: code `planes`. The first planes are readable from a
 * prefix of the bytes, and against a base need no more than the base's same planes. Each byte is coded as
 * its difference from the base's (none: as itself), in the context of whether all bytes above were equal.
 *
 * Bytes: flags u8 (1: against a base) ‖ length of each plane as a varint ‖ planes, rows of segments
 * (plane-segments.ts).
 */
import { ByteReader, ByteWriter } from "./bytes.js";
import { decodeSegments, encodeSegment, readSegments, segmentsOf } from "./plane-segments.js";
import { encodingMalformed } from "./encoding-malformed.js";
import type { KernelMemory } from "./kernel-memory.js";

const anyBit = 255;
/** Elements that are joined at a time: what a processor's own cache holds with their base. */
const joinedElements = 2 ** 15;

/** Codes all planes of elements of `width` bytes. `base`: as long as `bytes`, or none. */
export function encodePlanes(
  memory: KernelMemory,
  bytes: Uint8Array,
  width: number,
  base: Uint8Array | undefined,
): Uint8Array {
  const planes = Array.from({ length: width }, () => new ByteWriter()),
    { kernels } = memory;
  for (const { from, length } of segmentsOf(bytes.length / width)) {
    const arrays = memory.planeArrays(length, width, 0, 0),
      {
        heap: { u8 },
      } = arrays,
      range = [from * width, (from + length) * width] as const;
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

/** Whether `bytes` need a base. */
export function planesNeedBase(bytes: Uint8Array): boolean {
  return bytes[0] === 1;
}

/** How many of the first bytes hold the first `planes` planes. @throws DELTA_MALFORMED */
export function planesPrefixBytes(bytes: Uint8Array, width: number, planes: number): number {
  const reader = new ByteReader(bytes),
    lengths = header(reader, width);
  const before = bytes.length - reader.left;
  return lengths.slice(0, planes).reduce((sum, length) => sum + length, before);
}

function header(reader: ByteReader, width: number): readonly number[] {
  if (reader.u8() > 1) throw encodingMalformed("its flags name no layout");
  return Array.from({ length: width }, () => reader.varint());
}

/**
 * The first `planes` planes; the bytes below are nought.
 * @param bytes all of it, or a prefix that holds those planes
 * @param base at least its own first `planes` planes
 * @throws DELTA_MALFORMED
 */
export function decodePlanes(
  memory: KernelMemory,
  bytes: Uint8Array,
  width: number,
  base: Uint8Array | undefined,
  target: Uint8Array,
  planes = width,
): void {
  const reader = new ByteReader(bytes),
    from = planesNeedBase(bytes) ? base : undefined,
    count = target.length / width,
    { kernels } = memory;
  const rows = header(reader, width)
    .slice(0, planes)
    .map((length) => readSegments(reader.take(length), count));
  if (planesNeedBase(bytes) && from?.length !== target.length)
    throw encodingMalformed("it needs a base of the same size, and there is none");
  if (planes === width && reader.left > 0) throw encodingMalformed("bytes follow its last plane");
  const masks = rows.map(() => (from === undefined ? 0 : anyBit));
  segmentsOf(count).forEach(({ from: first, length }, segment) => {
    const parts = rows.map((row) => row[segment]!),
      arrays = memory.planeArrays(
        length,
        width,
        0,
        parts.reduce((sum, { bytes: { length: own } }) => sum + own, 0),
      ),
      {
        heap: { u8 },
      } = arrays;
    decodeSegments(memory, arrays, length, parts, masks);
    for (let done = 0; done < length; done += joinedElements) {
      const some = Math.min(joinedElements, length - done),
        at = (first + done) * width,
        bytes = some * width;
      if (from !== undefined) u8.set(from.subarray(at, at + bytes), arrays.base);
      kernels.joinPlanes(
        arrays.planes + done,
        arrays.stride,
        some,
        width,
        planes,
        from === undefined ? 0 : arrays.base,
        arrays.elements,
      );
      target.set(u8.subarray(arrays.elements, arrays.elements + bytes), at);
    }
  });
}
