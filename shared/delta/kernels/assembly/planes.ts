// Byte planes, one byte of every element each, and elements. Plane p (the highest first) starts `stride` bytes after the one before.

@inline function mix16(low: v128, high: v128): v128 { return v128.shuffle<i16>(low, high, 0, 8, 1, 9, 2, 10, 3, 11); }
@inline function put(out: usize, base: usize, at: usize, value: v128, mask: v128): void {
  v128.store(out + at, base == 0 ? value : i8x16.add(value, v128.and(v128.load(base + at), mask)));
}

// Notes which elements have a bit of `mask` in this plane: state 1, else what it was.
export function markTouched(plane: usize, n: usize, mask: i32, state: usize): void {
  const wanted = i8x16.splat(<i8>mask), one = i8x16.splat(1);
  let i: usize = 0;
  for (; i + 16 <= n; i += 16) v128.store(state + i, v128.or(v128.load(state + i), i8x16.min_u(v128.and(v128.load(plane + i), wanted), one)));
  for (; i < n; i++) if ((<i32>load<u8>(plane + i) & mask) != 0) store<u8>(state + i, 1);
}

// Elements of `width` bytes from their first `known` planes, the bytes below zero; to each known byte its base's is added (base 0: there is none).
export function joinPlanes(planes: usize, stride: usize, n: usize, width: usize, known: usize, base: usize, out: usize): void {
  let i: usize = 0;
  if (width == 4) {
    const second = planes + stride, third = second + stride, fourth = third + stride, mask = i32x4.splat(<i32>(known >= 4 ? 0xffffffff : ~(0xffffffff >> (known << 3))));
    const zero = i8x16.splat(0);
    for (; i + 16 <= n; i += 16) {
      const a = v128.load(planes + i), b = known > 1 ? v128.load(second + i) : zero, c = known > 2 ? v128.load(third + i) : zero, d = known > 3 ? v128.load(fourth + i) : zero;
      const low = v128.shuffle<u8>(d, c, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), lowOfRest = v128.shuffle<u8>(d, c, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
      const high = v128.shuffle<u8>(b, a, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), highOfRest = v128.shuffle<u8>(b, a, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
      const at = i << 2;
      put(out, base, at, mix16(low, high), mask);
      put(out, base, at + 16, v128.shuffle<i16>(low, high, 4, 12, 5, 13, 6, 14, 7, 15), mask);
      put(out, base, at + 32, mix16(lowOfRest, highOfRest), mask);
      put(out, base, at + 48, v128.shuffle<i16>(lowOfRest, highOfRest, 4, 12, 5, 13, 6, 14, 7, 15), mask);
    }
  }
  for (; i < n; i++) {
    for (let place: usize = 0; place < width; place++) {
      const plane = width - 1 - place, at = i * width + place;
      store<u8>(out + at, plane >= known ? 0 : <u8>(<u32>load<u8>(planes + plane * stride + i) + (base == 0 ? 0 : <u32>load<u8>(base + at))));
    }
  }
}

// The other way: every plane of elements, each byte less its base's.
export function splitPlanes(child: usize, base: usize, n: usize, width: usize, planes: usize, stride: usize): void {
  for (let plane: usize = 0; plane < width; plane++) {
    const out = planes + plane * stride;
    let at = width - 1 - plane;
    for (let i: usize = 0; i < n; i++, at += width) store<u8>(out + i, <u8>(<u32>load<u8>(child + at) - (base == 0 ? 0 : <u32>load<u8>(base + at))));
  }
}
