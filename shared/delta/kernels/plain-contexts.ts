/** Twin of assembly/contexts.ts: sums of magnitudes, and a context for every number. */
import type { Heap } from "./kernels.js";

export function magnitudes(
  { f32, i32 }: Heap,
  prediction: number,
  child: number,
  rows: number,
  columns: number,
  inner: number,
  rowSums: number,
  columnSums: number,
  innerSums: number,
  integers: number,
): void {
  const whole = inner & ~3;
  const sums = innerSums >> 2;
  const wanted = innerSums !== 0;
  const round = Math.fround;
  const magnitude = (a: number, b: number): number =>
    integers !== 0 ? integerMagnitude(i32[a]!, i32[b]!) : floatMagnitude(f32[a]!, f32[b]!);
  let p = prediction >> 2;
  let c = child >> 2;
  for (let row = 0; row < rows; row++) {
    let rowSum = 0;
    for (let column = 0; column < columns; column++) {
      let s0 = 0;
      let s1 = 0;
      let s2 = 0;
      let s3 = 0;
      let k = 0;
      for (; k < whole; k += 4) {
        const d0 = magnitude(c + k, p + k);
        const d1 = magnitude(c + k + 1, p + k + 1);
        const d2 = magnitude(c + k + 2, p + k + 2);
        const d3 = magnitude(c + k + 3, p + k + 3);
        s0 = round(s0 + d0);
        s1 = round(s1 + d1);
        s2 = round(s2 + d2);
        s3 = round(s3 + d3);
        if (wanted) {
          f32[sums + k]! += d0;
          f32[sums + k + 1]! += d1;
          f32[sums + k + 2]! += d2;
          f32[sums + k + 3]! += d3;
        }
      }
      let sum = round(round(s0 + s1) + round(s2 + s3));
      for (; k < inner; k++) {
        const d = magnitude(c + k, p + k);
        sum = round(sum + d);
        if (wanted) f32[sums + k]! += d;
      }
      f32[(columnSums >> 2) + column]! += sum;
      rowSum = round(rowSum + sum);
      p += inner;
      c += inner;
    }
    f32[(rowSums >> 2) + row] = rowSum;
  }
}

function integerMagnitude(child: number, prediction: number): number {
  const d = (child - prediction) | 0;
  return Math.fround((d < 0 ? -d : d) >>> 0);
}

function floatMagnitude(child: number, prediction: number): number {
  const d = Math.abs(Math.fround(child - prediction));
  return d < Infinity ? d : 0;
}

export function contexts(
  { u8, i32 }: Heap,
  prediction: number,
  rows: number,
  columns: number,
  inner: number,
  rowScales: number,
  columnScales: number,
  innerScales: number,
  exponentMask: number,
  out: number,
): void {
  const scales = innerScales >> 2;
  let p = prediction >> 2;
  let o = out;
  for (let row = 0; row < rows; row++) {
    const rowScale = i32[(rowScales >> 2) + row]!;
    for (let column = 0; column < columns; column++) {
      const scale = rowScale + i32[(columnScales >> 2) + column]!;
      for (let k = 0; k < inner; k++) {
        let s = scale - (((i32[p + k]! >>> 23) & exponentMask) << 2);
        if (innerScales !== 0) s += i32[scales + k]!;
        s >>= 1;
        u8[o + k] = s < 0 ? 0 : s > 63 ? 63 : s;
      }
      p += inner;
      o += inner;
    }
  }
}
