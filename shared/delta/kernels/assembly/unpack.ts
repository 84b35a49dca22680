// Reads what pack.ts wrote. Nothing is read beyond 8 bytes after a stream's end, nothing written beyond
// n numbers; a stream that ends early, or a code no table has, ends the call with a negative result.
// A decoding entry: length | extra bits << 8 | high << 16 | kind << 24. kinds as in pack.ts, 4 = no such code;
// high: for differences the bits above the extra ones, for mantissas how far the exponent is below emax.
import { ordered, unordered } from "./order";

@inline function difference(entry: u32, extra: u64, width: u32, prediction: usize, orderMask: i32, shift: i32): u32 {
  const sign = 0 - (<u32>extra & 1), m = <u32>(((<u64>((entry >> 16) & 255) << width) | extra) >> 1);
  return unordered(ordered(load<u32>(prediction), orderMask) + (((m ^ sign) - sign) << shift), orderMask);
}

@inline function number(entry: u32, extra: u64, width: u32, prediction: usize, orderMask: i32, shift: i32, emax: i32): u32 {
  const kind = entry >> 24;
  if (kind == 0) return difference(entry, extra, width, prediction, orderMask, shift);
  if (kind == 1) return ((<u32>extra << shift) & 0x7fffff) | (((<u32>emax - ((entry >> 16) & 255)) & 255) << 23) | ((<u32>extra >> (23 - shift)) << 31);
  return kind == 2 ? <u32>extra : 0;
}

@inline function unpack(prediction: usize, context: usize, n: usize, table: usize, first: usize, firstBits: u32, second: usize, secondBits: u32, orderMask: i32, shift: i32, emax: i32, out: usize, secondRead: usize): f64 {
  const half = n >> 1, prediction2 = prediction + (half << 2), context2 = context + half, out2 = out + (half << 2);
  let a: u32 = 0, b: u32 = 0;
  for (let i: usize = 0; i < half; i++) {
    if (a > firstBits || b > secondBits) return -1;
    let x = load<u64>(first + (a >> 3)) >> <u64>(a & 7);
    let y = load<u64>(second + (b >> 3)) >> <u64>(b & 7);
    const s = load<u32>(table + (((<usize>load<u8>(context + i) << 10) | <usize>(<u32>x & 1023)) << 2));
    const t = load<u32>(table + (((<usize>load<u8>(context2 + i) << 10) | <usize>(<u32>y & 1023)) << 2));
    const sl = s & 255, sw = (s >> 8) & 255, tl = t & 255, tw = (t >> 8) & 255;
    x = (x >> <u64>sl) & ((<u64>1 << sw) - 1);
    y = (y >> <u64>tl) & ((<u64>1 << tw) - 1);
    a += sl + sw; b += tl + tw;
    if ((s | t) < (1 << 24)) {
      store<u32>(out + (i << 2), difference(s, x, sw, prediction + (i << 2), orderMask, shift));
      store<u32>(out2 + (i << 2), difference(t, y, tw, prediction2 + (i << 2), orderMask, shift));
    } else {
      if ((s | t) >= (4 << 24)) return -1;
      store<u32>(out + (i << 2), number(s, x, sw, prediction + (i << 2), orderMask, shift, emax));
      store<u32>(out2 + (i << 2), number(t, y, tw, prediction2 + (i << 2), orderMask, shift, emax));
    }
  }
  if (n & 1) {
    if (b > secondBits) return -1;
    let y = load<u64>(second + (b >> 3)) >> <u64>(b & 7);
    const t = load<u32>(table + (((<usize>load<u8>(context2 + half) << 10) | <usize>(<u32>y & 1023)) << 2));
    if (t >= (4 << 24)) return -1;
    const tl = t & 255, tw = (t >> 8) & 255;
    y = (y >> <u64>tl) & ((<u64>1 << tw) - 1);
    b += tl + tw;
    store<u32>(out2 + (half << 2), number(t, y, tw, prediction2 + (half << 2), orderMask, shift, emax));
  }
  store<u32>(secondRead, b);
  return a > firstBits || b > secondBits ? -1 : <f64>a;
}

// Two streams, of the first n/2 numbers and of the rest. Tables of 1024 entries a context.
// Returns the bits read from the first (n even or odd), and stores those of the second; -1 damaged.
export function unpackBits(prediction: usize, context: usize, n: usize, table: usize, first: usize, firstBits: u32, second: usize, secondBits: u32, orderMask: i32, shift: i32, emax: i32, out: usize, secondRead: usize): f64 {
  return orderMask == -1 && shift == 0
    ? unpack(prediction, context, n, table, first, firstBits, second, secondBits, -1, 0, emax, out, secondRead)
    : unpack(prediction, context, n, table, first, firstBits, second, secondBits, orderMask, shift, emax, out, secondRead);
}

// The same where the symbols are known already: one stream, 64 entries. Returns the bits read; -1 damaged.
export function unpackExtras(prediction: usize, symbols: usize, n: usize, table: usize, stream: usize, streamBits: u32, orderMask: i32, shift: i32, emax: i32, out: usize): f64 {
  let a: u32 = 0;
  for (let i: usize = 0; i < n; i++) {
    if (a > streamBits) return -1;
    const entry = load<u32>(table + (<usize>(load<u8>(symbols + i) & 63) << 2)), width = (entry >> 8) & 255;
    if (entry >= (4 << 24)) return -1;
    const extra = (load<u64>(stream + (a >> 3)) >> <u64>(a & 7)) & ((<u64>1 << width) - 1);
    a += width;
    store<u32>(out + (i << 2), number(entry, extra, width, prediction + (i << 2), orderMask, shift, emax));
  }
  return a > streamBits ? -1 : <f64>a;
}
