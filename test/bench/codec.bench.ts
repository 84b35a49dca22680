/**
 * Size and speed of the delta codec. `stemma bench codec [BASE CHILD [PREVIOUS]]` measures any safetensors
 * files, by tensor and in total. Without files it measures ModelHub's three scenarios (§V-B), retrained,
 * fine-tuned and adjacent checkpoints, on the fine-tunes below STEMMA_DATA, or on generated models when they
 * are not there. For comparison it prints raw, gzip, and the difference (subtracted, xored) in byte planes
 * compressed with zstd when a zstd is on the path. Speeds are processor time, best of STEMMA_BENCH_ROUNDS (7),
 * as shares of SHA-256 over the same bytes in the same run. Pairs are measured without and with low-rank
 * predictions; merged LoRAs and bfloat16 pairs are made from the fine-tunes. Asserts nothing; `-o json` prints
 * JSON, `--svg FILE` draws the fine-tunes, `--types` compares every type with general compressors instead.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
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
import { fileOfBytes, readSafetensors } from "../../shared/tensor/safetensors.js";
import { tensorOfSource, type Tensor } from "../../shared/tensor/tensor.js";
import { fineTuned, continueTuning, lowRankPair, weights } from "../helpers/related-tensors.js";
import { barChart } from "./codec-chart.js";
import { compareTypes, printTypes } from "./codec-types.js";
import { inBfloat16, withMergedLora, type Model } from "./low-rank-pairs.js";

interface Comparison {
  readonly scenario: string;
  readonly base: readonly [string, Model] | undefined;
  readonly child: readonly [string, Model];
  readonly previous?: readonly [string, Model];
}

const args = process.argv.slice(2);
const asJson = args.includes("json");
const quick = args.includes("--quick");
const valued = ["-o", "--output", "--svg"];
const files = args.filter((arg, i) => !arg.startsWith("-") && !valued.includes(args[i - 1] ?? ""));
const svgFile = args[args.indexOf("--svg") + 1 || args.length];
/**
 * Peers on the same pairs, in bits per parameter, computed outside this project: FM-Delta's bound (the
 * entropy of its ordered-integer differences) and ZipNN on the xor with the base. By the child's name.
 */
const peers: Readonly<Record<string, readonly [fmDelta: number, zipNn: number | undefined]>> = {
  "lstm-sgd1e-3-10": [15.895, 17.97],
  "lstm-sgd1e-3-100": [18.733, 20.37],
  "lstm-sgd1e-3-200": [18.996, undefined],
  "lstm-adam1e-4-100": [23.5, 24.41],
  "mnv2-sgd1e-3-100": [18.441, 20.28],
  "mnv2-adam1e-4-100": [21.668, 23.13],
};
const rounds = Number(process.env["STEMMA_BENCH_ROUNDS"] ?? (quick ? 2 : 7));

async function readModel(path: string): Promise<readonly [string, Model]> {
  const read = await readSafetensors(fileOfBytes(new Uint8Array(await readFile(path))), path);
  const tensors = await Promise.all(
    read.tensors.map(async (entry) => [entry.name, await tensorOfSource(read.source(entry))] as const),
  );
  return [basename(path).replace(/\.safetensors$/, ""), new Map(tensors)];
}

/** A small network's shapes, used when there are no files. */
const shapes = [[64, 3, 3, 3], [128, 64, 3, 3], [256, 128, 1, 1], [512, 256], [512], [10, 512], [10]];
function generated(makeTensor: (shape: readonly number[], index: number) => Tensor): Model {
  return new Map(shapes.map((shape, i) => [`layer${i}`, makeTensor(shape, i)]));
}

/**
 * A child that trained only its last layer, as ModelHub's VGG-Salient did: only its last two tensors differ.
 */
function lastLayerOf(
  [name, child]: readonly [string, Model],
  [, base]: readonly [string, Model],
): readonly [string, Model] {
  const changed = new Set([...child.keys()].slice(-2));
  return [
    `${name}, last layer`,
    new Map([...child].map(([key, tensor]) => [key, changed.has(key) ? tensor : (base.get(key) ?? tensor)])),
  ];
}

