/** Twin of assembly/rans.ts: symbols worth less than a bit. */
import type { Heap } from "./kernels.js";

export const minState = 1 << 15;

export function ransEncode(
  { u16, u32, u8 }: Heap,
  indices: number,
  n: number,
  table: number,
  start: number,
  end: number,
): number {
  const s = indices >> 1;
  const t = table >> 2;
  let x = minState;
  let y = minState;
  let o = end;
  for (let i = n - 1; i >= 0; i--) {
    const entry = u32[t + u16[s + i]!]!;
    const frequency = entry >>> 16;
    if (x >= frequency * 1_048_576) {
      if (o < start + 10) return 0;
      o -= 2;
      u8[o] = x;
      u8[o + 1] = x >>> 8;
      x >>>= 16;
    }
    const whole = Math.floor(x / frequency);
    const next = (whole << 11) + (x - whole * frequency) + (entry & 0xffff);
    x = y;
    y = next;
  }
  if (o < start + 8) return 0;
  for (let i = 0; i < 4; i++) {
    u8[o - 8 + i] = y >>> (8 * i);
    u8[o - 4 + i] = x >>> (8 * i);
  }
  return o - 8;
}

export function ransDecode(
  { u8, u32 }: Heap,
  context: number,
  n: number,
  table: number,
  start: number,
  end: number,
  out: number,
): number {
  if (end - start < 8) return -1;
  const word = (at: number): number =>
    (u8[at]! | (u8[at + 1]! << 8) | (u8[at + 2]! << 16) | (u8[at + 3]! << 24)) >>> 0;
  const t = table >> 2;
  let x = word(start);
  let y = word(start + 4);
  let p = start + 8;
  if ((x | y) >>> 31 !== 0) return -1;
  for (let i = 0; i < n; i++) {
    const entry = u32[t + ((u8[context + i]! << 11) | (x & 2047))]!;
    if (entry === 0) return -1;
    u8[out + i] = entry >>> 23;
    let next = Math.imul((entry >>> 11) & 4095, x >>> 11) + (entry & 2047);
    if (next < minState) {
      if (p + 2 > end) return -1;
      next = (next << 16) | u8[p]! | (u8[p + 1]! << 8);
      p += 2;
    }
    x = y;
    y = next;
  }
  return x === minState && y === minState && p === end ? 0 : -1;
}
