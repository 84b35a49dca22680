// Writes a code for every symbol and the bits that the symbol leaves open, lowest bit first.
// A table's entry: code | length << 16 | extra bits << 20 | kind << 28.
// kinds: 0 difference (low bits of what symbols.ts folded), 1 mantissa and sign, 2 all 32 bits, 3 nothing.

@inline function codeAndExtra(entry: u32, folded: usize, child: usize, shift: i32): u64 {
  const kind = entry >> 28, length = <u64>((entry >> 16) & 15);
  let extra: u32;
  if (kind == 0) extra = load<u32>(folded) & ((1 << ((entry >> 20) & 63)) - 1);
  else {
    const c = load<u32>(child);
    extra = kind == 1 ? ((c & 0x7fffff) >> shift) | ((c >> 31) << (23 - shift)) : kind == 2 ? c : 0;
  }
  return <u64>(entry & 0xffff) | (<u64>extra << length);
}

@inline function bitsOf(entry: u32): u32 { return ((entry >> 16) & 15) + ((entry >> 20) & 63); }

// Two streams, of the first n/2 numbers and of the rest, written together, for the processor to overlap; stores the
// bits of each. Up to 8 bytes after a stream's last are written over.
export function packBits(indices: usize, folded: usize, child: usize, n: usize, shift: i32, table: usize, first: usize, second: usize, bitCounts: usize): void {
  const half = n >> 1, indices2 = indices + (half << 1), folded2 = folded + (half << 2), child2 = child + (half << 2);
  let a: u64 = 0, aHeld: u32 = 0, aOut = first, b: u64 = 0, bHeld: u32 = 0, bOut = second;
  for (let i: usize = 0; i < half; i++) {
    const s = load<u32>(table + (<usize>load<u16>(indices + (i << 1)) << 2)), t = load<u32>(table + (<usize>load<u16>(indices2 + (i << 1)) << 2));
    a |= codeAndExtra(s, folded + (i << 2), child + (i << 2), shift) << aHeld;
    b |= codeAndExtra(t, folded2 + (i << 2), child2 + (i << 2), shift) << bHeld;
    aHeld += bitsOf(s); bHeld += bitsOf(t);
    store<u64>(aOut, a); store<u64>(bOut, b);
    aOut += aHeld >> 3; bOut += bHeld >> 3;
    a >>= <u64>(aHeld & 56); b >>= <u64>(bHeld & 56);
    aHeld &= 7; bHeld &= 7;
  }
  if (n & 1) {
    const t = load<u32>(table + (<usize>load<u16>(indices2 + (half << 1)) << 2));
    b |= codeAndExtra(t, folded2 + (half << 2), child2 + (half << 2), shift) << bHeld;
    bHeld += bitsOf(t);
    store<u64>(bOut, b);
    bOut += bHeld >> 3;
    b >>= <u64>(bHeld & 56);
    bHeld &= 7;
  }
  store<u64>(aOut, a); store<u64>(bOut, b);
  store<u32>(bitCounts, (<u32>(aOut - first) << 3) + aHeld);
  store<u32>(bitCounts + 4, (<u32>(bOut - second) << 3) + bHeld);
}
