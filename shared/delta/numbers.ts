/**
 * Element types as the codec sees them: 32-bit lanes of floats or integers, or bytes that it does not
 * interpret. Does not read tensors.
 */
import { dtypeBits, type DType } from "../tensor/dtype.js";

/** The form in which a type's numbers become 32-bit lanes. */
export interface NumberKind {
  /** Kernel kind of `widen` and `narrow`; 0: the lanes are the bytes. */
  readonly widening: number;
  readonly isFloat: boolean;
  /** Low bits of a lane that are always zero. */
  readonly shift: 0 | 13 | 16;
  /** Bytes per number in the tensor. */
  readonly bytes: 1 | 2 | 4;
}

const kinds: Partial<Record<DType, NumberKind>> = {
  F32: { widening: 0, isFloat: true, shift: 0, bytes: 4 },
  C64: { widening: 0, isFloat: true, shift: 0, bytes: 4 },
  BF16: { widening: 5, isFloat: true, shift: 16, bytes: 2 },
  F16: { widening: 6, isFloat: true, shift: 13, bytes: 2 },
  I32: { widening: 0, isFloat: false, shift: 0, bytes: 4 },
  U32: { widening: 0, isFloat: false, shift: 0, bytes: 4 },
  I16: { widening: 4, isFloat: false, shift: 0, bytes: 2 },
  U16: { widening: 3, isFloat: false, shift: 0, bytes: 2 },
  I8: { widening: 2, isFloat: false, shift: 0, bytes: 1 },
  U8: { widening: 1, isFloat: false, shift: 0, bytes: 1 },
  BOOL: { widening: 1, isFloat: false, shift: 0, bytes: 1 },
  F8_E4M3: { widening: 1, isFloat: false, shift: 0, bytes: 1 },
  F8_E5M2: { widening: 1, isFloat: false, shift: 0, bytes: 1 },
  F8_E8M0: { widening: 1, isFloat: false, shift: 0, bytes: 1 },
};

/** Returns undefined for a type whose numbers are not coded as numbers. */
export function numberKind(dtype: DType): NumberKind | undefined {
  return kinds[dtype];
}

/** Bytes of one element as byte planes see it; 0 where an element is not a whole number of bytes. */
export function planeBytes(dtype: DType): number {
  const bits = dtype === "C64" ? 32 : dtypeBits(dtype);
  return bits % 8 === 0 ? bits / 8 : 0;
}

/** A tensor as rows × columns × inner elements; `rows · columns · inner` numbers. */
export interface View {
  readonly rows: number;
  readonly columns: number;
  readonly inner: number;
}

/** Tensors of fewer numbers are one row: scales would cost more than they save. */
const minStructuredNumbers = 256;

/**
 * The grouping of a shape into three runs of dimensions with the fewest rows + columns + inner elements; the
 * first found.
 */
export function viewOf(shape: readonly number[], count: number): View {
  const flat = { rows: 1, columns: 1, inner: count };
  if (shape.length < 2 || count < minStructuredNumbers) return flat;
  const product = (from: number, to: number): number =>
    shape.slice(from, to).reduce((all, size) => all * size, 1);
  let best: View = flat;
  let fewest = count;
  for (let i = 0; i < shape.length; i++) {
    for (let j = i; j < shape.length; j++) {
      const view = { rows: product(0, i), columns: product(i, j), inner: product(j, shape.length) };
      const sum = view.rows + view.columns + view.inner;
      if (view.rows * view.columns * view.inner === count && sum < fewest) {
        best = view;
        fewest = sum;
      }
    }
  }
  return best;
}

/** Mantissas of 2^(1/8), 2^(3/8), 2^(5/8), 2^(7/8). */
const eighths = [759_250, 2_490_073, 4_548_381, 6_996_169] as const;
const single = new Float32Array(1);
const singleBits = new Uint32Array(single.buffer);

/** 4 · log2(x), rounded, by integer arithmetic (thresholds 2^(1/8), 2^(3/8), …); −600 for zero. */
export function quarterOctaves(x: number): number {
  single[0] = x;
  const bits = singleBits[0]!;
  if (bits === 0 || bits >>> 23 >= 255) return bits === 0 ? -600 : 512;
  const mantissa = bits & 0x7fffff;
  let quarter = 0;
  for (const threshold of eighths) if (mantissa >= threshold) quarter++;
  return 4 * ((bits >>> 23) - 127) + quarter;
}

/**
 * log2 for estimates, within 0.001, the same on every machine: the exponent, and a series for the mantissa.
 */
export function roughLog2(x: number): number {
  single[0] = x;
  const bits = singleBits[0]!;
  if (bits === 0) return -150;
  const m = (bits & 0x7fffff) / 8_388_608 + 1;
  const z = (m - 1) / (m + 1);
  const zz = z * z;
  return (bits >>> 23) - 127 + 2.885390081777927 * z * (1 + zz * (1 / 3 + zz * (0.2 + zz / 7)));
}
