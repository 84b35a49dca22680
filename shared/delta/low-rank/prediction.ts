/**
 * Predicts a tensor by its base and a product of two factors, with the same bits on every machine. In row
 * blocks it is base (or base + alpha · (base − previous)) + product, every operation rounded to float32. A
 * number that would not be finite is predicted by the base.
 */
import { uninitializedBytes } from "../../tensor/uninitialized-bytes.js";
import type { KernelMemory } from "../kernel-memory.js";
import type { NumberKind } from "../numbers.js";
import type { PieceReferences } from "../piece.js";
import { leftFloats, rightFloats, type Factors } from "./factors.js";

/** Numbers of a block; it bounds the kernels' memory. */
const blockNumbers = 2 ** 17;

export function blockRowsOf(columns: number): number {
  return Math.max(1, Math.floor(blockNumbers / columns));
}

/** The prediction that a low-rank prediction adds its product to. */
export interface LinePrediction {
  readonly kind: NumberKind;
  /** `base` is there; `previous` where alpha64 is not 0. */
  readonly references: PieceReferences;
  readonly alpha64: number;
}

/** Offsets of lanes in the kernels' memory, each as long as a block. */
export interface LineArrays {
  readonly base: number;
  readonly previous: number;
  /** The offset of numbers before they are widened, and after they are narrowed. */
  readonly narrow: number;
}

/** Writes the numbers from `from` to before `to` of the line through previous and base over `arrays.base`. */
export function loadLine(
  memory: KernelMemory,
  { kind, references, alpha64 }: LinePrediction,
  arrays: LineArrays,
  { from, to }: { readonly from: number; readonly to: number },
): void {
  loadNumbers(memory, kind, references.base!.subarray(from * kind.bytes, to * kind.bytes), {
    target: arrays.base,
    narrow: arrays.narrow,
  });
  if (alpha64 === 0) return;
  loadNumbers(memory, kind, references.previous!.subarray(from * kind.bytes, to * kind.bytes), {
    target: arrays.previous,
    narrow: arrays.narrow,
  });
  memory.kernels.predict(arrays.base, arrays.previous, to - from, alpha64 / 64, arrays.base);
}

/** Writes numbers as 32-bit lanes to `target`. */
export function loadNumbers(
  { kernels }: KernelMemory,
  kind: NumberKind,
  bytes: Uint8Array,
  { target, narrow }: { readonly target: number; readonly narrow: number },
): void {
  const { u8 } = kernels.reserve(0);
  if (kind.widening === 0) {
    u8.set(bytes, target);
    return;
  }
  u8.set(bytes, narrow);
  kernels.widen(narrow, target, bytes.length / kind.bytes, kind.widening);
}

/** The predicted tensor's bytes, as many as the base has. */
export function predictLowRank(memory: KernelMemory, line: LinePrediction, factors: Factors): Uint8Array {
  const { kernels } = memory;
  const { kind } = line;
  const { rows, columns, rank } = factors;
  const out = uninitializedBytes(rows * columns * kind.bytes);
  const blockRows = Math.min(rows, blockRowsOf(columns));
  const blockBytes = 4 * blockRows * columns;
  const { heap, offsets } = memory.arrays({
    right: 4 * rank * columns,
    left: 4 * rank * blockRows,
    base: blockBytes,
    previous: blockBytes,
    narrow: blockBytes,
  });
  const { right, left, base, previous, narrow } = offsets;
  heap.f32.set(rightFloats(factors), right >> 2);
  for (let row = 0; row < rows; row += blockRows) {
    const end = Math.min(rows, row + blockRows);
    const count = (end - row) * columns;
    loadLine(memory, line, { base, previous, narrow }, { from: row * columns, to: end * columns });
    heap.f32.set(leftFloats(factors, row, end), left >> 2);
    kernels.addProduct(base, end - row, columns, left, rank, right, base);
    storeNumbers(memory, kind, { source: base, narrow, count }, out.subarray(row * columns * kind.bytes));
  }
  return out;
}

/** Writes lanes as numbers of their type, rounded to what the type can represent. */
function storeNumbers(
  { kernels }: KernelMemory,
  { widening, shift, bytes }: NumberKind,
  { source, narrow, count }: { readonly source: number; readonly narrow: number; readonly count: number },
  target: Uint8Array,
): void {
  const { u8, u32 } = kernels.reserve(0);
  if (widening === 0) {
    target.set(u8.subarray(source, source + 4 * count));
    return;
  }
  const half = 1 << (shift - 1);
  for (let i = source >> 2, end = i + count; i < end; i++) u32[i] = u32[i]! + half;
  kernels.narrow(source, narrow, count, widening);
  target.set(u8.subarray(narrow, narrow + bytes * count));
}
