/** Generated tensors of every type that Stemma must not code worse than a general compressor. */
import type { DType } from "../../shared/tensor/dtype.js";
import type { Tensor } from "../../shared/tensor/tensor.js";
import { normal, roundedTo, uniform, weights } from "../helpers/related-tensors.js";

export interface TypeCase {
  readonly name: string;
  readonly tensor: Tensor;
  readonly base?: Tensor;
  /** Bytes per element. */
  readonly width: number;
}

function bytesTensor(dtype: DType, sizes: readonly number[], next: (i: number) => number): Tensor {
  const count = sizes.reduce((product, size) => product * size, 1);
  return { dtype, shape: sizes, bytes: Uint8Array.from({ length: count }, (_, i) => next(i) & 255) };
}

/** Nearest fp8 byte: sign, `exponentBits` of exponent, the rest mantissa. */
function fp8(value: number, exponentBits: number): number {
  const mantissaBits = 7 - exponentBits;
  const bias = 2 ** (exponentBits - 1) - 1;
  const size = Math.abs(value);
  const exponent = Math.max(1 - bias, Math.floor(Math.log2(Math.max(size, 1e-30))));
  const steps = Math.round((size / 2 ** exponent) * 2 ** mantissaBits);
  return (
    (value < 0 ? 128 : 0) |
    (exponent + bias <= 1 && steps < 2 ** mantissaBits
      ? steps
      : ((exponent + bias) << mantissaBits) + steps - 2 ** mantissaBits)
  );
}

function integersOf(shape: readonly number[], dtype: "I32" | "I64", next: (i: number) => number): Tensor {
  const count = shape.reduce((product, size) => product * size, 1);
  const values = BigInt64Array.from({ length: count }, (_, i) => BigInt(Math.floor(next(i))));
  const bytes = new Uint8Array(dtype === "I64" ? values.buffer : Int32Array.from(values, Number).buffer);
  return { dtype, shape, bytes };
}

/** Every second number of a row's pair of fours is zero: the smaller two of each four. */
function pruned({ shape: sizes, bytes }: Tensor): Tensor {
  const values = new Float32Array(bytes.slice().buffer);
  for (let i = 0; i < values.length; i += 4) {
    const four = [0, 1, 2, 3].sort((a, b) => Math.abs(values[i + a]!) - Math.abs(values[i + b]!));
    for (const k of four.slice(0, 2)) values[i + k] = 0;
  }
  return { dtype: "F32", shape: sizes, bytes: new Uint8Array(values.buffer) };
}

/** Words of a text: a few are frequent, and phrases come back. */
function tokens(seed: number): (i: number) => number {
  const draw = uniform(seed);
  const ids: number[] = [];
  return () => {
    const at = ids.length;
    ids.push(at > 64 && draw() < 0.8 ? ids[at - 1 - Math.floor(64 * draw() ** 2)]! : 30_000 * draw() ** 3);
    return ids[at]!;
  };
}

/** Every fiftieth number is another one. */
function edited(tensor: Tensor, width: number): Tensor {
  const bytes = tensor.bytes.slice();
  for (let at = 0; at < bytes.length; at += 50 * width) bytes[at] = bytes[at]! ^ 37;
  return { ...tensor, bytes };
}

/** @param rows of 512 numbers each */
export function typeCases(rows = 256): readonly TypeCase[] {
  const shape = [rows, 512];
  const count = 512 * rows;
  const integers = (dtype: "I32" | "I64", next: (i: number) => number): Tensor =>
    integersOf(shape, dtype, next);
  const draw = uniform(1);
  const base = weights(shape, 1);
  const floats = new Float32Array(base.bytes.slice().buffer);
  const moved = floats.map((value) => value + 1e-4 * normal(draw));
  const eight = (dtype: DType, of: (value: number) => number): readonly TypeCase[] => {
    const own = bytesTensor(dtype, shape, (i) => of(moved[i]!));
    const from = bytesTensor(dtype, shape, (i) => of(floats[i]!));
    return [
      { name: `${dtype} alone`, tensor: own, width: 1 },
      { name: `${dtype} fine-tuned`, tensor: own, base: from, width: 1 },
    ];
  };
  const level = (value: number, most: number): number =>
    Math.max(-most, Math.min(most - 1, Math.round((value / 0.15) * most)));
  const nibbles = (from: Float32Array): Tensor =>
    bytesTensor(
      "U8",
      [count],
      (i) => (level(from[(2 * i) % count]!, 8) + 8) | ((level(from[(2 * i + 1) % count]!, 8) + 8) << 4),
    );
  const half = (dtype: "F16" | "BF16", from: Float32Array): Tensor => roundedTo(dtype, shape, from.slice());
  return [
    { name: "F32 alone", tensor: base, width: 4 },
    {
      name: "F32 fine-tuned",
      tensor: { ...base, bytes: new Uint8Array(moved.slice().buffer) },
      base,
      width: 4,
    },
    { name: "F32 pruned 2:4 alone", tensor: pruned(base), width: 4 },
    { name: "F32 pruned 2:4 given dense", tensor: pruned(base), base, width: 4 },
    ...(["F16", "BF16"] as const).flatMap((dtype) => [
      { name: `${dtype} alone`, tensor: half(dtype, moved), width: 2 },
      { name: `${dtype} fine-tuned`, tensor: half(dtype, moved), base: half(dtype, floats), width: 2 },
    ]),
    ...eight("F8_E4M3", (value) => fp8(value, 4)),
    ...eight("F8_E5M2", (value) => fp8(value, 5)),
    ...eight("I8", (value) => level(value, 128)),
    ...eight("BOOL", (value) => (value > 0.1 ? 1 : 0)),
    { name: "U8 int4 pairs alone", tensor: nibbles(moved), width: 1 },
    { name: "U8 int4 pairs fine-tuned", tensor: nibbles(moved), base: nibbles(floats), width: 1 },
    { name: "I32 counters alone", tensor: integers("I32", (i) => i >> 3), width: 4 },
    { name: "I32 tokens alone", tensor: integers("I32", tokens(2)), width: 4 },
    { name: "I64 tokens alone", tensor: integers("I64", tokens(3)), width: 8 },
    ...(["I32", "I64"] as const).map((dtype) => ({
      name: `${dtype} tokens edited`,
      tensor: edited(integers(dtype, tokens(4)), dtype === "I32" ? 4 : 8),
      base: integers(dtype, tokens(4)),
      width: dtype === "I32" ? 4 : 8,
    })),
    {
      name: "I64 counters fine-tuned",
      tensor: integers("I64", (i) => 1000 * i + 7),
      base: integers("I64", (i) => 1000 * i),
      width: 8,
    },
  ];
}
