/** Twin of assembly/contexts.ts: sums of magnitudes, and a context for every number. */
import type { Heap } from "./kernels.js";

export function magnitudes({ f32, i32 }: Heap, prediction: number, child: number, rows: number, columns: number, inner: number, rowSums: number, columnSums: number, innerSums: number, integers: number): void {
  const whole = inner & ~3, sums = innerSums >> 2, lanes = new Float32Array(4);
  let p = prediction >> 2, c = child >> 2;
  for (let row = 0; row < rows; row++) {
    let rowSum = 0;
    for (let column = 0; column < columns; column++) {
      let tail = 0;
      lanes.fill(0);
      for (let k = 0; k < inner; k++) {
        const d = integers !== 0 ? integerMagnitude(i32[c + k]!, i32[p + k]!) : floatMagnitude(f32[c + k]!, f32[p + k]!);
        if (k < whole) lanes[k & 3] = lanes[k & 3]! + d;
        else { if (k === whole) tail = total(lanes); tail = Math.fround(tail + d); }
        if (innerSums !== 0) f32[sums + k] = f32[sums + k]! + d;
      }
      const sum = whole === inner ? total(lanes) : tail, at = (columnSums >> 2) + column;
      f32[at] = f32[at]! + sum;
      rowSum = Math.fround(rowSum + sum);
      p += inner; c += inner;
    }
    f32[(rowSums >> 2) + row] = rowSum;
  }
}

function total(lanes: Float32Array): number {
  return Math.fround(Math.fround(lanes[0]! + lanes[1]!) + Math.fround(lanes[2]! + lanes[3]!));
}

function integerMagnitude(child: number, prediction: number): number {
  const d = (child - prediction) | 0;
  return Math.fround((d < 0 ? -d : d) >>> 0);
}

function floatMagnitude(child: number, prediction: number): number {
  const d = Math.abs(Math.fround(child - prediction));
  return d < Infinity ? d : 0;
}

export function contexts({ u8, u32, i32 }: Heap, prediction: number, rows: number, columns: number, inner: number, rowScales: number, columnScales: number, innerScales: number, exponentMask: number, out: number): void {
  const scales = innerScales >> 2;
  let p = prediction >> 2, o = out;
  for (let row = 0; row < rows; row++) {
    const rowScale = i32[(rowScales >> 2) + row]!;
    for (let column = 0; column < columns; column++) {
      const scale = rowScale + i32[(columnScales >> 2) + column]!;
      for (let k = 0; k < inner; k++) {
        let s = scale - (((u32[p + k]! >>> 23) & exponentMask) << 2);
        if (innerScales !== 0) s += i32[scales + k]!;
        s >>= 1;
        u8[o + k] = s < 0 ? 0 : s > 63 ? 63 : s;
      }
      p += inner; o += inner;
    }
  }
}