async function scenarios(): Promise<readonly Comparison[]> {
  if (files.length > 0) {
    const [base, child, previous] = await Promise.all(files.map(readModel));
    return [
      { scenario: "given", base: base!, child: child!, ...(previous === undefined ? {} : { previous }) },
    ];
  }
  const first = generated((shape, i) => weights(shape, 100 + i));
  const second = generated((shape, i) => weights(shape, 200 + i));
  const retrained: Comparison = {
    scenario: "retrained",
    base: ["generated-1", first],
    child: ["generated-2", second],
  };
  const folder = join(resolve(process.env["STEMMA_DATA"] ?? "../shared/data"), "fine-tunes");
  const named = (name: string): Promise<readonly [string, Model]> =>
    readModel(join(folder, `${name}.safetensors`));
  if (!existsSync(join(folder, "lstm-base.safetensors"))) {
    console.error(`codec: no fine-tunes below ${folder}, so models are generated; set STEMMA_DATA`);
    const tuned = generated((shape, i) => fineTuned(first.get(`layer${i}`)!, 1e-4, 300 + i));
    const next = generated((shape, i) =>
      continueTuning(tuned.get(`layer${i}`)!, first.get(`layer${i}`)!, {
        share: 0.8,
        stepSize: 1e-5,
        seed: 400 + i,
      }),
    );
    return [
      retrained,
      rank16(),
      { scenario: "fine-tuned", base: ["generated-1", first], child: ["generated-1a", tuned] },
      {
        scenario: "adjacent checkpoints",
        base: ["generated-1a", tuned],
        child: ["generated-1b", next],
        previous: ["generated-1", first],
      },
    ];
  }
  const [lstm, mobileNet, checkpoint] = await Promise.all([
    named("lstm-base"),
    named("mnv2-base"),
    named("lstm-sgd1e-3-100"),
  ]);
  const fineTunes = await Promise.all(
    [
      "lstm-sgd1e-3-10",
      "lstm-sgd1e-3-100",
      "lstm-sgd1e-3-200",
      "lstm-adam1e-4-100",
      "mnv2-sgd1e-3-100",
      "mnv2-adam1e-4-100",
    ].map(named),
  );
  return [
    ...[lstm, mobileNet].map((child): Comparison => ({ scenario: "full weights", base: undefined, child })),
    retrained,
    rank16(),
    ...fineTunes.map((child): Comparison => ({
      scenario: "fine-tuned",
      base: child[0].startsWith("lstm") ? lstm : mobileNet,
      child,
    })),
    ...[lstm, mobileNet].map((base): Comparison => ({
      scenario: "merged LoRA",
      base,
      child: [`${base[0]}, LoRA of rank 8`, withMergedLora(base[1])],
    })),
    ...[lstm, mobileNet].map((base): Comparison => ({
      scenario: "merged LoRA",
      base: bfloat16(base),
      child: [`${base[0]} in bfloat16, LoRA of rank 8`, withMergedLora(inBfloat16(base[1]))],
    })),
    ...fineTunes.slice(1).map((child): Comparison => ({
      scenario: "fine-tuned in bfloat16",
      base: bfloat16(child[0].startsWith("lstm") ? lstm : mobileNet),
      child: bfloat16(child),
    })),
    { scenario: "last layer fine-tuned", base: mobileNet, child: lastLayerOf(fineTunes[4]!, mobileNet) },
    { scenario: "adjacent checkpoints", base: checkpoint, child: fineTunes[2]! },
    { scenario: "adjacent checkpoints", base: checkpoint, child: fineTunes[2]!, previous: lstm },
  ];
}

function bfloat16([name, model]: readonly [string, Model]): readonly [string, Model] {
  return [`${name} in bfloat16`, inBfloat16(model)];
}

/** A large matrix and what few steps make of it: the pair for which speeds have aims. */
function rank16(): Comparison {
  const options = { split: 1, rank: 16, size: 3e-4, noise: 2e-4, seed: 16 };
  const { base, child } = lowRankPair("F32", [1024, 1024], options);
  return {
    scenario: "rank 16",
    base: ["generated-3", new Map([["layer0", base]])],
    child: ["generated-3a", new Map([["layer0", child]])],
  };
}

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

interface Speed {
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
}

function measure(codec: DeltaCodec, { pairs, encoded, bytes, options }: Measured): Speed {
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
const kernels = await loadDeltaKernels();
const codec = createDeltaCodec(kernels);
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
function compareLowRank(pairs: Pairs, name: string, numbers: number): Record<string, unknown> {
  const encoded = encodeAll(pairs, name, { lowRank: true });
  const bytes = pairs.reduce((sum, [tensor]) => sum + tensor.bytes.length, 0);
  // One byte per tensor for its encoding's code.
  const totalBytes = encoded.reduce((sum, one) => sum + one.bytes.length + 1, 0);
  return {
    totalBytes,
    bitsPerParameter: (8 * totalBytes) / numbers,
    tensors: encoded.filter(({ code }) => code === encodingCodes.lowRank).length,
    ...measure(codec, { pairs, encoded, bytes, options: { lowRank: true } }),
  };
}

interface ComparisonResult extends Record<string, unknown> {
  readonly scenario: string;
  readonly base: string | undefined;
  readonly child: string;
  readonly previous: string | undefined;
  readonly tensors: readonly Record<string, unknown>[];
}

function compare({ scenario, base, child, previous }: Comparison): ComparisonResult {
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
    [kernels.name]: measure(codec, { pairs, encoded, bytes: rawBytes }),
    plain: measure(plainCodec, { pairs, encoded, bytes: rawBytes }),
    lowRank: base === undefined ? undefined : compareLowRank(pairs, child[0], numbers),
    tensors,
  };
}

