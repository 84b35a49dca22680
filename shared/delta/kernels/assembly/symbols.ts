// A symbol for every number, and how often each occurs in each context. Index = context << 6 | symbol.
//
// Differences: d = ordered(child) - ordered(prediction), both without their `shift` low bits, which carry no information;
// k = bit length of |d|; symbol = 2k + (the bit below the highest). From `limit` on, escapes: 50 + j
// where the child's exponent is emax - j, j < 12, else 62 (all 32 bits follow). `folded` gets |d| and, lowest, d's sign.
// Exponents: symbol = emax - exponent, below 62; 62 = plus zero; 63 = all 32 bits follow.
import { ordered } from "./order";

@inline function escape(child: u32, emax: i32): u32 {
  const j = <u32>(emax - <i32>((child >> 23) & 255));
  return emax >= 0 && j < 12 ? 50 + j : 62;
}

@inline function count(histogram: usize, index: u32): void {
  const at = histogram + (<usize>index << 2);
  store<u32>(at, load<u32>(at) + 1);
}

export function differenceSymbols(prediction: usize, child: usize, context: usize, n: usize, emax: i32, orderMask: i32, shift: i32, limit: i32, out: usize, folded: usize, histogram: usize): void {
  const top = i32x4.splat(0x80000000), mask = i32x4.splat(orderMask), zero = i32x4.splat(0), offset = i32x4.splat(252), end = i32x4.splat(limit);
  let i: usize = 0;
  for (; i + 4 <= n; i += 4) {
    const p = v128.load(prediction + (i << 2)), c = v128.load(child + (i << 2));
    const op = v128.xor(p, v128.and(v128.or(i32x4.shr_s(p, 31), top), mask));
    const oc = v128.xor(c, v128.and(v128.or(i32x4.shr_s(c, 31), top), mask));
    const d = i32x4.sub(i32x4.shr_u(oc, shift), i32x4.shr_u(op, shift)), m = i32x4.abs(d);
    v128.store(folded + (i << 2), v128.or(i32x4.shl(m, 1), i32x4.shr_u(d, 31)));
    // A float32 of m has 2k + next bit in its upper ten bits; exact below 2^24, and above limit all the same.
    let s = i32x4.max_s(i32x4.sub(i32x4.shr_u(f32x4.convert_i32x4_u(m), 22), offset), zero);
    const far = i32x4.ge_s(s, end);
    if (v128.any_true(far)) {
      if (i32x4.extract_lane(far, 0)) s = i32x4.replace_lane(s, 0, escape(i32x4.extract_lane(c, 0), emax));
      if (i32x4.extract_lane(far, 1)) s = i32x4.replace_lane(s, 1, escape(i32x4.extract_lane(c, 1), emax));
      if (i32x4.extract_lane(far, 2)) s = i32x4.replace_lane(s, 2, escape(i32x4.extract_lane(c, 2), emax));
      if (i32x4.extract_lane(far, 3)) s = i32x4.replace_lane(s, 3, escape(i32x4.extract_lane(c, 3), emax));
    }
    s = v128.or(s, i32x4.shl(i32x4.extend_low_i16x8_u(i16x8.extend_low_i8x16_u(v128.load32_zero(context + i))), 6));
    v128.store64_lane(out + (i << 1), i16x8.narrow_i32x4_u(s, s), 0);
    count(histogram, i32x4.extract_lane(s, 0)); count(histogram, i32x4.extract_lane(s, 1));
    count(histogram, i32x4.extract_lane(s, 2)); count(histogram, i32x4.extract_lane(s, 3));
  }
  for (; i < n; i++) {
    const c = load<u32>(child + (i << 2));
    const d = <i32>((ordered(c, orderMask) >> shift) - (ordered(load<u32>(prediction + (i << 2)), orderMask) >> shift));
    const m = <u32>(d < 0 ? -d : d), k = 32 - clz<u32>(m);
    store<u32>(folded + (i << 2), (m << 1) | (<u32>d >> 31));
    let s = (k << 1) | (k > 1 ? (m >> (k - 2)) & 1 : 0);
    if (<i32>s >= limit) s = escape(c, emax);
    const index = (<u32>load<u8>(context + i) << 6) | s;
    store<u16>(out + (i << 1), <u16>index);
    count(histogram, index);
  }
}

export function exponentSymbols(child: usize, context: usize, n: usize, emax: i32, out: usize, histogram: usize): void {
  for (let i: usize = 0; i < n; i++) {
    const c = load<u32>(child + (i << 2)), j = <u32>(emax - <i32>((c >> 23) & 255));
    const s = c == 0 ? 62 : j < 62 ? j : 63;
    const index = (<u32>load<u8>(context + i) << 6) | s;
    store<u16>(out + (i << 1), <u16>index);
    count(histogram, index);
  }
}
