// Codes with range asymmetric numeral systems (Duda 2013), for symbols worth less than a bit. It has two
// alternating states, 11-bit frequencies, states of 2^15 … 2^31 refilled by 16 bits.
export const states: u32 = 1 << 15;

// Backwards from `end` towards `start`; returns where the stream begins, or 0 where it would not fit.
// An entry: first slot | frequency << 16, by index.
export function ransEncode(indices: usize, n: usize, table: usize, start: usize, end: usize): u32 {
  let x = states, y = states, o = end;
  for (let i = n; i > 0; i--) {
    const entry = load<u32>(table + (<usize>load<u16>(indices + ((i - 1) << 1)) << 2)), frequency = entry >> 16;
    if (x >= frequency << 20) {
      if (o < start + 10) return 0;
      o -= 2; store<u16>(o, <u16>x); x >>= 16;
    }
    const next = ((x / frequency) << 11) + (x % frequency) + (entry & 0xffff);
    x = y; y = next;
  }
  if (o < start + 8) return 0;
  store<u32>(o - 8, y); store<u32>(o - 4, x);
  return <u32>(o - 8);
}

// An entry: slot in its symbol | frequency << 11 | symbol << 23, by context << 11 | slot. Writes one byte a symbol.
// Returns 0; -1 where the stream is damaged.
export function ransDecode(context: usize, n: usize, table: usize, start: usize, end: usize, out: usize): i32 {
  if (end - start < 8) return -1;
  let x = load<u32>(start), y = load<u32>(start + 4), p = start + 8;
  if ((x | y) >> 31) return -1;
  for (let i: usize = 0; i < n; i++) {
    const entry = load<u32>(table + (((<usize>load<u8>(context + i) << 11) | <usize>(x & 2047)) << 2));
    if (entry == 0) return -1;
    store<u8>(out + i, <u8>(entry >> 23));
    let next = ((entry >> 11) & 4095) * (x >> 11) + (entry & 2047);
    if (next < states) {
      if (p + 2 > end) return -1;
      next = (next << 16) | load<u16>(p); p += 2;
    }
    x = y; y = next;
  }
  return x == states && y == states && p == end ? 0 : -1;
}
