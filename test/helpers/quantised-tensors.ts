/**
 * Tensors as other programs quantise and average them, by the plain formulas of PyTorch, ONNX and GGUF; written
 * without the code under test.
 */
import type { DType } from "../../shared/tensor/dtype.js";
import type { Tensor } from "../../shared/tensor/tensor.js";

const f = Math.fround;

export function floatsOf({ bytes }: Tensor): Float32Array {
  return new Float32Array(new Uint8Array(bytes).buffer);
}

export function singles(shape: readonly number[], values: Float32Array): Tensor {
  return { dtype: "F32", shape, bytes: new Uint8Array(new Float32Array(values).buffer) };
}

/** C's nearbyint: ties to even. */
export function nearbyint(value: number): number {
  const near = Math.round(value);
  return Math.abs(value % 1) === 0.5 && near % 2 !== 0 ? near - 1 : near;
}

/** Which group each number belongs to. */
export type GroupOf = (index: number) => number;
export const groups = {
  tensor: (): number => 0,
  rows:
    (columns: number): GroupOf =>
    (i) =>
      Math.floor(i / columns),
  columns:
    (columns: number): GroupOf =>
    (i) =>
      i % columns,
  of:
    (size: number): GroupOf =>
    (i) =>
      Math.floor(i / size),
};

function byGroup(
  values: Float32Array,
  groupOf: GroupOf,
): { readonly least: number; readonly most: number; readonly extreme: number }[] {
  const found: { least: number; most: number; extreme: number }[] = [];
  values.forEach((value, i) => {
    const own = (found[groupOf(i)] ??= { least: Infinity, most: -Infinity, extreme: 0 });
    own.least = Math.min(own.least, value);
    own.most = Math.max(own.most, value);
    if (Math.abs(value) > Math.abs(own.extreme)) own.extreme = value;
  });
  return found;
}

export interface Quantised {
  readonly codes: Int16Array;
  readonly scales: Float32Array;
  readonly zeros: Int32Array;
}

function clamp(code: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, code));
}

/** PyTorch, per tensor or channel symmetric: scale = max|x| / 127.5 or another divisor; x · (1 / scale). */
export function symmetric(
  values: Float32Array,
  groupOf: GroupOf,
  { divisor, min, max }: { readonly divisor: number; readonly min: number; readonly max: number },
): Quantised {
  const scales = Float32Array.from(byGroup(values, groupOf), ({ extreme }) => f(Math.abs(extreme) / divisor));
  const codes = Int16Array.from(values, (value, i) =>
    clamp(nearbyint(f(value * f(1 / scales[groupOf(i)]!))), min, max),
  );
  return { codes, scales, zeros: new Int32Array(scales.length) };
}

/** ONNX DynamicQuantizeLinear: scale = (max(x, 0) − min(x, 0)) / 255, zero point rounded and clamped; x / scale. */
export function affine(values: Float32Array, groupOf: GroupOf, max = 255): Quantised {
  const found = byGroup(values, groupOf);
  const scales = Float32Array.from(found, ({ least, most }) =>
    f(f(Math.max(most, 0) - Math.min(least, 0)) / max),
  );
  const zeros = Int32Array.from(found, ({ least }, group) =>
    clamp(nearbyint(f(0 - f(Math.min(least, 0) / scales[group]!))), 0, max),
  );
  const codes = Int16Array.from(values, (value, i) =>
    clamp(nearbyint(f(value / scales[groupOf(i)]!)) + zeros[groupOf(i)]!, 0, max),
  );
  return { codes, scales, zeros };
}

/** GGUF Q4_0: blocks of 32, d = extreme / −8, q = min(15, ⌊x · (1 / d) + 8.5⌋). */
export function ggufQ4(values: Float32Array): Quantised {
  const groupOf = groups.of(32);
  const scales = Float32Array.from(byGroup(values, groupOf), ({ extreme }) => f(extreme / -8));
  const codes = Int16Array.from(values, (value, i) => {
    const scale = scales[groupOf(i)]!;
    return Math.min(15, Math.trunc(f(f(value * (scale === 0 ? 0 : f(1 / scale))) + 8.5)));
  });
  return { codes, scales, zeros: new Int32Array(scales.length).fill(8) };
}

/** GGUF Q8_0: blocks of 32, d = max|x| / 127, q = roundf(x · (1 / d)): ties away from zero. */
export function ggufQ8(values: Float32Array): Quantised {
  const groupOf = groups.of(32);
  const scales = Float32Array.from(byGroup(values, groupOf), ({ extreme }) => f(Math.abs(extreme) / 127));
  const codes = Int16Array.from(values, (value, i) => {
    const scale = scales[groupOf(i)]!;
    const ratio = f(value * (scale === 0 ? 0 : f(1 / scale)));
    return Math.sign(ratio) * Math.round(Math.abs(ratio));
  });
  return { codes, scales, zeros: new Int32Array(scales.length) };
}

/** GGUF Q4_1: blocks of 32, d = (max − min) / 15, q = min(15, ⌊(x − min) · (1 / d) + 0.5⌋). */
function ggufQ41(values: Float32Array): Quantised & { readonly least: Float32Array } {
  const groupOf = groups.of(32);
  const found = byGroup(values, groupOf);
  const scales = Float32Array.from(found, ({ least, most }) => f(f(most - least) / 15));
  const codes = Int16Array.from(values, (value, i) => {
    const scale = scales[groupOf(i)]!;
    const inverse = scale === 0 ? 0 : f(1 / scale);
    return Math.min(15, Math.trunc(f(f(f(value - found[groupOf(i)]!.least) * inverse) + 0.5)));
  });
  const least = Float32Array.from(found, (own) => own.least);
  return { codes, scales, zeros: new Int32Array(scales.length), least };
}

