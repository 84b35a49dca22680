/**
 * Size and speed of the codec on a pair of models, and what gzip and the difference in byte planes with zstd make of
 * it. Speeds are processor time, as shares of SHA-256 over the same bytes in the same run.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { createDeltaCodec, type DeltaCodec } from "../../shared/delta/codec.js";
import {
  encodingCodes,
  type EncodedTensor,
  type EncodeOptions,
  type References,
} from "../../shared/delta/encoded.js";
import { plainKernels } from "../../shared/delta/kernels/plain.js";
import { loadDeltaKernels } from "../../shared/delta/load.js";
import { dtypeBits } from "../../shared/tensor/dtype.js";
import type { Tensor } from "../../shared/tensor/tensor.js";
import type { Comparison } from "./codec-comparisons.js";

const hasZstd = spawnSync("zstd", ["--version"]).status === 0;
function zstd(bytes: Uint8Array): number {
  return spawnSync("zstd", ["-q", "-c", "-3"], { input: bytes, maxBuffer: 2 ** 31 - 1 }).stdout.length;
}

/**
 * The difference between two models in four byte planes, as other tools arrange it before a general-purpose
 * compressor. A tensor without a base of its length stays unchanged.
 */
function planesOf(
  pairs: readonly (readonly [Tensor, Tensor | undefined])[],
  combine: (child: number, base: number) => number,
): Uint8Array {
  const planes: Uint8Array[][] = [[], [], [], []];
  for (const [{ bytes }, base] of pairs) {
    const wordBytes = bytes.length & ~3;
    const own = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const from =
      base === undefined
        ? undefined
        : new DataView(base.bytes.buffer, base.bytes.byteOffset, base.bytes.length);
    const parts = planes.map(() => new Uint8Array(wordBytes / 4));
    for (let at = 0; at < wordBytes; at += 4) {
      const word = combine(own.getUint32(at, true), from?.getUint32(at, true) ?? 0);
      parts.forEach((part, plane) => {
        part[at / 4] = word >>> (8 * plane);
      });
    }
    parts.forEach((part, plane) => planes[plane]!.push(part));
    planes[3]!.push(bytes.subarray(wordBytes));
  }
  return new Uint8Array(Buffer.concat(planes.flat()));
}

