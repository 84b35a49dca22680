// Reads what pack.ts wrote. Nothing is read beyond 8 bytes after a stream's end, nothing written beyond
// n numbers; a stream that ends early, or a code no table has, ends the call with a negative result.
// A decoding entry: length | length and extra bits << 4 | extra bits << 10 | high << 16 | kind << 24. kinds as in pack.ts, 4 = no such code;
// high: for differences the bits above the extra ones, for mantissas how far the exponent is below emax.
import { ordered, unordered } from "./order";

// Returns the difference to add to the prediction's rank.
@inline function difference(entry: u32, extra: u32, width: u32, shift: i32): u32 {
  const sign = 0 - (extra & 1), m = ((((entry >> 16) & 255) << width) | extra) >> 1;
  return ((m ^ sign) - sign) << shift;
}

// The same for every kind; where there is no prediction (absolute), the number itself.
@inline function anyDifference(entry: u32, extra: u32, width: u32, absolute: bool, prediction: usize, orderMask: i32, shift: i32, emax: i32): u32 {
  const kind = entry >> 24;
  if (kind == 0) return difference(entry, extra, width, shift);
  const number = kind == 1 ? ((extra << shift) & 0x7fffff) | (((<u32>emax - ((entry >> 16) & 255)) & 255) << 23) | ((extra >> (23 - shift)) << 31) : kind == 2 ? extra : 0;
  if (absolute) return number;
  return ordered(number, orderMask) - ordered(load<u32>(prediction), orderMask);
}

@inline function extraOf(window: u64, length: u32, width: u32): u32 { return <u32>((window >> <u64>length) & ((<u64>1 << width) - 1)); }

function addPrediction(prediction: usize, n: usize, orderMask: i32, out: usize): void {
  const top = i32x4.splat(0x80000000), mask = i32x4.splat(orderMask);
  let i: usize = 0;
  for (; i + 4 <= n; i += 4) {
    const p = v128.load(prediction + (i << 2));
    const rank = i32x4.add(v128.xor(p, v128.and(v128.or(i32x4.shr_s(p, 31), top), mask)), v128.load(out + (i << 2)));
    v128.store(out + (i << 2), v128.xor(rank, v128.and(v128.or(i32x4.shr_s(v128.not(rank), 31), top), mask)));
  }
  for (; i < n; i++) store<u32>(out + (i << 2), unordered(ordered(load<u32>(prediction + (i << 2)), orderMask) + load<u32>(out + (i << 2)), orderMask));
}

@inline function window(start: usize, at: u32): u64 { return load<u64>(start + (at >> 3)) >> <u64>(at & 7); }
@inline function entryOf(table: usize, context: usize, bits: u64): u32 { return load<u32>(table + (((<usize>load<u8>(context) << 10) | <usize>(<u32>bits & 1023)) << 2)); }
@inline function lengthOf(entry: u32): u32 { return entry & 15; }
@inline function totalOf(entry: u32): u32 { return (entry >> 4) & 63; }
@inline function widthOf(entry: u32): u32 { return (entry >> 10) & 63; }

// One stream from bit `at` on, for the few numbers left over. Returns the bits read; 0xffffffff damaged.
function unpackSlowly(prediction: usize, context: usize, from: usize, to: usize, table: usize, start: usize, at: u32, end: u32, orderMask: i32, shift: i32, emax: i32, out: usize): u32 {
  const absolute = prediction == 0;
  for (let i = from; i < to; i++) {
    if (at > end) return 0xffffffff;
    const x = window(start, at), s = entryOf(table, context + i, x);
    if (s >= (4 << 24)) return 0xffffffff;
    at += totalOf(s);
    store<u32>(out + (i << 2), anyDifference(s, extraOf(x, lengthOf(s), widthOf(s)), widthOf(s), absolute, prediction + (i << 2), orderMask, shift, emax));
  }
  return at > end ? 0xffffffff : at;
}

