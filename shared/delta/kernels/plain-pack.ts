/** Twin of assembly/pack.ts: codes and extra bits, lowest bit first; written as words of 32 bits. */
import type { Heap } from "./kernels.js";

interface Packing {
  readonly heap: Heap;
  readonly indices: number;
  readonly folded: number;
  readonly child: number;
  readonly shift: number;
  readonly table: number;
}

/** One stream, of the numbers from `from` to `to`; `out` a multiple of 4. Returns its bits. */
function packStream(
  { heap: { u16, i32 }, indices, folded, child, shift, table }: Packing,
  from: number,
  to: number,
  out: number,
): number {
  const s = indices >> 1;
  const f = folded >> 2;
  const c = child >> 2;
  const t = table >> 2;
  let bits = 0;
  let held = 0;
  let o = out >> 2;
  for (let i = from; i < to; i++) {
    const entry = i32[t + u16[s + i]!]!;
    const width = (entry >>> 20) & 63;
    const kind = entry >>> 28;
    const length = (entry >>> 16) & 15;
    const code = entry & 0xffff;
    bits |= code << held;
    held += length;
    if (held >= 32) {
      i32[o++] = bits;
      held -= 32;
      bits = held === 0 ? 0 : code >>> (length - held);
    }
    if (width === 0) continue;
    let extra: number;
    if (kind === 0) extra = i32[f + i]! & ((1 << width) - 1);
    else {
      extra = i32[c + i]!;
      if (kind === 1) extra = ((extra & 0x7fffff) >>> shift) | ((extra >>> 31) << (23 - shift));
    }
    bits |= extra << held;
    held += width;
    if (held >= 32) {
      i32[o++] = bits;
      held -= 32;
      bits = held === 0 ? 0 : extra >>> (width - held);
    }
  }
  i32[o] = bits;
  return 32 * (o - (out >> 2)) + held;
}

export function packBits(
  heap: Heap,
  indices: number,
  folded: number,
  child: number,
  n: number,
  shift: number,
  table: number,
  first: number,
  second: number,
  bitCounts: number,
): void {
  const packing = { heap, indices, folded, child, shift, table };
  const half = n >>> 1;
  heap.u32[bitCounts >> 2] = packStream(packing, 0, half, first);
  heap.u32[(bitCounts >> 2) + 1] = packStream(packing, half, n, second);
}
