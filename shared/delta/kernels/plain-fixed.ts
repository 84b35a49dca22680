/** Twin of assembly/fixed.ts: float32 numbers by the exponent of the largest of their channel. */
import type { Heap } from "./kernels.js";
import { window32 } from "./plain-unpack.js";

function exponentOf(word: number): number {
  return (word >>> 23) & 255 || 1;
}

export function fixedExponents(
  { u8, u32 }: Heap,
  child: number,
  n: number,
  first: number,
  channels: number,
  exponents: number,
): number {
  for (let i = 0, c = child >> 2, channel = first; i < n; i++) {
    const exponent = exponentOf(u32[c + i]!);
    if (exponent === 255) return -1;
    if (exponent > u8[exponents + channel]!) u8[exponents + channel] = exponent;
    if (++channel === channels) channel = 0;
  }
  return 0;
}

export function fixedSplit(
  { u8, u32, i32 }: Heap,
  child: number,
  n: number,
  first: number,
  channels: number,
  exponents: number,
  planes: number,
  stride: number,
  stream: number,
): number {
  const c = child >> 2;
  const second = planes + stride;
  const third = second + stride;
  let channel = first;
  let o = stream >> 2;
  let held = 0;
  let bits = 0;
  for (let i = 0; i < n; i++) {
    const word = u32[c + i]!;
    const mantissa = (word & 0x7fffff) | ((word & 0x7f800000) === 0 ? 0 : 0x800000);
    const below = u8[exponents + channel]! - exponentOf(word) + 1;
    const top = below > 23 ? 0 : mantissa >>> below;
    if (top !== 0 && mantissa < 0x800000) return -1;
    u8[planes + i] = ((word >>> 31) << 7) | (top >>> 16);
    u8[second + i] = top >>> 8;
    u8[third + i] = top;
    const value = top !== 0 ? mantissa & ((1 << below) - 1) : (word & 0x7fffffff) === 0 ? 0 : (word << 1) | 1;
    const width = top !== 0 ? below : value === 0 ? 1 : 32;
    held |= value << bits;
    bits += width;
    if (bits >= 32) {
      i32[o++] = held;
      bits -= 32;
      held = bits === 0 ? 0 : value >>> (width - bits);
    }
    if (++channel === channels) channel = 0;
  }
  i32[o] = held;
  return 32 * (o - (stream >> 2)) + bits;
}

export function fixedJoin(
  { u8, i32 }: Heap,
  planes: number,
  stride: number,
  n: number,
  first: number,
  channels: number,
  exponents: number,
  stream: number,
  streamBits: number,
  out: number,
): number {
  const o = out >> 2;
  const second = planes + stride;
  const third = second + stride;
  let channel = first;
  let at = 0;
  for (let i = 0; i < n; i++) {
    if (at > streamBits) return -1;
    const high = u8[planes + i]!;
    const top = ((high & 127) << 16) | (u8[second + i]! << 8) | u8[third + i]!;
    const window = window32(u8, stream, at);
    let magnitude: number;
    if (top !== 0) {
      const below = Math.clz32(top) - 8;
      const exponent = u8[exponents + channel]! - below + 1;
      if (exponent < 1) return -1;
      magnitude = (exponent << 23) | (((top << below) | (window & ((1 << below) - 1))) & 0x7fffff);
      at += below;
    } else {
      magnitude = (window & 1) === 0 ? 0 : window >>> 1;
      at += (window & 1) === 0 ? 1 : 32;
    }
    i32[o + i] = ((high >>> 7) << 31) | magnitude;
    if (++channel === channels) channel = 0;
  }
  return at > streamBits ? -1 : at;
}
