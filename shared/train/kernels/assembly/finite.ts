// Finds NaN and infinities in float32 by their exponent bits.

/** 1 when every element is finite, else 0. */
export function allFinite(x: usize, count: i32): i32 {
  const exponent = i32x4.splat(0x7f800000);
  let bad = i32x4.splat(0), i = 0, p = x;
  for (; i + 4 <= count; i += 4) { bad = v128.or(bad, i32x4.eq(v128.and(v128.load(p), exponent), exponent)); p += 16; }
  if (v128.any_true(bad)) return 0;
  for (; i < count; i++) { if ((load<i32>(p) & 0x7f800000) == 0x7f800000) return 0; p += 4; }
  return 1;
}
