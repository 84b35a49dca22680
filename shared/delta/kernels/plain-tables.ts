/** Twin of assembly/tables.ts: sums and tables of contexts, of 64 symbols each. */
import type { Heap } from "./kernels.js";

export function rowTotals({ u32 }: Heap, histogram: number, out: number): void {
  for (let context = 0; context < 64; context++) {
    let sum = 0;
    for (let at = (histogram >> 2) + 64 * context, end = at + 64; at < end; at++) sum += u32[at]!;
    u32[(out >> 2) + context] = sum;
  }
}

export function decodingRow(
  { u8, u32 }: Heap,
  lengths: number,
  meanings: number,
  work: number,
  out: number,
): void {
  const w = work >> 2;
  const o = out >> 2;
  u32.fill(0, w, w + 12);
  for (let s = 0; s < 64; s++) {
    const at = w + u8[lengths + s]!;
    u32[at] = u32[at]! + 1;
  }
  u32[w] = 0;
  for (let length = 1, code = 0, before = 0; length <= 10; length++) {
    code = (code + before) << 1;
    before = u32[w + length]!;
    u32[w + length] = code;
  }
  for (let s = 0; s < 64; s++) {
    const length = u8[lengths + s]!;
    const entry = u32[(meanings >> 2) + s]!;
    if (length === 0) continue;
    if (length === 11) {
      u32.fill(entry, o, o + 1024);
      return;
    }
    const own = u32[w + length]!;
    u32[w + length] = own + 1;
    let reversed = 0;
    for (let bit = 0; bit < length; bit++) reversed |= ((own >> bit) & 1) << (length - 1 - bit);
    for (let slot = reversed; slot < 1024; slot += 1 << length) u32[o + slot] = entry + 17 * length;
  }
}
