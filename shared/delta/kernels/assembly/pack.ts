// Writes a code for every symbol and the bits that the symbol leaves open, lowest bit first.
// A table's entry: code | length << 16 | extra bits << 20 | kind << 28.
// kinds: 0 difference (low bits of |d|, then its sign, lowest), 1 mantissa and sign, 2 all 32 bits, 3 nothing.
import { ordered } from "./order";

@inline function extraBits(entry: u32, width: u32, prediction: usize, child: usize, orderMask: i32, shift: i32): u64 {
  const c = load<u32>(child), kind = entry >> 28;
  if (kind == 0) {
    const d = <i32>(ordered(c, orderMask) - ordered(load<u32>(prediction), orderMask)) >> shift;
    const sign = d >> 31, m = <u32>((d ^ sign) - sign);
    return ((<u64>m << 1) | <u64>(sign & 1)) & ((<u64>1 << width) - 1);
  }
  if (kind == 1) return <u64>(((c & 0x7fffff) >> shift) | ((c >> 31) << (23 - shift)));
  return kind == 2 ? <u64>c : 0;
}

// Returns the number of bits. Up to 8 bytes after the last are written over.
export function packBits(indices: usize, prediction: usize, child: usize, n: usize, orderMask: i32, shift: i32, table: usize, out: usize): f64 {
  let bits: u64 = 0, held: u32 = 0, o = out;
  for (let i: usize = 0; i < n; i++) {
    const entry = load<u32>(table + (<usize>load<u16>(indices + (i << 1)) << 2));
    bits |= <u64>(entry & 0xffff) << held;
    held += (entry >> 16) & 15;
    const width = (entry >> 20) & 63;
    bits |= extraBits(entry, width, prediction + (i << 2), child + (i << 2), orderMask, shift) << held;
    held += width;
    store<u64>(o, bits);
    o += held >> 3;
    bits >>= <u64>(held & 56);
    held &= 7;
  }
  store<u64>(o, bits);
  return <f64>(o - out) * 8 + <f64>held;
}
