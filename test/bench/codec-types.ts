/** `stemma bench codec --types`: every type, alone and as a pair, against the best general compressor. */
import { spawnSync } from "node:child_process";
import { brotliCompressSync, constants } from "node:zlib";
import type { DeltaCodec } from "../../shared/delta/codec.js";
import { largeTypeCases, typeCases, type TypeCase } from "./type-cases.js";

export interface TypeResult {
  readonly name: string;
  /** Bits per number. */
  readonly stemma: number;
  readonly best: number;
}

/** Lengths by the compressors that this machine has; brotli is in Node. */
function shortestOf(input: Uint8Array): number {
  const of = (program: string, args: readonly string[]): number => {
    const run = spawnSync(program, [...args], { input, maxBuffer: 2 ** 30 });
    return run.status === 0 ? run.stdout.length : Infinity;
  };
  const brotli = brotliCompressSync(input, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }).length;
  return Math.min(brotli, of("zstd", ["-q", "-c", "-19"]), of("xz", ["-c", "-6"]));
}

function planesOf(bytes: Uint8Array, width: number): Uint8Array {
  const count = bytes.length / width;
  const out = new Uint8Array(bytes.length);
  for (let i = 0; i < bytes.length; i++) out[(i % width) * count + Math.floor(i / width)] = bytes[i]!;
  return out;
}

/** What a general compressor may be given: the tensor, its xor with the base, its difference as an integer. */
function formsOf({ tensor, base, width }: TypeCase): readonly Uint8Array[] {
  if (base === undefined) return [tensor.bytes];
  const difference = new Uint8Array(tensor.bytes.length);
  let borrow = 0;
  tensor.bytes.forEach((byte, i) => {
    const step = byte - base.bytes[i]! - (i % width === 0 ? 0 : borrow);
    difference[i] = step;
    borrow = step < 0 ? 1 : 0;
  });
  return [tensor.bytes, tensor.bytes.map((byte, i) => byte ^ base.bytes[i]!), difference];
}

/** The shortest that any general compressor makes of a case, in bytes. */
export function shortestPeer(one: TypeCase): number {
  const { width } = one;
  const inputs = formsOf(one).flatMap((form) => (width > 1 ? [form, planesOf(form, width)] : [form]));
  return Math.min(...inputs.map(shortestOf));
}

/** @param withLarge also cases of 16 MiB, which take some minutes */
export function* compareTypes(codec: DeltaCodec, withLarge: boolean): Iterable<TypeResult> {
  for (const one of typeCases()) yield compareType(codec, one);
  if (withLarge) for (const one of largeTypeCases()) yield compareType(codec, one);
}

function compareType(codec: DeltaCodec, one: TypeCase): TypeResult {
  const { name, tensor, base, width } = one;
  const { bytes } = codec.encodeTensor(tensor, tensor.bytes, { base });
  const bitsEach = (length: number): number => (8 * length * width) / tensor.bytes.length;
  return { name, stemma: bitsEach(bytes.length), best: bitsEach(shortestPeer(one)) };
}

export function printTypes(results: Iterable<TypeResult>): void {
  console.log("bits per number: Stemma, best of zstd -19, xz -6, brotli 9 with and without byte planes");
  for (const { name, stemma, best } of results)
    console.log(
      `${name.padEnd(36)} ${stemma.toFixed(3).padStart(8)} ${best.toFixed(3).padStart(8)}  ${(stemma / best).toFixed(3)}`,
    );
}
