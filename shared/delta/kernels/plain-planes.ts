/** Twin of assembly/planes.ts: byte planes and elements. */
import type { Heap } from "./kernels.js";

export function markTouched({ u8 }: Heap, plane: number, n: number, mask: number, state: number): void {
  for (let i = 0; i < n; i++) if ((u8[plane + i]! & mask) !== 0) u8[state + i] = 1;
}

export function joinPlanes(
  { u8 }: Heap,
  planes: number,
  stride: number,
  n: number,
  width: number,
  known: number,
  base: number,
  out: number,
): void {
  for (let place = 0; place < width; place++) {
    const plane = width - 1 - place;
    const from = planes + plane * stride;
    if (plane >= known) for (let i = 0, at = out + place; i < n; i++, at += width) u8[at] = 0;
    else if (base === 0) for (let i = 0, at = out + place; i < n; i++, at += width) u8[at] = u8[from + i]!;
    else for (let i = 0, at = place; i < n; i++, at += width) u8[out + at] = u8[from + i]! + u8[base + at]!;
  }
}

export function splitPlanes(
  { u8 }: Heap,
  child: number,
  base: number,
  n: number,
  width: number,
  planes: number,
  stride: number,
): void {
  for (let plane = 0; plane < width; plane++) {
    for (let i = 0, at = width - 1 - plane, out = planes + plane * stride; i < n; i++, at += width)
      u8[out + i] = u8[child + at]! - (base === 0 ? 0 : u8[base + at]!);
  }
}
