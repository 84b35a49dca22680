/**
 * Measures on generated data what reading, hashing and decoding cost on this machine, and computes the
 * recreation costs of edges from these rates. Costs are in microseconds. They serve to compare edges, and do
 * not predict exact times.
 */
import * as z from "zod";
import type { DeltaCodec } from "../../../shared/delta/codec.js";
import { encodingCodes, type EncodeOptions } from "../../../shared/delta/encoded.js";
import { tensorHasher } from "../../../shared/tensor/hash.js";
import type { Tensor } from "../../../shared/tensor/tensor.js";
import type { Clock } from "../../../shared/ports.js";

/** Microseconds per byte read or hashed, per number decoded, and per object handled. */
export interface ArchiveRates {
  readonly readUsPerByte: number;
  readonly hashUsPerByte: number;
  /**
   * Decoding: encoded without a base, against a base, and predicted on the line through previous and base.
   */
  readonly aloneUsPerNumber: number;
  readonly deltaUsPerNumber: number;
  readonly extrapolatedUsPerNumber: number;
  /** The time of decoding with a low-rank prediction. */
  readonly lowRankUsPerNumber: number;
  readonly planesUsPerByte: number;
  /** The time of decoding mixed bits. */
  readonly mixedUsPerByte: number;
  readonly objectUs: number;
  /** Encoding: as a difference, and with a search for a low-rank prediction. They predict how long applying takes. */
  readonly encodeUsPerNumber: number;
  readonly lowRankEncodeUsPerNumber: number;
}

export const ratesSchema = z.object({
  readUsPerByte: z.number().positive(),
  hashUsPerByte: z.number().positive(),
  aloneUsPerNumber: z.number().positive(),
  deltaUsPerNumber: z.number().positive(),
  extrapolatedUsPerNumber: z.number().positive(),
  lowRankUsPerNumber: z.number().positive(),
  planesUsPerByte: z.number().positive(),
  mixedUsPerByte: z.number().positive(),
  objectUs: z.number().positive(),
  encodeUsPerNumber: z.number().positive(),
  lowRankEncodeUsPerNumber: z.number().positive(),
});
const ratesFormat = 1;

/** The bytes of a rates file (docs/formats.md). */
export function encodeRates(rates: ArchiveRates, machine: string): Uint8Array {
  return Buffer.from(`${JSON.stringify({ format: ratesFormat, machine, rates })}\n`);
}
/** Decodes the rates; undefined where the file is malformed or was measured on another machine. Never throws. */
export function decodeRates(bytes: Uint8Array, machine: string): ArchiveRates | undefined {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch {
    return undefined;
  }
  const parsed = z
    .object({ format: z.literal(ratesFormat), machine: z.literal(machine), rates: ratesSchema })
    .safeParse(value);
  return parsed.success ? parsed.data.rates : undefined;
}

/** Size and rounds of the timed work. The fastest round counts, because other programs slow rounds down. */
const timedNumbers = 2 ** 17;
const timedColumns = 64;
const smallNumbers = 64;
const typicalRank = 12;
const mixedBytes = 2 ** 14;
export const slowMixedUsPerByte = 1;
const rounds = 15;
/** Encoding takes longer than decoding, and its rate only predicts a duration. */
const encodeRounds = 3;
/** Rates of a slow core, for plans that were made before the rates were measured. */
export const slowEncodeUsPerNumber = 0.04;
export const slowLowRankEncodeUsPerNumber = 0.8;

/**
 * @param readUsPerByte measured without the operating system's cache, because seldom recovered models are not
 *   in it
 */
export function measureRates(codec: DeltaCodec, clock: Clock, readUsPerByte: number): ArchiveRates {
  const base = randomWeights(timedNumbers, undefined, 1);
  const child = randomWeights(timedNumbers, base, 2);
  const further = randomWeights(timedNumbers, child, 3);
  const perNumber = (
    references: { readonly base?: Tensor; readonly previous?: Tensor },
    tensor: Tensor,
    options: EncodeOptions = {},
  ): number => {
    const encoded = codec.encodeTensor(tensor, tensor.bytes, references, options);
    return (
      fastest(clock, () => {
        codec.decodeTensor(tensor, encoded, references, tensor.bytes.length);
      }) / timedNumbers
    );
  };
  const encodePerNumber = (tensor: Tensor, options: EncodeOptions): number =>
    fastest(
      clock,
      () => {
        codec.encodeTensor(tensor, tensor.bytes, { base }, options);
      },
      encodeRounds,
    ) / timedNumbers;
  const small = randomWeights(smallNumbers, undefined, 4);
  const encodedSmall = codec.encodeTensor(small, small.bytes);
  const deltaUsPerNumber = perNumber({ base }, child);
  const hashUs = fastest(clock, () => {
    tensorHasher(base).update(base.bytes).digest();
  });
  return {
    readUsPerByte,
    hashUsPerByte: hashUs / base.bytes.length,
    aloneUsPerNumber: perNumber({}, child),
    deltaUsPerNumber,
    // Extrapolation includes all the work of a delta: a busy moment must not make it look cheaper.
    extrapolatedUsPerNumber: Math.max(deltaUsPerNumber, perNumber({ base: child, previous: base }, further)),
    lowRankUsPerNumber: Math.max(
      deltaUsPerNumber,
      perNumber({ base }, withOuterProducts(child), { lowRank: true }),
    ),
    planesUsPerByte: perNumber({ base }, child, { layout: "planes" }) / 4,
    mixedUsPerByte: mixedUsPerByte(codec, clock),
    objectUs: fastest(clock, () => {
      codec.decodeTensor(small, encodedSmall, {}, small.bytes.length);
    }),
    encodeUsPerNumber: encodePerNumber(child, {}),
    lowRankEncodeUsPerNumber: encodePerNumber(withOuterProducts(child), { lowRank: true }),
  };
}

