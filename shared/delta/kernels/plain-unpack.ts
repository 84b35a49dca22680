/**
 * Twin of assembly/unpack.ts: reads codes and extra bits; never beyond a stream, never more than n numbers.
 */
import type { Heap } from "./kernels.js";

/** 32 bits from a bit position on. */
export function window32(u8: Uint8Array, stream: number, at: number): number {
  const byte = stream + (at >>> 3);
  const low = at & 7;
  const word = u8[byte]! | (u8[byte + 1]! << 8) | (u8[byte + 2]! << 16) | (u8[byte + 3]! << 24);
  return low === 0 ? word : (word >>> low) | (u8[byte + 4]! << (32 - low));
}

/** The number that an entry (see assembly/unpack.ts) and its extra bits stand for. */
function number(
  entry: number,
  extra: number,
  width: number,
  prediction: number,
  orderMask: number,
  shift: number,
  emax: number,
): number {
  const kind = entry >>> 24;
  if (kind === 0) {
    const sign = -(extra & 1);
    const m = ((((entry >>> 16) & 255) << width) | extra) >>> 1;
    const top = 0x80000000 | 0;
    const rank =
      ((prediction ^ (((prediction >> 31) | top) & orderMask)) + (((m ^ sign) - sign) << shift)) | 0;
    return rank ^ (((~rank >> 31) | top) & orderMask);
  }
  if (kind === 1)
    return (
      ((extra << shift) & 0x7fffff) |
      (((emax - (entry >>> 16)) & 255) << 23) |
      ((extra >>> (23 - shift)) << 31)
    );
  return kind === 2 ? extra : 0;
}

interface Reading {
  readonly heap: Heap;
  readonly prediction: number;
  readonly context: number;
  readonly table: number;
  readonly orderMask: number;
  readonly shift: number;
  readonly emax: number;
  readonly out: number;
}

/** One stream of `n` numbers; returns the bits read, −1 where it is damaged. */
function unpackStream(
  { heap: { u8, i32 }, prediction, context, table, orderMask, shift, emax, out }: Reading,
  from: number,
  n: number,
  stream: number,
  streamBits: number,
): number {
  const p = prediction === 0 ? 0 : (prediction >> 2) + from;
  const c = context + from;
  const o = (out >> 2) + from;
  const t = table >> 2;
  let at = 0;
  for (let i = 0; i < n; i++) {
    if (at > streamBits) return -1;
    const word = window32(u8, stream, at);
    const entry = i32[t + ((u8[c + i]! << 10) | (word & 1023))]!;
    if (entry >= 0x4000000) return -1;
    const length = entry & 15;
    const width = (entry >>> 10) & 63;
    const extra =
      width === 0
        ? 0
        : length + width <= 32
          ? (word >>> length) & (width === 32 ? -1 : (1 << width) - 1)
          : window32(u8, stream, at + length) & (width === 32 ? -1 : (1 << width) - 1);
    at += length + width;
    i32[o + i] = number(entry, extra, width, p === 0 ? 0 : i32[p + i]!, orderMask, shift, emax);
  }
  return at > streamBits ? -1 : at;
}

export function unpackBits(
  heap: Heap,
  prediction: number,
  context: number,
  n: number,
  table: number,
  streams: number,
  orderMask: number,
  shift: number,
  emax: number,
  out: number,
): number {
  const m = n >>> 2;
  const third = 2 * m;
  const fourth = third + ((n - third) >>> 1);
  const bounds = [0, m, third, fourth, n];
  const at = streams >> 2;
  const reading = { heap, prediction, context, table, orderMask, shift, emax, out };
  for (let i = 0; i < 4; i++) {
    const read = unpackStream(
      reading,
      bounds[i]!,
      bounds[i + 1]! - bounds[i]!,
      heap.u32[at + 2 * i]!,
      heap.u32[at + 2 * i + 1]!,
    );
    if (read < 0) return -1;
    heap.u32[at + 2 * i + 1] = read;
  }
  return 0;
}

export function unpackExtras(
  { u8, i32 }: Heap,
  prediction: number,
  symbols: number,
  n: number,
  table: number,
  stream: number,
  streamBits: number,
  orderMask: number,
  shift: number,
  emax: number,
  out: number,
): number {
  const p = prediction >> 2;
  const o = out >> 2;
  const t = table >> 2;
  let at = 0;
  for (let i = 0; i < n; i++) {
    if (at > streamBits) return -1;
    const entry = i32[t + (u8[symbols + i]! & 63)]!;
    const width = (entry >>> 10) & 63;
    if (entry >= 0x4000000) return -1;
    const extra = width === 0 ? 0 : window32(u8, stream, at) & (width === 32 ? -1 : (1 << width) - 1);
    at += width;
    i32[o + i] = number(entry, extra, width, p === 0 ? 0 : i32[p + i]!, orderMask, shift, emax);
  }
  return at > streamBits ? -1 : at;
}
