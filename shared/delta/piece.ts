/**
 * One piece of a tensor, small enough for the kernels' memory, to symbols and streams and back: codes
 * `packed` and `close`. Method: ordered-integer differences from a prediction (FM-Delta's mapping), or
 * exponents without one (ZipNN's); bit lengths in contexts of expected magnitude.
 *
 * Bytes: flags u8 (predictor, vectors sent, differences in units) ‖ mean i16 ‖ alpha·64 i16 where
 * extrapolated ‖ side information and streams, each but the last after its length as a varint. Packed has
 * four streams (see assembly/unpack.ts for whose), close the symbols' and two of open bits, of the first half
 * and the rest.
 */
import { ByteReader, ByteWriter } from "./bytes.js";
import { encodingCodes, type Predictor } from "./encoded.js";
import type { Alphabet } from "./symbol-definitions.js";
import type { NumberKind, View } from "./numbers.js";
import { scalesOf, type Scales } from "./scales.js";
import { encodingMalformed } from "./encoding-malformed.js";
import { readSideInformation, writeSideInformation, type SideInformation } from "./side-information.js";
import { chooseTables } from "./choose-tables.js";
import type { PieceArrays, KernelMemory } from "./kernel-memory.js";

const { packed, close } = encodingCodes;
const predictors: readonly Predictor[] = ["none", "base", "extrapolated"];
/** Beyond ±4 an extrapolation is no prediction any more. */
export const maxAlpha64 = 256;

export interface Prediction {
  readonly predictor: Predictor;
  readonly alpha64: number;
  readonly inUnits: boolean;
}
export interface PieceReferences {
  readonly base?: Uint8Array | undefined;
  readonly previous?: Uint8Array | undefined;
}
export interface PieceShape {
  readonly kind: NumberKind;
  readonly count: number;
  readonly view: View;
}

/** What the kernels are told of a piece. */
interface Setting {
  readonly alphabet: Alphabet;
  readonly orderMask: number;
  readonly shift: number;
  readonly limit: number;
  readonly emax: number;
  readonly exponentMask: number;
}

function settingOf(
  kind: NumberKind,
  { predictor, inUnits }: Pick<Prediction, "predictor" | "inUnits">,
  mean: number,
): Setting {
  const { shift, isFloat } = kind;
  if (!isFloat) return { alphabet: "differences", orderMask: 0, shift, limit: 50, emax: -1, exponentMask: 0 };
  if (inUnits)
    return {
      alphabet: "differences",
      orderMask: -1,
      shift,
      limit: 2 * (25 - shift),
      emax: -1,
      exponentMask: 0,
    };
  const octave = 127 + Math.ceil(mean / 4),
    within = (e: number): number => Math.max(0, Math.min(254, e));
  // A number whose difference is large against it is about as large as the difference: escapes begin three
  // octaves above.
  if (predictor !== "none")
    return {
      alphabet: "differences",
      orderMask: -1,
      shift,
      limit: 2 * (25 - shift),
      emax: within(octave + 3),
      exponentMask: 255,
    };
  return { alphabet: "exponents", orderMask: -1, shift, limit: 0, emax: within(octave + 4), exponentMask: 0 };
}

/** Puts bytes into the memory as lanes, by way of the stream's place where they need widening. */
function load(
  memory: KernelMemory,
  arrays: PieceArrays,
  { kind, count }: PieceShape,
  bytes: Uint8Array,
  target: number,
): void {
  if (kind.widening === 0) {
    arrays.heap.u8.set(bytes, target);
    return;
  }
  arrays.heap.u8.set(bytes, arrays.stream);
  memory.kernels.widen(arrays.stream, target, count, kind.widening);
}

/** Returns where the prediction lies. */
function preparePrediction(
  memory: KernelMemory,
  arrays: PieceArrays,
  shape: PieceShape,
  { predictor, alpha64 }: Prediction,
  references: PieceReferences,
): number {
  const { kind, count } = shape,
    { u32 } = arrays.heap;
  if (predictor === "none") {
    u32.fill(0, arrays.base >> 2, (arrays.base >> 2) + count);
    return arrays.base;
  }
  load(memory, arrays, shape, references.base!, arrays.base);
  if (predictor === "base") return arrays.base;
  load(memory, arrays, shape, references.previous!, arrays.previous);
  memory.kernels.predict(arrays.base, arrays.previous, count, alpha64 / 64, arrays.prediction);
  if (kind.shift > 0) {
    // Rounded to the numbers that the type has, so that differences are whole steps.
    const half = 1 << (kind.shift - 1),
      keep = -(1 << kind.shift);
    for (let i = arrays.prediction >> 2, end = i + count; i < end; i++) u32[i] = (u32[i]! + half) & keep;
  }
  return arrays.prediction;
}