/** Measures the decoding of bytes in mixed bits, per byte; the slowest rate seen where a pattern is coded otherwise. */
function mixedUsPerByte(codec: DeltaCodec, clock: Clock): number {
  const bytes = Uint8Array.from({ length: mixedBytes }, (_, i) => (i * i * i) % 23);
  const tensor: Tensor = { dtype: "U8", shape: [mixedBytes], bytes };
  const encoded = codec.encodeTensor(tensor, bytes);
  if (encoded.code !== encodingCodes.mixed) return slowMixedUsPerByte;
  return (
    fastest(clock, () => {
      codec.decodeTensor(tensor, encoded, {}, mixedBytes);
    }) / mixedBytes
  );
}

function fastest(clock: Clock, work: () => void, count = rounds): number {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < count; round++) {
    const startMs = clock.monotonic();
    work();
    best = Math.min(best, clock.monotonic() - startMs);
  }
  // Where the clock does not advance, a cost must still not be zero.
  return Math.max(best * 1000, 0.01);
}

/** Weights between −0.1 and 0.1, or weights that differ from `from` by about one training step. */
function randomWeights(count: number, from: Tensor | undefined, seed: number): Tensor {
  const values = new Float32Array(count);
  const before = from === undefined ? undefined : new Float32Array(from.bytes.buffer);
  let state = seed;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const draw = state / 2 ** 32 - 0.5;
    values[i] = before === undefined ? draw / 5 : before[i]! + draw / 1000;
  }
  return { dtype: "F32", shape: [count / timedColumns, timedColumns], bytes: new Uint8Array(values.buffer) };
}

/** The tensor plus as many outer products as many fine-tunes have. */
function withOuterProducts({ dtype, shape, bytes }: Tensor): Tensor {
  const values = new Float32Array(bytes.slice().buffer);
  const columns = shape[1]!;
  const rows = values.length / columns;
  const terms = randomWeights(typicalRank * (rows + columns), undefined, 5);
  const factors = new Float32Array(terms.bytes.buffer);
  for (let k = 0; k < typicalRank; k++)
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < columns; j++)
        values[i * columns + j]! += factors[k * rows + i]! * factors[typicalRank * rows + k * columns + j]!;
  return { dtype, shape, bytes: new Uint8Array(values.buffer) };
}

/** The measured way to store a tensor, and the decoding that it would take. */
export interface EdgeMeasure {
  readonly storedBytes: number;
  readonly byteLength: number;
  readonly numbers: number;
  readonly decoding: "raw" | "alone" | "delta" | "extrapolated" | "lowRank" | "planes" | "mixed";
  readonly from: "nothing" | "tensor";
}

/**
 * Microseconds to recreate a tensor by an edge: reading and decoding. A recovered tensor is hashed once,
 * however long its path; every path begins with exactly one edge from nothing, so that edge bears the cost.
 */
export function recreationUs(
  rates: ArchiveRates,
  { storedBytes, byteLength, numbers, decoding, from }: EdgeMeasure,
): number {
  const decodeUs = {
    raw: 0,
    alone: rates.aloneUsPerNumber * numbers,
    delta: rates.deltaUsPerNumber * numbers,
    extrapolated: rates.extrapolatedUsPerNumber * numbers,
    lowRank: rates.lowRankUsPerNumber * numbers,
    planes: rates.planesUsPerByte * byteLength,
    mixed: rates.mixedUsPerByte * byteLength,
  }[decoding];
  return (
    rates.objectUs +
    rates.readUsPerByte * storedBytes +
    decodeUs +
    (from === "nothing" ? rates.hashUsPerByte * byteLength : 0)
  );
}