function processorMs(run: () => void): number {
  const before = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

export interface Speed {
  readonly inMegabytesPerSecond: number;
  readonly outMegabytesPerSecond: number;
  readonly inShareOfSha256: number;
  readonly outShareOfSha256: number;
}

type Pairs = readonly (readonly [Tensor, References])[];

interface Measured {
  readonly pairs: Pairs;
  readonly encoded: readonly EncodedTensor[];
  readonly bytes: number;
  readonly options?: EncodeOptions;
  readonly rounds: number;
}

function measure(codec: DeltaCodec, { pairs, encoded, bytes, options, rounds }: Measured): Speed {
  const sha = (): void => {
    for (const [tensor] of pairs) createHash("sha256").update(tensor.bytes).digest();
  };
  const encode = (): void => {
    for (const [tensor, references] of pairs) codec.encodeTensor(tensor, tensor.bytes, references, options);
  };
  const decode = (): void =>
    pairs.forEach(([tensor, references], i) =>
      codec.decodeTensor(tensor, encoded[i]!, references, tensor.bytes.length),
    );
  // Small models run several times in a round, so that the clock's resolution does not matter. The first round
  // warms up.
  const repeats = options?.lowRank === true ? 1 : Math.max(1, Math.round(4_000_000 / bytes));
  const best = [Infinity, Infinity, Infinity];
  for (let round = 0; round <= rounds; round++) {
    [sha, encode, decode].forEach((run, i) => {
      const ms =
        processorMs(() => {
          for (let repeat = 0; repeat < repeats; repeat++) run();
        }) / repeats;
      if (round > 0) best[i] = Math.min(best[i]!, ms);
    });
  }
  const [shaMs, inMs, outMs] = best as [number, number, number];
  const rate = (ms: number): number => bytes / ms / 1000;
  return {
    inMegabytesPerSecond: rate(inMs),
    outMegabytesPerSecond: rate(outMs),
    inShareOfSha256: shaMs / inMs,
    outShareOfSha256: shaMs / outMs,
  };
}

const encodingNames = Object.fromEntries(Object.entries(encodingCodes).map(([name, code]) => [code, name]));
export const kernels = await loadDeltaKernels();
export const codec = createDeltaCodec(kernels);
const plainCodec = createDeltaCodec(plainKernels());

/** Encodes every tensor; all of them must be decoded to their own bytes. */
function encodeAll(pairs: Pairs, name: string, options?: EncodeOptions): readonly EncodedTensor[] {
  const encoded = pairs.map(([tensor, references]) =>
    codec.encodeTensor(tensor, tensor.bytes, references, options),
  );
  pairs.forEach(([tensor, references], i) => {
    const decoded = codec.decodeTensor(tensor, encoded[i]!, references, tensor.bytes.length);
    if (!Buffer.from(tensor.bytes).equals(decoded))
      throw new Error(`tensor ${i} of ${name} was not decoded to its own bytes`);
  });
  return encoded;
}

/** Sizes and speeds with low-rank predictions, the factors counted. */
function compareLowRank(
  pairs: Pairs,
  { name, numbers, rounds }: { readonly name: string; readonly numbers: number; readonly rounds: number },
): Record<string, unknown> {
  const encoded = encodeAll(pairs, name, { lowRank: true });
  const bytes = pairs.reduce((sum, [tensor]) => sum + tensor.bytes.length, 0);
  // One byte per tensor for its encoding's code.
  const totalBytes = encoded.reduce((sum, one) => sum + one.bytes.length + 1, 0);
  return {
    totalBytes,
    bitsPerParameter: (8 * totalBytes) / numbers,
    tensors: encoded.filter(({ code }) => code === encodingCodes.lowRank).length,
    ...measure(codec, { pairs, encoded, bytes, options: { lowRank: true }, rounds }),
  };
}

export interface ComparisonResult extends Record<string, unknown> {
  readonly scenario: string;
  readonly base: string | undefined;
  readonly child: string;
  readonly previous: string | undefined;
  readonly tensors: readonly Record<string, unknown>[];
}

/** @param rounds of the speeds, of which the best counts */
export function compare({ scenario, base, child, previous }: Comparison, rounds: number): ComparisonResult {
  const pairs = [...child[1]].map(
    ([name, tensor]) => [tensor, { base: base?.[1].get(name), previous: previous?.[1].get(name) }] as const,
  );
  const encoded = encodeAll(pairs, child[0]);
  const tensors = [...child[1]].map(([name, tensor], i) => {
    const { code, bytes, against } = encoded[i]!;
    const numbers = (8 * tensor.bytes.length) / dtypeBits(tensor.dtype);
    // One byte per tensor for its encoding's code, as in a pack or a manifest.
    return {
      name,
      dtype: tensor.dtype,
      shape: tensor.shape,
      rawBytes: tensor.bytes.length,
      bytes: bytes.length + 1,
      bitsPerParameter: (8 * (bytes.length + 1)) / Math.max(1, numbers),
      encoding: encodingNames[code],
      against: against.previous ? "base and previous" : against.base ? "base" : "nothing",
      numbers,
    };
  });
  const sum = (valueOf: (row: (typeof tensors)[number]) => number): number =>
    tensors.reduce((total, row) => total + valueOf(row), 0);
  const rawBytes = sum((row) => row.rawBytes);
  const totalBytes = sum((row) => row.bytes);
  const numbers = sum((row) => row.numbers);
  const withLikeBase = pairs.map(
    ([tensor, references]) =>
      [tensor, references.base?.bytes.length === tensor.bytes.length ? references.base : undefined] as const,
  );
  const planes = (combine: (own: number, from: number) => number): number | undefined =>
    hasZstd ? zstd(planesOf(withLikeBase, combine)) : undefined;
  return {
    scenario,
    base: base?.[0],
    child: child[0],
    previous: previous?.[0],
    parameters: numbers,
    rawBytes,
    totalBytes,
    bitsPerParameter: (8 * totalBytes) / numbers,
    shareOfRaw: totalBytes / rawBytes,
    tensorsCodedAgainstBase: tensors.filter(({ against }) => against !== "nothing").length,
    gzipBytes: gzipSync(Buffer.concat(pairs.map(([tensor]) => tensor.bytes)), { level: 6 }).length,
    subtractPlanesZstdBytes: planes((own, from) => (own - from) >>> 0),
    xorPlanesZstdBytes: planes((own, from) => (own ^ from) >>> 0),
    [kernels.name]: measure(codec, { pairs, encoded, bytes: rawBytes, rounds }),
    plain: measure(plainCodec, { pairs, encoded, bytes: rawBytes, rounds }),
    lowRank: base === undefined ? undefined : compareLowRank(pairs, { name: child[0], numbers, rounds }),
    tensors,
  };
}