/** Measures how large differences are, in place of the sums' memory. */
function measure(
  memory: KernelMemory,
  arrays: PieceArrays,
  { kind, view }: PieceShape,
  prediction: number,
): Scales {
  const { rows, columns, inner } = view,
    { f32 } = arrays.heap,
    structured = rows * columns > 1;
  f32.fill(0, arrays.columns >> 2, (arrays.columns >> 2) + columns);
  if (structured) f32.fill(0, arrays.inner >> 2, (arrays.inner >> 2) + inner);
  memory.kernels.magnitudes(
    prediction,
    arrays.child,
    rows,
    columns,
    inner,
    arrays.rows,
    arrays.columns,
    structured ? arrays.inner : 0,
    kind.isFloat ? 0 : 1,
  );
  const sums = (at: number, length: number): Float32Array => f32.subarray(at >> 2, (at >> 2) + length);
  return scalesOf(
    view,
    sums(arrays.rows, rows),
    sums(arrays.columns, columns),
    structured ? sums(arrays.inner, inner) : undefined,
  );
}

const unitScales: Scales = { mean: 0, rows: undefined, columns: undefined, inner: undefined };

function markContexts(
  memory: KernelMemory,
  arrays: PieceArrays,
  { view }: PieceShape,
  setting: Setting,
  { mean, rows, columns, inner }: Scales,
  prediction: number,
): void {
  const { i32 } = arrays.heap,
    exponents = setting.alphabet === "exponents",
    sign = exponents ? -1 : 1;
  // In units in the last place a difference of 2^(q/4) to a number of exponent e is 2^(q/4 - e + 150); see
  // meanings.ts for what a context stands for.
  const centre = exponents
    ? 4 * (setting.emax - 127) + 8 - mean
    : mean + 16 + (setting.exponentMask > 0 ? 600 - 4 * setting.shift : 0);
  const put = (at: number, length: number, vector: Int8Array | undefined, offset: number): void => {
    if (vector === undefined) i32.fill(offset, at >> 2, (at >> 2) + length);
    else for (let i = 0; i < length; i++) i32[(at >> 2) + i] = offset + sign * vector[i]!;
  };
  put(arrays.rows, view.rows, rows, centre);
  put(arrays.columns, view.columns, columns, 0);
  if (inner !== undefined) put(arrays.inner, view.inner, inner, 0);
  memory.kernels.contexts(
    prediction,
    view.rows,
    view.columns,
    view.inner,
    arrays.rows,
    arrays.columns,
    inner === undefined ? 0 : arrays.inner,
    setting.exponentMask,
    arrays.contexts,
  );
}

/**
 * Codes a piece; undefined where it would be no smaller than `bytes`.
 * @param bytes exactly `count` numbers, like what is in `references`
 */
export function encodePiece(
  memory: KernelMemory,
  shape: PieceShape,
  bytes: Uint8Array,
  prediction: Prediction,
  references: PieceReferences,
): { code: 2 | 3; bytes: Uint8Array } | undefined {
  const { kind, count, view } = shape,
    arrays = memory.pieceArrays(count, view, bytes.length),
    { kernels } = memory;
  const from = preparePrediction(memory, arrays, shape, prediction, references);
  load(memory, arrays, shape, bytes, arrays.child);
  // Units need no scale: one context, whose table says all.
  const scales = prediction.inUnits ? unitScales : measure(memory, arrays, shape, from),
    setting = settingOf(kind, prediction, scales.mean);
  markContexts(memory, arrays, shape, setting, scales, from);
  const { histogram, totals } = memory,
    counts = arrays.heap.u32.subarray(histogram >> 2, (histogram >> 2) + 4096);
  counts.fill(0);
  if (setting.alphabet === "exponents")
    kernels.exponentSymbols(arrays.child, arrays.contexts, count, setting.emax, arrays.indices, histogram);
  else
    kernels.differenceSymbols(
      from,
      arrays.child,
      arrays.contexts,
      count,
      setting.emax,
      setting.orderMask,
      setting.shift,
      setting.limit,
      arrays.indices,
      arrays.folded,
      histogram,
    );
  kernels.rowTotals(histogram, totals);
  const expected = memory.expected(setting.alphabet, setting.shift),
    choice = chooseTables(counts, arrays.heap.u32.subarray(totals >> 2, (totals >> 2) + 64), expected);
  if (choice.bits / 8 >= bytes.length) return undefined;

  const out = new ByteWriter();
  out.u8(
    predictors.indexOf(prediction.predictor) |
      (scales.rows ? 4 : 0) |
      (scales.columns ? 8 : 0) |
      (scales.inner ? 16 : 0) |
      (prediction.inUnits ? 32 : 0),
  );
  out.i16(scales.mean);
  if (prediction.predictor === "extrapolated") out.i16(prediction.alpha64);
  out.sized(writeSideInformation({ scales, lengths: choice.lengths, frequencies: choice.frequencies }));
  const streams = { memory, arrays, from, count, setting };
  if (choice.close)
    writeClose(
      streams,
      out,
      memory.frequencyTables(choice.frequencies, expected.frequencies, false),
      expected.extraCoding,
    );
  else {
    const table = memory.codeTables(choice.lengths, expected, false),
      middle = 2 * (count >> 2);
    const parts = [
      ...pack(streams, table, 0, middle, arrays.stream),
      ...pack(streams, table, middle, count, arrays.secondStream),
    ];
    parts.forEach((part, i) => (i < 3 ? out.sized(part) : out.bytes(part)));
  }
  return out.length < bytes.length ? { code: choice.close ? close : packed, bytes: out.finish() } : undefined;
}

