/** Twin of assembly/lanes.ts: numbers of any width as 32-bit lanes, and the extrapolated prediction. */
import type { Heap } from "./kernels.js";

/** The float32 (bits) of a float16's value; payloads of NaNs kept. */
export function halfToSingle(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >> 10) & 31;
  const mantissa = half & 0x3ff;
  if (exponent === 31) return sign | 0x7f800000 | (mantissa << 13);
  if (exponent !== 0) return sign | ((exponent + 112) << 23) | (mantissa << 13);
  if (mantissa === 0) return sign;
  const shift = Math.clz32(mantissa) - 21;
  return sign | ((113 - shift) << 23) | (((mantissa << shift) & 0x3ff) << 13);
}

function singleToHalf(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const exponent = (bits >>> 23) & 255;
  const mantissa = (bits >>> 13) & 0x3ff;
  if (exponent === 255) return sign | 0x7c00 | mantissa;
  if (exponent > 112) return sign | (((exponent - 112) & 31) << 10) | mantissa;
  return exponent < 103 ? sign : sign | ((0x400 | mantissa) >> (113 - exponent));
}

export function widen(
  { u8, u16, u32 }: Heap,
  source: number,
  target: number,
  count: number,
  kind: number,
): void {
  const to = target >> 2;
  const from = kind <= 2 ? source : source >> 1;
  for (let i = 0; i < count; i++) {
    if (kind <= 2) {
      const byte = u8[from + i]!;
      u32[to + i] = kind === 1 ? byte : (byte << 24) >> 24;
      continue;
    }
    const half = u16[from + i]!;
    u32[to + i] =
      kind === 3 ? half : kind === 4 ? (half << 16) >> 16 : kind === 5 ? half << 16 : halfToSingle(half);
  }
}

export function narrow(
  { u8, u16, u32 }: Heap,
  source: number,
  target: number,
  count: number,
  kind: number,
): void {
  const from = source >> 2;
  const to = kind <= 2 ? target : target >> 1;
  for (let i = 0; i < count; i++) {
    const lane = u32[from + i]!;
    if (kind <= 2) u8[to + i] = lane;
    else u16[to + i] = kind <= 4 ? lane : kind === 5 ? lane >>> 16 : singleToHalf(lane);
  }
}

/**
 * base + alpha · (base − previous), each operation rounded to float32; the base where that is not finite.
 */
export function predict(
  { f32, u32 }: Heap,
  base: number,
  previous: number,
  count: number,
  alpha: number,
  out: number,
): void {
  const b = base >> 2;
  const p = previous >> 2;
  const o = out >> 2;
  for (let i = 0; i < count; i++) {
    const value = f32[b + i]!;
    f32[o + i] = Math.fround(value + Math.fround(alpha * Math.fround(value - f32[p + i]!)));
    if ((u32[o + i]! & 0x7f800000) === 0x7f800000) u32[o + i] = u32[b + i]!;
  }
}
