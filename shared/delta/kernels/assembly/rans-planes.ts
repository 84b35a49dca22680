// Decodes byte planes as rans.ts does, several streams at a time. One alone keeps the processor waiting for
// its own state; there is also one of which nearly every symbol is the same.
import { states } from "./rans";

// A refill without the branch that no processor could predict: all bits where the state is too small, else none.
@inline function wants(state: u32): u32 { return <u32>(<i32>(state - states) >> 31); }
@inline function refilled(state: u32, want: u32, at: usize): u32 { return (state << (want & 16)) | (<u32>load<u16>(at) & want); }
// The same in fewer steps one after the other, and more in all: for a stream by itself.
@inline function refilledAlone(state: u32, at: usize): u32 { return select<u32>((state << 16) | <u32>load<u16>(at), state, state < states); }
@inline function next(entry: u32, state: u32): u32 { return (entry >> 20) * (state >> 11) + (entry & 2047); }
@inline function entryOf(row: usize, state: u32): u32 { return load<u32>(row + ((state << 2) & 8188)); }

// Elements between two looks at where the streams end.
const stretch: usize = 32;

// Two planes, the second in the context of state and of the first. An entry: slot in its symbol | symbol << 11 |
// whether it is one that counts for the context below << 19 | frequency << 20, by context << 11 | slot; none is zero, and
// the second's table starts 4096 entries after the first's. `streams`: start and end of each; at most 64 bytes
// are read beyond them. Returns 0; -1 where one is damaged.
export function ransDecodeTwo(state: usize, n: usize, table: usize, streams: usize, planes: usize, stride: usize): i32 {
  let p = <usize>load<u32>(streams), q = <usize>load<u32>(streams + 8);
  const pEnd = <usize>load<u32>(streams + 4), qEnd = <usize>load<u32>(streams + 12), tableTwo = table + (4096 << 2), second = planes + stride;
  if (pEnd - p < 8 || qEnd - q < 8) return -1;
  let x = load<u32>(p), y = load<u32>(p + 4), v = load<u32>(q), w = load<u32>(q + 4);
  p += 8; q += 8;
  if ((x | y | v | w) >> 31) return -1;
  const pairs = n & ~1;
  let i: usize = 0;
  while (i < pairs) {
    if (p > pEnd || q > qEnd) return -1;
    for (const to = min(pairs, i + stretch); i < to; i += 2) {
      const at = planes + i, below = second + i;
      let context = <usize>load<u8>(state + i) << 13;
      let one = entryOf(table + context, x), two = entryOf(tableTwo + (context | ((one >> 6) & 8192)), v);
      store<u8>(at, <u8>(one >> 11));
      store<u8>(below, <u8>(two >> 11));
      let a = next(one, x), b = next(two, v), wantsA = wants(a), wantsB = wants(b);
      x = refilled(a, wantsA, p); p += wantsA & 2;
      v = refilled(b, wantsB, q); q += wantsB & 2;
      context = <usize>load<u8>(state + i, 1) << 13;
      one = entryOf(table + context, y); two = entryOf(tableTwo + (context | ((one >> 6) & 8192)), w);
      store<u8>(at, <u8>(one >> 11), 1);
      store<u8>(below, <u8>(two >> 11), 1);
      a = next(one, y); b = next(two, w); wantsA = wants(a); wantsB = wants(b);
      y = refilled(a, wantsA, p); p += wantsA & 2;
      w = refilled(b, wantsB, q); q += wantsB & 2;
    }
  }
  if (n & 1) {
    const context = <usize>load<u8>(state + i) << 13, one = entryOf(table + context, x), two = entryOf(tableTwo + (context | ((one >> 6) & 8192)), v);
    store<u8>(planes + i, <u8>(one >> 11));
    store<u8>(second + i, <u8>(two >> 11));
    const a = next(one, x), b = next(two, v), wantsA = wants(a), wantsB = wants(b);
    x = refilled(a, wantsA, p); p += wantsA & 2;
    v = refilled(b, wantsB, q); q += wantsB & 2;
  }
  return x == states && y == states && v == states && w == states && p == pEnd && q == qEnd ? 0 : -1;
}

// One plane, in the context of state.
export function ransDecodeOne(state: usize, n: usize, table: usize, start: usize, end: usize, plane: usize): i32 {
  let p = start + 8;
  if (end - start < 8) return -1;
  let x = load<u32>(start), y = load<u32>(start + 4);
  if ((x | y) >> 31) return -1;
  const pairs = n & ~1;
  let i: usize = 0;
  while (i < pairs) {
    if (p > end) return -1;
    for (const to = min(pairs, i + stretch); i < to; i += 2) {
      let entry = entryOf(table + (<usize>load<u8>(state + i) << 13), x);
      store<u8>(plane + i, <u8>(entry >> 11));
      let a = next(entry, x), want = wants(a);
      x = refilledAlone(a, p); p += want & 2;
      entry = entryOf(table + (<usize>load<u8>(state + i, 1) << 13), y);
      store<u8>(plane + i, <u8>(entry >> 11), 1);
      a = next(entry, y); want = wants(a);
      y = refilledAlone(a, p); p += want & 2;
    }
  }
  if (n & 1) {
    const entry = entryOf(table + (<usize>load<u8>(state + i) << 13), x), a = next(entry, x), want = wants(a);
    store<u8>(plane + i, <u8>(entry >> 11));
    x = refilledAlone(a, p); p += want & 2;
  }
  return x == states && y == states && p == end ? 0 : -1;
}

// One plane without context, whose symbol 0 has `share` of 2048 slots, the first: that it comes is foreseen, and
// nothing waits for the table. Else as ransDecodeOne.
export function ransDecodeMostlyZero(n: usize, table: usize, share: u32, start: usize, end: usize, out: usize): i32 {
  if (end - start < 8) return -1;
  let x = load<u32>(start), y = load<u32>(start + 4), p = start + 8;
  if ((x | y) >> 31) return -1;
  memory.fill(out, 0, n);
  for (let i: usize = 0; i < n; i++) {
    const slot = x & 2047;
    let state: u32;
    if (slot < share) state = share * (x >> 11) + slot;
    else {
      const entry = load<u32>(table + (<usize>slot << 2));
      store<u8>(out + i, <u8>(entry >> 11));
      state = next(entry, x);
    }
    if (state < states) {
      if (p + 2 > end) return -1;
      state = (state << 16) | load<u16>(p); p += 2;
    }
    x = y; y = state;
  }
  return x == states && y == states && p == end ? 0 : -1;
}