function print(result: ComparisonResult): void {
  const bytes = (key: string): string =>
    typeof result[key] === "number"
      ? `${((100 * result[key]) / (result["rawBytes"] as number)).toFixed(2)} %`
      : "not measured (no zstd)";
  const against = result.base === undefined ? "" : ` against ${result.base}`;
  const andPrevious = result.previous === undefined ? "" : ` and ${result.previous}`;
  console.log(`== ${result.scenario}: ${result.child}${against}${andPrevious}`);
  if (files.length > 0)
    for (const row of result.tensors)
      console.log(
        `${String(row["name"]).padEnd(40)} ${String(row["dtype"])} [${String(row["shape"])}]  ${String(row["rawBytes"])} → ${String(row["bytes"])}  ${(row["bitsPerParameter"] as number).toFixed(3)} bits per parameter, ${String(row["encoding"])} against ${String(row["against"])}`,
      );
  console.log(
    `${String(result["rawBytes"])} → ${String(result["totalBytes"])} bytes, ${(result["bitsPerParameter"] as number).toFixed(3)} bits per parameter, ${String(result["tensorsCodedAgainstBase"])} of ${result.tensors.length} tensors against the base`,
  );
  console.log(
    `of raw: Stemma ${bytes("totalBytes")}, gzip ${bytes("gzipBytes")}, subtraction + planes + zstd ${bytes("subtractPlanesZstdBytes")}, xor + planes + zstd ${bytes("xorPlanesZstdBytes")}`,
  );
  for (const name of new Set([kernels.name, "plain"])) {
    const speed = result[name] as Speed;
    console.log(
      `${name.padEnd(5)} in ${speed.inMegabytesPerSecond.toFixed(0)} MB/s (${speed.inShareOfSha256.toFixed(2)} of SHA-256), out ${speed.outMegabytesPerSecond.toFixed(0)} MB/s (${speed.outShareOfSha256.toFixed(2)})`,
    );
  }
  const lowRank = result["lowRank"] as
    (Speed & { readonly bitsPerParameter: number; readonly tensors: number }) | undefined;
  if (lowRank !== undefined)
    console.log(
      `with low-rank predictions ${lowRank.bitsPerParameter.toFixed(3)} bits per parameter (${lowRank.tensors} tensors), in ${lowRank.inMegabytesPerSecond.toFixed(0)} MB/s (${lowRank.inShareOfSha256.toFixed(3)} of SHA-256), out ${lowRank.outMegabytesPerSecond.toFixed(0)} MB/s (${lowRank.outShareOfSha256.toFixed(2)})`,
    );
}

/** The fine-tunes, with the sizes that other methods reach. */
function chartOf(results: readonly ComparisonResult[]): string {
  const bitsOf = (result: ComparisonResult, key: string): number | undefined =>
    typeof result[key] === "number" ? (8 * result[key]) / (result["parameters"] as number) : undefined;
  const groups = results
    .filter(({ scenario }) => scenario === "fine-tuned")
    .map((result) => {
      const [fmDelta, zipNn] = peers[result.child] ?? [undefined, undefined];
      return {
        name: result.child,
        values: [
          bitsOf(result, "gzipBytes"),
          bitsOf(result, "xorPlanesZstdBytes"),
          zipNn,
          fmDelta,
          bitsOf(result, "totalBytes"),
          (result["lowRank"] as { readonly bitsPerParameter: number } | undefined)?.bitsPerParameter,
        ],
      };
    });
  return barChart(
    "Fine-tunes given their base, bits per parameter (32 raw)",
    [
      "gzip of the child",
      "xor, byte planes, zstd",
      "ZipNN on the xor",
      "FM-Delta's bound",
      "Stemma",
      "Stemma, low rank",
    ],
    groups,
  );
}

if (args.includes("--types")) {
  const results = compareTypes(codec);
  if (asJson) console.log(JSON.stringify({ bench: "codec", types: results }, undefined, 2));
  else printTypes(results);
} else if (files.length === 1 || files.length > 3) {
  console.error("usage: stemma bench codec [BASE.safetensors CHILD.safetensors [PREVIOUS.safetensors]]");
  process.exitCode = 2;
} else {
  const results: ComparisonResult[] = [];
  for (const comparison of await scenarios()) {
    const result = compare(comparison);
    results.push(result);
    if (!asJson) print(result);
  }
  if (svgFile !== undefined) await writeFile(svgFile, chartOf(results));
  const [only] = results;
  if (asJson)
    console.log(
      JSON.stringify(
        {
          bench: "codec",
          rounds,
          ...(files.length > 0
            ? { totalBytes: only!["totalBytes"], bitsPerParameter: only!["bitsPerParameter"] }
            : {}),
          results,
        },
        undefined,
        2,
      ),
    );
  else {
    console.log("with low-rank predictions: in ≥ 60 and out ≥ 150 MB/s at rank 16 on one free core");
    console.log(
      "aims: in ≥ 0.17 and out ≥ 0.27 of SHA-256 (0.14 and 0.24 with a previous update), plain 0.07 and 0.10; retrained models encoded alone",
    );
  }
}
