/** Twin of assembly/symbols.ts: a symbol for every number, and how often each occurs in each context. */
import type { Heap } from "./kernels.js";

function escape(child: number, emax: number): number {
  const j = emax - ((child >>> 23) & 255);
  return emax >= 0 && j >= 0 && j < 12 ? 50 + j : 62;
}

export function differenceSymbols(
  { u8, u16, i32 }: Heap,
  prediction: number,
  child: number,
  context: number,
  n: number,
  emax: number,
  orderMask: number,
  shift: number,
  limit: number,
  out: number,
  folded: number,
  histogram: number,
): void {
  const p = prediction >> 2;
  const c = child >> 2;
  const o = out >> 1;
  const f = folded >> 2;
  const h = histogram >> 2;
  const top = 0x80000000 | 0;
  for (let i = 0; i < n; i++) {
    const own = i32[c + i]!;
    const from = i32[p + i]!;
    const d =
      (((own ^ (((own >> 31) | top) & orderMask)) >>> shift) -
        ((from ^ (((from >> 31) | top) & orderMask)) >>> shift)) |
      0;
    const m = (d < 0 ? -d : d) | 0;
    const k = 32 - Math.clz32(m);
    i32[f + i] = (m << 1) | (d >>> 31);
    let symbol = (k << 1) | (k > 1 ? (m >>> (k - 2)) & 1 : 0);
    if (symbol >= limit) symbol = escape(own, emax);
    const index = (u8[context + i]! << 6) | symbol;
    u16[o + i] = index;
    i32[h + index]!++;
  }
}

export function exponentSymbols(
  { u8, u16, i32 }: Heap,
  child: number,
  context: number,
  n: number,
  emax: number,
  out: number,
  histogram: number,
): void {
  const c = child >> 2;
  const o = out >> 1;
  const h = histogram >> 2;
  for (let i = 0; i < n; i++) {
    const own = i32[c + i]!;
    const j = emax - ((own >>> 23) & 255);
    const index = (u8[context + i]! << 6) | (own === 0 ? 62 : j >= 0 && j < 62 ? j : 63);
    u16[o + i] = index;
    i32[h + index]!++;
  }
}