interface Streams {
  readonly memory: KernelMemory;
  readonly arrays: PieceArrays;
  readonly from: number;
  readonly count: number;
  readonly setting: Setting;
}

/**
 * The two streams of the numbers from `from` to `to`, where they lie: at a stream's place and in the middle
 * of it.
 */
function pack(
  { memory, arrays, setting }: Streams,
  table: number,
  from: number,
  to: number,
  place: number,
): readonly [Uint8Array, Uint8Array] {
  const { u8, u32 } = arrays.heap,
    { scratch } = memory,
    second = place + arrays.halfStream;
  memory.kernels.packBits(
    arrays.indices + 2 * from,
    arrays.folded + 4 * from,
    arrays.child + 4 * from,
    to - from,
    setting.shift,
    table,
    place,
    second,
    scratch,
  );
  const bytes = (at: number, index: number): Uint8Array =>
    u8.subarray(at, at + Math.ceil(u32[(scratch >> 2) + index]! / 8));
  return [bytes(place, 0), bytes(second, 1)];
}

function writeClose(streams: Streams, out: ByteWriter, table: number, extras: number): void {
  const { memory, arrays, count } = streams;
  const begin = memory.kernels.ransEncode(arrays.indices, count, table, arrays.stream, arrays.secondStream);
  // Chosen by its length, which is below the numbers' own: it fits.
  if (begin === 0) throw new RangeError("the close coder outgrew what its tables promised");
  const coded = arrays.heap.u8.slice(begin, arrays.secondStream),
    [first, second] = pack(streams, extras, 0, count, arrays.stream);
  out.sized(coded);
  out.sized(first);
  out.bytes(second);
}

/** Decodes a piece into `target`, exactly `count` numbers long. @throws DELTA_MALFORMED */
export function decodePiece(
  memory: KernelMemory,
  code: 2 | 3,
  bytes: Uint8Array,
  shape: PieceShape,
  references: PieceReferences,
  target: Uint8Array,
): void {
  const { kind, count, view } = shape,
    reader = new ByteReader(bytes);
  const flags = reader.u8(),
    predictor = predictors[flags & 3];
  if (predictor === undefined || flags > 63) throw encodingMalformed("its flags name no predictor");
  const inUnits = (flags & 32) !== 0;
  if (inUnits && (predictor === "none" || !kind.isFloat))
    throw encodingMalformed("only floats with a prediction differ by units");
  const mean = reader.i16(),
    alpha64 = predictor === "extrapolated" ? reader.i16() : 0;
  if (
    mean < -600 ||
    mean > 512 ||
    Math.abs(alpha64) > maxAlpha64 ||
    (predictor === "extrapolated" && !kind.isFloat)
  )
    throw encodingMalformed("a scale or factor is out of range");
  checkReferences(predictor, references);
  const side = readSideInformation(
    reader.sized(),
    view,
    mean,
    [(flags & 4) !== 0, (flags & 8) !== 0, (flags & 16) !== 0],
    code === close,
  );
  const parts = Array.from({ length: 3 - (code === close ? 1 : 0) }, () => reader.sized()),
    streams = [...parts, reader.rest()];
  const arrays = memory.pieceArrays(
    count,
    view,
    streams.reduce((sum, { length }) => sum + length + 16, 0),
  );
  const setting = settingOf(kind, { predictor, inUnits }, mean);
  // Exponents have none; their contexts do not look at it.
  const from =
    setting.alphabet === "exponents"
      ? arrays.base
      : preparePrediction(memory, arrays, shape, { predictor, alpha64, inUnits }, references);
  markContexts(memory, arrays, shape, setting, side.scales, from);
  const reading = { memory, arrays, from: setting.alphabet === "exponents" ? 0 : from, count, setting };
  if (code === close) readClose(reading, side, streams);
  else readPacked(reading, side, streams);
  const { u8 } = arrays.heap;
  if (kind.widening === 0) {
    target.set(u8.subarray(arrays.child, arrays.child + target.length));
    return;
  }
  memory.kernels.narrow(arrays.child, arrays.stream, count, kind.widening);
  target.set(u8.subarray(arrays.stream, arrays.stream + target.length));
}