/** GGUF's blocks as they are in a file, a row of them for each row, and the float32 numbers that they stand for. */
export function ggufBlocks(
  shape: readonly number[],
  values: Float32Array,
  form: "Q4_0" | "Q4_1" | "Q8_0",
): { readonly blocks: Tensor; readonly numbers: Tensor } {
  const q41 = form === "Q4_1" ? ggufQ41(values) : undefined;
  const { codes, scales, zeros } = q41 ?? (form === "Q4_0" ? ggufQ4(values) : ggufQ8(values));
  const count = scales.length;
  const heads = [scales, ...(q41 === undefined ? [] : [q41.least])].map((numbers) =>
    Uint16Array.from(numbers, halfBits),
  );
  const bytes: number[] = [];
  for (let block = 0; block < count; block++) {
    for (const head of heads) bytes.push(head[block]! & 255, head[block]! >> 8);
    const own = codes.slice(32 * block, 32 * block + 32);
    bytes.push(...(form === "Q8_0" ? inBytes("I8", [32], own) : inHalfBytes([32], own, 32)).bytes);
  }
  const halves = heads.map((head) => Float32Array.from(head, halfNumber));
  const numbers = Float32Array.from(codes, (code, i) => {
    const block = Math.floor(i / 32);
    return f(f((code - zeros[block]!) * halves[0]![block]!) + (halves[1]?.[block] ?? 0));
  });
  const row = (bytes.length / values.length) * shape.at(-1)!;
  return {
    blocks: { dtype: "U8", shape: [...shape.slice(0, -1), row], bytes: Uint8Array.from(bytes) },
    numbers: singles(shape, numbers),
  };
}

/** The nearest float16, ties to even. */
function halfBits(value: number): number {
  const size = Math.abs(value);
  const exponent = Math.floor(Math.log2(size));
  const bits =
    size < 2 ** -14
      ? nearbyint(size * 2 ** 24)
      : nearbyint((size / 2 ** exponent) * 1024) + ((exponent + 14) << 10);
  return bits | (value < 0 || Object.is(value, -0) ? 0x8000 : 0);
}

/** The number of a float16, by its sign, exponent and fraction bits. */
function halfNumber(bits: number): number {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const size = exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15);
  return bits < 32768 ? size : -size;
}

export function inBytes(dtype: DType, shape: readonly number[], codes: Int16Array): Tensor {
  return { dtype, shape, bytes: Uint8Array.from(codes, (code) => code & 255) };
}

/** Two codes a byte: neighbours with the first in the low or the high half, or those of a group's halves. */
export function inHalfBytes(
  shape: readonly number[],
  codes: Int16Array,
  order: "lowFirst" | "highFirst" | number,
): Tensor {
  const bytes = Uint8Array.from({ length: codes.length / 2 }, (_, i) => {
    const half = typeof order === "number" ? order / 2 : 1;
    const low =
      typeof order === "number"
        ? Math.floor(i / half) * order + (i % half)
        : 2 * i + (order === "lowFirst" ? 0 : 1);
    const high = typeof order === "number" ? low + half : 2 * i + (order === "lowFirst" ? 1 : 0);
    return (codes[low]! & 15) | ((codes[high]! & 15) << 4);
  });
  return { dtype: "U8", shape: [...shape.slice(0, -1), shape.at(-1)! / 2], bytes };
}

/** (code − zero point) · scale. */
export function dequantised(
  shape: readonly number[],
  { codes, scales, zeros }: Quantised,
  groupOf: GroupOf,
): Tensor {
  return singles(
    shape,
    Float32Array.from(codes, (code, i) => f((code - zeros[groupOf(i)]!) * scales[groupOf(i)]!)),
  );
}

/** The number of a code of an 8-bit float, by its sign, exponent and fraction bits. */
function float8(code: number, fractionBits: number): number {
  const [exponent, fraction] = [(code & 127) >> fractionBits, code & ((1 << fractionBits) - 1)];
  const bias = fractionBits === 3 ? 7 : 15;
  const part = fraction / (1 << fractionBits);
  const size = exponent === 0 ? part * 2 ** (1 - bias) : (1 + part) * 2 ** (exponent - bias);
  return code < 128 ? size : -size;
}

/** x / scale as the nearest number of the type, ties to the even code; scale = max|x| / the type's largest number. */
export function toFloat8(
  shape: readonly number[],
  values: Float32Array,
  dtype: "F8_E4M3" | "F8_E5M2",
): Tensor {
  const [fractionBits, last] = dtype === "F8_E4M3" ? [3, 0x7e] : [2, 0x7b];
  const numbers = Array.from({ length: last + 1 }, (_, code) => float8(code, fractionBits));
  const scale = f(values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / numbers[last]!);
  const codes = Int16Array.from(values, (value) => {
    const ratio = f(value / scale);
    let best = 0;
    numbers.forEach((number, code) => {
      const [own, before] = [Math.abs(number - Math.abs(ratio)), Math.abs(numbers[best]! - Math.abs(ratio))];
      if (own < before || (own === before && code % 2 === 0)) best = code;
    });
    return ratio < 0 ? best | 128 : best;
  });
  return inBytes(dtype, shape, codes);
}

/** Every number of an 8-bit float tensor times 3, as float32. */
export function float8Numbers({ dtype, shape, bytes }: Tensor): Tensor {
  return singles(
    shape,
    Float32Array.from(bytes, (code) => 3 * float8(code, dtype === "F8_E4M3" ? 3 : 2)),
  );
}
