// Float32 numbers by the exponent of the largest of their channel (see ../../fixed-planes.ts): three planes of
// sign and magnitude, then the bits below. Element i belongs to channel (first + i) mod channels.

@inline function exponentOf(word: u32): u32 { const e = (word >> 23) & 255; return e == 0 ? 1 : e; }

// Raises each channel's exponent (one byte) to the largest seen. Returns 0; -1 where a number is NaN or infinite.
export function fixedExponents(child: usize, n: usize, first: usize, channels: usize, exponents: usize): i32 {
  let channel = first;
  for (let i: usize = 0; i < n; i++) {
    const exponent = exponentOf(load<u32>(child + (i << 2)));
    if (exponent == 255) return -1;
    if (exponent > <u32>load<u8>(exponents + channel)) store<u8>(exponents + channel, <u8>exponent);
    if (++channel == channels) channel = 0;
  }
  return 0;
}

// Writes the planes, `stride` bytes from one to the next, and the bits below, lowest first, in words of 32 bits.
// Returns those bits; -1 where a denormal number is too large for its channel.
export function fixedSplit(child: usize, n: usize, first: usize, channels: usize, exponents: usize, planes: usize, stride: usize, stream: usize): f64 {
  const second = planes + stride, third = second + stride;
  let channel = first, out = stream, held: u64 = 0, bits: u32 = 0;
  for (let i: usize = 0; i < n; i++) {
    const word = load<u32>(child + (i << 2)), mantissa = (word & 0x7fffff) | ((word & 0x7f800000) == 0 ? 0 : 0x800000);
    const below = <u32>load<u8>(exponents + channel) - exponentOf(word) + 1;
    const top = below > 23 ? 0 : mantissa >> below;
    if (top != 0 && mantissa < 0x800000) return -1;
    store<u8>(planes + i, <u8>((word >> 31 << 7) | (top >> 16)));
    store<u8>(second + i, <u8>(top >> 8));
    store<u8>(third + i, <u8>top);
    let value: u32, width: u32;
    if (top != 0) { value = mantissa & ((1 << below) - 1); width = below; }
    else if ((word & 0x7fffffff) == 0) { value = 0; width = 1; }
    else { value = (word << 1) | 1; width = 32; }
    held |= <u64>value << <u64>bits;
    bits += width;
    if (bits >= 32) { store<u32>(out, <u32>held); out += 4; held >>= 32; bits -= 32; }
    if (++channel == channels) channel = 0;
  }
  store<u32>(out, <u32>held);
  return <f64>(out - stream) * 8 + <f64>bits;
}

// The numbers again. Reads at most 8 bytes beyond the stream. Returns the bits read; -1 damaged.
export function fixedJoin(planes: usize, stride: usize, n: usize, first: usize, channels: usize, exponents: usize, stream: usize, streamBits: u32, out: usize): f64 {
  const second = planes + stride, third = second + stride;
  let channel = first, at: u32 = 0;
  for (let i: usize = 0; i < n; i++) {
    if (at > streamBits) return -1;
    const high = <u32>load<u8>(planes + i), top = ((high & 127) << 16) | (<u32>load<u8>(second + i) << 8) | <u32>load<u8>(third + i);
    const window = load<u64>(stream + (at >> 3)) >> <u64>(at & 7);
    let magnitude: u32;
    if (top != 0) {
      // The position of the mantissa's first bit is determined by the number's exponent.
      const below = clz<u32>(top) - 8, exponent = <i32>load<u8>(exponents + channel) - <i32>below + 1;
      if (exponent < 1) return -1;
      magnitude = (<u32>exponent << 23) | (((top << below) | (<u32>window & ((1 << below) - 1))) & 0x7fffff);
      at += below;
    } else {
      magnitude = (window & 1) == 0 ? 0 : <u32>(window >> 1) & 0x7fffffff;
      at += (window & 1) == 0 ? 1 : 32;
    }
    store<u32>(out + (i << 2), (high >> 7 << 31) | magnitude);
    if (++channel == channels) channel = 0;
  }
  return at > streamBits ? -1 : <f64>at;
}