/** What `bytes` were coded against, for whoever has to fetch it first. */
export function predictorOf(bytes: Uint8Array): Predictor {
  const predictor = predictors[(bytes[0] ?? 3) & 3];
  if (predictor === undefined) throw encodingMalformed("its flags name no predictor");
  return predictor;
}

function checkReferences(predictor: Predictor, { base, previous }: PieceReferences): void {
  if (predictor !== "none" && base === undefined)
    throw encodingMalformed("it needs a base of the same kind, and there is none");
  if (predictor === "extrapolated" && previous === undefined)
    throw encodingMalformed("it needs what came before its base, and that is not here");
}

/**
 * Puts streams one after the other into the memory, with arrays behind each for the kernels to read ahead;
 * start and bits of each into the scratch words.
 */
function place({ memory, arrays: { heap, stream } }: Streams, streams: readonly Uint8Array[]): number {
  let at = stream;
  streams.forEach((bytes, i) => {
    heap.u8.set(bytes, at);
    heap.u32[(memory.scratch >> 2) + 2 * i] = at;
    heap.u32[(memory.scratch >> 2) + 2 * i + 1] = 8 * bytes.length;
    at += bytes.length + 16;
  });
  return memory.scratch;
}

function readPacked(reading: Streams, { lengths }: SideInformation, streams: readonly Uint8Array[]): void {
  const {
    memory,
    arrays,
    from,
    count,
    setting: { alphabet, orderMask, shift, emax },
  } = reading;
  const table = memory.codeTables(lengths, memory.expected(alphabet, shift), true),
    scratch = place(reading, streams);
  const damaged =
    memory.kernels.unpackBits(
      from,
      arrays.contexts,
      count,
      table,
      scratch,
      orderMask,
      shift,
      emax,
      arrays.child,
    ) < 0;
  if (
    damaged ||
    streams.some(({ length }, i) => Math.ceil(arrays.heap.u32[(scratch >> 2) + 2 * i + 1]! / 8) !== length)
  )
    throw encodingMalformed("its streams do not hold as many numbers as the tensor has");
}

/** Symbols in place of the indices, then the bits that they leave open. */
function readClose(
  reading: Streams,
  { frequencies }: SideInformation,
  [coded, ...extras]: readonly Uint8Array[],
): void {
  const {
    memory,
    arrays,
    from,
    count,
    setting: { alphabet, orderMask, shift, emax },
  } = reading;
  const expected = memory.expected(alphabet, shift),
    table = memory.frequencyTables(frequencies, expected.frequencies, true),
    half = count >> 1;
  place(reading, [coded!]);
  if (
    memory.kernels.ransDecode(
      arrays.contexts,
      count,
      table,
      arrays.stream,
      arrays.stream + coded!.length,
      arrays.indices,
    ) < 0
  )
    throw encodingMalformed("its symbols do not end where they should");
  const scratch = place(reading, extras);
  const read = (which: 0 | 1, start: number, numbers: number): boolean => {
    const stream = arrays.heap.u32[(scratch >> 2) + 2 * which]!,
      { length } = extras[which]!;
    const bits = memory.kernels.unpackExtras(
      from === 0 ? 0 : from + 4 * start,
      arrays.indices + start,
      numbers,
      expected.extraDecoding,
      stream,
      8 * length,
      orderMask,
      shift,
      emax,
      arrays.child + 4 * start,
    );
    return bits >= 0 && Math.ceil(bits / 8) === length;
  };
  if (!read(0, 0, half) || !read(1, half, count - half))
    throw encodingMalformed("its numbers do not end where they should");
}