// Four streams, of m, m, (n-2m)/2 and the remaining numbers, m = n/4: one alone would keep the processor
// waiting. `streams`: start and bits of each; the bits become those read. Tables of 1024 entries a context.
// prediction = 0: there is none, and no symbol is a difference. Returns 0; -1 damaged.
export function unpackBits(prediction: usize, context: usize, n: usize, table: usize, streams: usize, orderMask: i32, shift: i32, emax: i32, out: usize): i32 {
  const absolute = prediction == 0, m = n >> 2, third = m << 1, fourth = third + ((n - third) >> 1);
  const a = load<u32>(streams), b = load<u32>(streams + 8), c = load<u32>(streams + 16), d = load<u32>(streams + 24);
  const aEnd = load<u32>(streams + 4), bEnd = load<u32>(streams + 12), cEnd = load<u32>(streams + 20), dEnd = load<u32>(streams + 28);
  const contextB = context + m, contextC = context + third, contextD = context + fourth;
  const outB = out + (m << 2), outC = out + (third << 2), outD = out + (fourth << 2);
  let aAt: u32 = 0, bAt: u32 = 0, cAt: u32 = 0, dAt: u32 = 0;
  for (let i: usize = 0; i < m; i++) {
    if (<i32>(aAt > aEnd) | <i32>(bAt > bEnd) | <i32>(cAt > cEnd) | <i32>(dAt > dEnd)) return -1;
    const w = window(a, aAt), x = window(b, bAt), y = window(c, cAt), z = window(d, dAt);
    const r = entryOf(table, context + i, w), s = entryOf(table, contextB + i, x), t = entryOf(table, contextC + i, y), u = entryOf(table, contextD + i, z);
    aAt += totalOf(r); bAt += totalOf(s); cAt += totalOf(t); dAt += totalOf(u);
    if ((r | s | t | u) < (1 << 24)) {
      const at = i << 2;
      store<u32>(out + at, difference(r, extraOf(w, lengthOf(r), widthOf(r)), widthOf(r), shift));
      store<u32>(outB + at, difference(s, extraOf(x, lengthOf(s), widthOf(s)), widthOf(s), shift));
      store<u32>(outC + at, difference(t, extraOf(y, lengthOf(t), widthOf(t)), widthOf(t), shift));
      store<u32>(outD + at, difference(u, extraOf(z, lengthOf(u), widthOf(u)), widthOf(u), shift));
    } else {
      if ((r | s | t | u) >= (4 << 24)) return -1;
      const at = i << 2;
      store<u32>(out + at, anyDifference(r, extraOf(w, lengthOf(r), widthOf(r)), widthOf(r), absolute, prediction + at, orderMask, shift, emax));
      store<u32>(outB + at, anyDifference(s, extraOf(x, lengthOf(s), widthOf(s)), widthOf(s), absolute, prediction + (m << 2) + at, orderMask, shift, emax));
      store<u32>(outC + at, anyDifference(t, extraOf(y, lengthOf(t), widthOf(t)), widthOf(t), absolute, prediction + (third << 2) + at, orderMask, shift, emax));
      store<u32>(outD + at, anyDifference(u, extraOf(z, lengthOf(u), widthOf(u)), widthOf(u), absolute, prediction + (fourth << 2) + at, orderMask, shift, emax));
    }
  }
  cAt = unpackSlowly(prediction, context, third + m, fourth, table, c, cAt, cEnd, orderMask, shift, emax, out);
  dAt = unpackSlowly(prediction, context, fourth + m, n, table, d, dAt, dEnd, orderMask, shift, emax, out);
  store<u32>(streams + 4, aAt); store<u32>(streams + 12, bAt); store<u32>(streams + 20, cAt); store<u32>(streams + 28, dAt);
  if (aAt > aEnd || bAt > bEnd || cAt > cEnd || dAt > dEnd) return -1;
  if (!absolute) addPrediction(prediction, n, orderMask, out);
  return 0;
}

// The same where the symbols are known already: one stream, 64 entries. Returns the bits read; -1 damaged.
export function unpackExtras(prediction: usize, symbols: usize, n: usize, table: usize, stream: usize, streamBits: u32, orderMask: i32, shift: i32, emax: i32, out: usize): f64 {
  const absolute = prediction == 0;
  let a: u32 = 0;
  for (let i: usize = 0; i < n; i++) {
    if (a > streamBits) return -1;
    const entry = load<u32>(table + (<usize>(load<u8>(symbols + i) & 63) << 2)), width = widthOf(entry);
    if (entry >= (4 << 24)) return -1;
    const extra = extraOf(load<u64>(stream + (a >> 3)) >> <u64>(a & 7), 0, width);
    a += width;
    store<u32>(out + (i << 2), anyDifference(entry, extra, width, absolute, prediction + (i << 2), orderMask, shift, emax));
  }
  if (!absolute) addPrediction(prediction, n, orderMask, out);
  return a > streamBits ? -1 : <f64>a;
}
