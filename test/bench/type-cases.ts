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

/** About one number of fifty is another one, as by a tokenizer with new words. */
function editedAtRandom(tensor: Tensor): Tensor {
  const draw = uniform(5);
  const bytes = tensor.bytes.slice();
  for (let at = 0; at < bytes.length; at += 8)
    if (draw() < 0.02) {
      const id = Math.floor(30_000 * draw() ** 3);
      bytes[at] = id;
      bytes[at + 1] = id >> 8;
    }
  return { ...tensor, bytes };
}

/** A case that is drawn only where it is asked for: large ones take memory and time. */
interface PlannedCase {
  readonly name: string;
  readonly width: number;
  readonly tensor: () => Tensor;
  readonly base?: () => Tensor;
}

/** The same numbers before and after a training, drawn once. */
function movedWeights(
  shape: readonly number[],
): () => { readonly floats: Float32Array; readonly moved: Float32Array } {
  let drawn: { readonly floats: Float32Array; readonly moved: Float32Array } | undefined;
  return () => {
    if (drawn !== undefined) return drawn;
    const draw = uniform(1);
    const floats = new Float32Array(weights(shape, 1).bytes.buffer);
    drawn = { floats, moved: floats.map((value) => value + 1e-4 * normal(draw)) };
    return drawn;
  };
}

/**
 * @param rows of 512 numbers each
 * @param isWanted by name; all where it is not given
 */
export function typeCases(rows = 256, isWanted: (name: string) => boolean = () => true): readonly TypeCase[] {
  return plannedCases(rows)
    .filter(({ name }) => isWanted(name))
    .map(({ name, width, tensor, base }) => ({
      name,
      width,
      tensor: tensor(),
      ...(base === undefined ? {} : { base: base() }),
    }));
}

function plannedCases(rows: number): readonly PlannedCase[] {
  const shape = [rows, 512];
  const count = 512 * rows;
  const values = movedWeights(shape);
  const base = (): Tensor => weights(shape, 1);
  /** Both models in a type, alone and as a pair. */
  const both = (
    name: string,
    width: number,
    of: (values: Float32Array) => Tensor,
    drawn = values,
  ): readonly PlannedCase[] => [
    { name: `${name} alone`, width, tensor: () => of(drawn().moved) },
    {
      name: `${name} fine-tuned`,
      width,
      tensor: () => of(drawn().moved),
      base: () => of(drawn().floats),
    },
  ];
  const eight = (dtype: DType, of: (value: number) => number): readonly PlannedCase[] =>
    both(dtype, 1, (from) => bytesTensor(dtype, shape, (i) => of(from[i]!)));
  const level = (value: number, most: number): number =>
    Math.max(-most, Math.min(most - 1, Math.round((value / 0.15) * most)));
  const nibbles = (from: Float32Array): Tensor =>
    bytesTensor("U8", [count], (i) => (level(from[2 * i]!, 8) + 8) | ((level(from[2 * i + 1]!, 8) + 8) << 4));
  return [
    { name: "F32 alone", width: 4, tensor: base },
    {
      name: "F32 fine-tuned",
      width: 4,
      tensor: () => ({ dtype: "F32", shape, bytes: new Uint8Array(values().moved.slice().buffer) }),
      base,
    },
    { name: "F32 pruned 2:4 alone", width: 4, tensor: () => pruned(base()) },
    { name: "F32 pruned 2:4 given dense", width: 4, tensor: () => pruned(base()), base },
    ...(["F16", "BF16"] as const).flatMap((dtype) =>
      both(dtype, 2, (from) => roundedTo(dtype, shape, from.slice())),
    ),
    ...eight("F8_E4M3", (value) => fp8(value, 4)),
    ...eight("F8_E5M2", (value) => fp8(value, 5)),
    ...eight("I8", (value) => level(value, 128)),
    ...eight("BOOL", (value) => (value > 0.1 ? 1 : 0)),
    // Two numbers in each byte.
    ...both("U8 int4 pairs", 1, nibbles, movedWeights([2 * rows, 512])),
    ...integerCases(shape),
  ];
}

function integerCases(shape: readonly number[]): readonly PlannedCase[] {
  const integers = (dtype: "I32" | "I64", next: (i: number) => number) => (): Tensor =>
    integersOf(shape, dtype, next);
  return [
    { name: "I32 counters alone", width: 4, tensor: integers("I32", (i) => i >> 3) },
    { name: "I32 tokens alone", width: 4, tensor: () => integers("I32", tokens(2))() },
    { name: "I64 tokens alone", width: 8, tensor: () => integers("I64", tokens(3))() },
    ...(["I32", "I64"] as const).map((dtype) => ({
      name: `${dtype} tokens edited`,
      width: dtype === "I32" ? 4 : 8,
      tensor: () => edited(integers(dtype, tokens(4))(), dtype === "I32" ? 4 : 8),
      base: () => integers(dtype, tokens(4))(),
    })),
    {
      name: "I64 tokens edited at random",
      width: 8,
      tensor: () => editedAtRandom(integers("I64", tokens(4))()),
      base: () => integers("I64", tokens(4))(),
    },
    {
      name: "I64 counters fine-tuned",
      width: 8,
      tensor: integers("I64", (i) => 1000 * i + 7),
      base: integers("I64", (i) => 1000 * i),
    },
  ];
}

/** Cases that are also compared at 16 MiB: what the codec treats otherwise when it is long. */
const largeBytes = 2 ** 24;
const largeNames = [
  "F8_E4M3 alone",
  "F8_E5M2 alone",
  "F8_E4M3 fine-tuned",
  "I8 alone",
  "I8 fine-tuned",
  "U8 int4 pairs alone",
  "U8 int4 pairs fine-tuned",
  "I64 tokens alone",
  "I64 tokens edited",
  "I64 tokens edited at random",
] as const;

/** The large cases, one after the other. */
export function* largeTypeCases(): Iterable<TypeCase> {
  for (const name of largeNames) {
    const width = plannedCases(1).find((each) => each.name === name)!.width;
    const [found] = typeCases(largeBytes / 512 / width, (each) => each === name);
    yield { ...found!, name: `${name}, 16 MiB` };
  }
}
