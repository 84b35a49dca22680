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

// Both halves at once, for the processor to overlap.
@inline function pack(indices: usize, prediction: usize, child: usize, n: usize, orderMask: i32, shift: i32, table: usize, first: usize, second: usize, bitCounts: usize): void {
  const half = n >> 1, indices2 = indices + (half << 1), prediction2 = prediction + (half << 2), child2 = child + (half << 2);
  let a: u64 = 0, aHeld: u32 = 0, aOut = first, b: u64 = 0, bHeld: u32 = 0, bOut = second;
  for (let i: usize = 0; i < half; i++) {
    const s = load<u32>(table + (<usize>load<u16>(indices + (i << 1)) << 2)), t = load<u32>(table + (<usize>load<u16>(indices2 + (i << 1)) << 2));
    const sw = (s >> 20) & 63, tw = (t >> 20) & 63, sl = (s >> 16) & 15, tl = (t >> 16) & 15;
    a |= (<u64>(s & 0xffff) | (extraBits(s, sw, prediction + (i << 2), child + (i << 2), orderMask, shift) << sl)) << aHeld;
    b |= (<u64>(t & 0xffff) | (extraBits(t, tw, prediction2 + (i << 2), child2 + (i << 2), orderMask, shift) << tl)) << bHeld;
    aHeld += sl + sw; bHeld += tl + tw;
    store<u64>(aOut, a); store<u64>(bOut, b);
    aOut += aHeld >> 3; bOut += bHeld >> 3;
    a >>= <u64>(aHeld & 56); b >>= <u64>(bHeld & 56);
    aHeld &= 7; bHeld &= 7;
  }
  if (n & 1) {
    const t = load<u32>(table + (<usize>load<u16>(indices2 + (half << 1)) << 2)), tw = (t >> 20) & 63, tl = (t >> 16) & 15;
    b |= (<u64>(t & 0xffff) | (extraBits(t, tw, prediction2 + (half << 2), child2 + (half << 2), orderMask, shift) << tl)) << bHeld;
    bHeld += tl + tw;
    store<u64>(bOut, b);
    bOut += bHeld >> 3;
    b >>= <u64>(bHeld & 56);
    bHeld &= 7;
  }
  store<u64>(aOut, a); store<u64>(bOut, b);
  store<u32>(bitCounts, (<u32>(aOut - first) << 3) + aHeld);
  store<u32>(bitCounts + 4, (<u32>(bOut - second) << 3) + bHeld);
}

// Two streams, of the first n/2 numbers and of the rest, and the bits of each. Up to 8 bytes after a
// stream's last are written over. Float32 has a loop of its own, with what is constant for it.
export function packBits(indices: usize, prediction: usize, child: usize, n: usize, orderMask: i32, shift: i32, table: usize, first: usize, second: usize, bitCounts: usize): void {
  if (orderMask == -1 && shift == 0) pack(indices, prediction, child, n, -1, 0, table, first, second, bitCounts);
  else pack(indices, prediction, child, n, orderMask, shift, table, first, second, bitCounts);
}
