// Widens numbers of any width to 32-bit lanes, and back, so that one coder serves them all. Small integers
// are extended, bfloat16 and float16 become the float32 of equal value (payloads kept).

@inline function halfToSingle(h: u32): u32 {
  const sign = (h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 0x3ff;
  if (e == 31) return sign | 0x7f800000 | (m << 13);
  if (e != 0) return sign | ((e + 112) << 23) | (m << 13);
  if (m == 0) return sign;
  const shift = clz<u32>(m) - 21;
  return sign | ((113 - shift) << 23) | (((m << shift) & 0x3ff) << 13);
}

@inline function singleToHalf(u: u32): u32 {
  const sign = (u >> 16) & 0x8000, e = <i32>((u >> 23) & 255), m = (u >> 13) & 0x3ff;
  if (e == 255) return sign | 0x7c00 | m;
  if (e > 112) return sign | (((<u32>e - 112) & 31) << 10) | m;
  return e < 103 ? sign : sign | ((0x400 | m) >> <u32>(113 - e));
}

// kind: 1 U8, 2 I8, 3 U16, 4 I16, 5 BF16, 6 F16
export function widen(source: usize, target: usize, count: usize, kind: i32): void {
  for (let i: usize = 0; i < count; i++) {
    let lane: u32;
    if (kind == 1) lane = load<u8>(source + i);
    else if (kind == 2) lane = <u32><i32>load<i8>(source + i);
    else if (kind == 4) lane = <u32><i32>load<i16>(source + (i << 1));
    else {
      const half = <u32>load<u16>(source + (i << 1));
      lane = kind == 3 ? half : kind == 5 ? half << 16 : halfToSingle(half);
    }
    store<u32>(target + (i << 2), lane);
  }
}

export function narrow(source: usize, target: usize, count: usize, kind: i32): void {
  for (let i: usize = 0; i < count; i++) {
    const lane = load<u32>(source + (i << 2));
    if (kind <= 2) store<u8>(target + i, <u8>lane);
    else store<u16>(target + (i << 1), <u16>(kind <= 4 ? lane : kind == 5 ? lane >> 16 : singleToHalf(lane)));
  }
}

// base + alpha * (base - previous), each operation rounded to float32; the base where that is not finite.
export function predict(base: usize, previous: usize, count: usize, alpha: f32, out: usize): void {
  const exponent = i32x4.splat(0x7f800000), factor = f32x4.splat(alpha);
  let i: usize = 0;
  for (; i + 4 <= count; i += 4) {
    const b = v128.load(base + (i << 2)), p = v128.load(previous + (i << 2));
    const x = f32x4.add(b, f32x4.mul(factor, f32x4.sub(b, p)));
    const wild = i32x4.eq(v128.and(x, exponent), exponent);
    v128.store(out + (i << 2), v128.bitselect(b, x, wild));
  }
  for (; i < count; i++) {
    const b = load<f32>(base + (i << 2));
    const x = reinterpret<u32>(b + alpha * (b - load<f32>(previous + (i << 2))));
    store<u32>(out + (i << 2), (x & 0x7f800000) == 0x7f800000 ? load<u32>(base + (i << 2)) : x);
  }
}
