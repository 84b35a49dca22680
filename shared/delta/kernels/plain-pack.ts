/** Twin of assembly/pack.ts: codes and extra bits, lowest bit first; written as words of 32 bits. */
import type { Heap } from "./kernels.js";

interface Packing { readonly heap: Heap; readonly indices: number; readonly prediction: number; readonly child: number; readonly orderMask: number; readonly shift: number; readonly table: number }

/** One stream, of the numbers from `from` to `to`; `out` a multiple of 4. Returns its bits. */
function packStream({ heap: { u16, i32 }, indices, prediction, child, orderMask, shift, table }: Packing, from: number, to: number, out: number): number {
  const s = indices >> 1, p = prediction >> 2, c = child >> 2, t = table >> 2, top = 0x80000000 | 0;
  let bits = 0, held = 0, o = out >> 2;
  for (let i = from; i < to; i++) {
    const entry = i32[t + u16[s + i]!]!, width = (entry >>> 20) & 63, kind = entry >>> 28, length = (entry >>> 16) & 15;
    const code = entry & 0xffff;
    bits |= code << held;
    held += length;
    if (held >= 32) { i32[o++] = bits; held -= 32; bits = held === 0 ? 0 : code >>> (length - held); }
    if (width === 0) continue;
    const own = i32[c + i]!;
    let extra = own;
    if (kind === 0) {
      const base = i32[p + i]!;
      const d = ((own ^ (((own >> 31) | top) & orderMask)) - (base ^ (((base >> 31) | top) & orderMask)) | 0) >> shift, sign = d >> 31;
      extra = ((((d ^ sign) - sign) << 1) | (sign & 1)) & ((1 << width) - 1);
    } else if (kind === 1) extra = ((own & 0x7fffff) >>> shift) | ((own >>> 31) << (23 - shift));
    bits |= extra << held;
    held += width;
    if (held >= 32) { i32[o++] = bits; held -= 32; bits = held === 0 ? 0 : extra >>> (width - held); }
  }
  i32[o] = bits;
  return 32 * (o - (out >> 2)) + held;
}

export function packBits(heap: Heap, indices: number, prediction: number, child: number, n: number, orderMask: number, shift: number, table: number, first: number, second: number, bitCounts: number): void {
  const packing = { heap, indices, prediction, child, orderMask, shift, table }, half = n >>> 1;
  heap.u32[bitCounts >> 2] = packStream(packing, 0, half, first);
  heap.u32[(bitCounts >> 2) + 1] = packStream(packing, half, n, second);
}
