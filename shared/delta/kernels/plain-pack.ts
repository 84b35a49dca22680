/** Twin of assembly/pack.ts: codes and extra bits, lowest bit first; 32 bits held where that holds 64. */
import type { Heap } from "./kernels.js";

export function packBits({ u8, u16, u32, i32 }: Heap, indices: number, prediction: number, child: number, n: number, orderMask: number, shift: number, table: number, out: number): number {
  const s = indices >> 1, p = prediction >> 2, c = child >> 2, t = table >> 2, top = 0x80000000;
  let bits = 0, held = 0, o = out;
  for (let i = 0; i < n; i++) {
    const entry = u32[t + u16[s + i]!]!, width = (entry >>> 20) & 63, kind = entry >>> 28;
    bits |= (entry & 0xffff) << held;
    held += (entry >>> 16) & 15;
    // At most 7 + 10 bits so far: whole bytes go, so that 25 more fit.
    while (held >= 8) { u8[o++] = bits; bits >>>= 8; held -= 8; }
    if (width === 0) continue;
    const own = i32[c + i]!;
    let extra: number;
    if (kind === 0) {
      const from = i32[p + i]!;
      const d = ((own ^ (((own >> 31) | top) & orderMask)) - (from ^ (((from >> 31) | top) & orderMask)) | 0) >> shift, sign = d >> 31;
      extra = ((((d ^ sign) - sign) << 1) | (sign & 1)) & ((1 << width) - 1);
    } else if (kind === 1) extra = ((own & 0x7fffff) >>> shift) | ((own >>> 31) << (23 - shift));
    else {
      bits |= (own & 0xffff) << held;
      u8[o++] = bits; u8[o++] = bits >>> 8; bits >>>= 16;
      bits |= (own >>> 16) << held;
      u8[o++] = bits; u8[o++] = bits >>> 8; bits >>>= 16;
      continue;
    }
    bits |= extra << held;
    held += width;
    while (held >= 8) { u8[o++] = bits; bits >>>= 8; held -= 8; }
  }
  u8[o] = bits;
  return (o - out) * 8 + held;
}
