/** Twin of assembly/rans-planes.ts: what plain-rans.ts decodes, for byte planes. */
import type { Heap } from "./kernels.js";
import { minState } from "./plain-rans.js";

interface Stream {
  x: number;
  y: number;
  at: number;
  readonly end: number;
}

function open({ u8 }: Heap, start: number, end: number): Stream | undefined {
  const word = (at: number): number =>
    (u8[at]! | (u8[at + 1]! << 8) | (u8[at + 2]! << 16) | (u8[at + 3]! << 24)) >>> 0;
  if (end - start < 8) return undefined;
  const x = word(start);
  const y = word(start + 4);
  return (x | y) >>> 31 === 0 ? { x, y, at: start + 8, end } : undefined;
}

function isDone({ x, y, at, end }: Stream): boolean {
  return x === minState && y === minState && at === end;
}

export function ransDecodeOne(
  heap: Heap,
  state: number,
  n: number,
  table: number,
  start: number,
  end: number,
  plane: number,
): number {
  const stream = open(heap, start, end);
  const { u8, u32 } = heap;
  const t = table >> 2;
  if (stream === undefined) return -1;
  let { x, y, at } = stream;
  for (let i = 0; i < n; i++) {
    const entry = u32[t + ((u8[state + i]! << 11) | (x & 2047))]!;
    u8[plane + i] = entry >>> 11;
    let next = Math.imul(entry >>> 20, x >>> 11) + (entry & 2047);
    if (next < minState) {
      if (at + 2 > end) return -1;
      next = (next << 16) | u8[at]! | (u8[at + 1]! << 8);
      at += 2;
    }
    x = y;
    y = next;
  }
  return isDone({ x, y, at, end }) ? 0 : -1;
}

export function ransDecodeTwo(
  heap: Heap,
  state: number,
  n: number,
  table: number,
  streams: number,
  planes: number,
  stride: number,
): number {
  const { u8, u32 } = heap;
  const s = streams >> 2;
  const first = open(heap, u32[s]!, u32[s + 1]!);
  const second = open(heap, u32[s + 2]!, u32[s + 3]!);
  const t = table >> 2;
  if (first === undefined || second === undefined) return -1;
  let { x, y, at } = first;
  let { x: v, y: w, at: from } = second;
  for (let i = 0; i < n; i++) {
    const context = u8[state + i]!;
    const one = u32[t + ((context << 11) | (x & 2047))]!;
    const two = u32[t + 4096 + (((context | ((one >>> 19) & 1)) << 11) | (v & 2047))]!;
    u8[planes + i] = one >>> 11;
    u8[planes + stride + i] = two >>> 11;
    let next = Math.imul(one >>> 20, x >>> 11) + (one & 2047);
    let below = Math.imul(two >>> 20, v >>> 11) + (two & 2047);
    if (next < minState) {
      if (at + 2 > first.end) return -1;
      next = (next << 16) | u8[at]! | (u8[at + 1]! << 8);
      at += 2;
    }
    if (below < minState) {
      if (from + 2 > second.end) return -1;
      below = (below << 16) | u8[from]! | (u8[from + 1]! << 8);
      from += 2;
    }
    x = y;
    y = next;
    v = w;
    w = below;
  }
  return isDone({ x, y, at, end: first.end }) && isDone({ x: v, y: w, at: from, end: second.end }) ? 0 : -1;
}

export function ransDecodeMostlyZero(
  heap: Heap,
  n: number,
  table: number,
  share: number,
  start: number,
  end: number,
  out: number,
): number {
  const stream = open(heap, start, end);
  const { u8, u32 } = heap;
  const t = table >> 2;
  if (stream === undefined) return -1;
  let { x, y, at } = stream;
  for (let i = 0; i < n; i++) {
    const slot = x & 2047;
    const entry = slot < share ? 0 : u32[t + slot]!;
    u8[out + i] = entry >>> 11;
    let next =
      slot < share ? Math.imul(share, x >>> 11) + slot : Math.imul(entry >>> 20, x >>> 11) + (entry & 2047);
    if (next < minState) {
      if (at + 2 > end) return -1;
      next = (next << 16) | u8[at]! | (u8[at + 1]! << 8);
      at += 2;
    }
    x = y;
    y = next;
  }
  return isDone({ x, y, at, end }) ? 0 : -1;
}
