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
import type { Alphabet } from "./meanings.js";
import type { NumberKind, View } from "./numbers.js";
import { scalesOf, type Scales } from "./scales.js";
import {
  malformed,
  readSideInformation,
  writeSideInformation,
  type SideInformation,
} from "./side-information.js";
import { chooseTables } from "./choose-tables.js";
import type { PieceRoom, Workspace } from "./workspace.js";

const { packed, close } = encodingCodes;
const predictors: readonly Predictor[] = ["none", "base", "extrapolated"];
/** Beyond ±4 an extrapolation is no prediction any more. */
export const mostAlpha64 = 256;

export interface Prediction {
  readonly predictor: Predictor;
  readonly alpha64: number;
  readonly units: boolean;
}
export interface PieceReferences {
  readonly base?: Uint8Array;
  readonly previous?: Uint8Array;
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
  { predictor, units }: Pick<Prediction, "predictor" | "units">,
  mean: number,
): Setting {
  const { shift, float } = kind;
  if (!float) return { alphabet: "differences", orderMask: 0, shift, limit: 50, emax: -1, exponentMask: 0 };
  if (units)
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
  workspace: Workspace,
  room: PieceRoom,
  { kind, count }: PieceShape,
  bytes: Uint8Array,
  target: number,
): void {
  if (kind.widening === 0) {
    room.heap.u8.set(bytes, target);
    return;
  }
  room.heap.u8.set(bytes, room.stream);
  workspace.kernels.widen(room.stream, target, count, kind.widening);
}

/** Returns where the prediction lies. */
function preparePrediction(
  workspace: Workspace,
  room: PieceRoom,
  shape: PieceShape,
  { predictor, alpha64 }: Prediction,
  references: PieceReferences,
): number {
  const { kind, count } = shape,
    { u32 } = room.heap;
  if (predictor === "none") {
    u32.fill(0, room.base >> 2, (room.base >> 2) + count);
    return room.base;
  }
  load(workspace, room, shape, references.base!, room.base);
  if (predictor === "base") return room.base;
  load(workspace, room, shape, references.previous!, room.previous);
  workspace.kernels.predict(room.base, room.previous, count, alpha64 / 64, room.prediction);
  if (kind.shift > 0) {
    // Rounded to the numbers that the type has, so that differences are whole steps.
    const half = 1 << (kind.shift - 1),
      keep = -(1 << kind.shift);
    for (let i = room.prediction >> 2, end = i + count; i < end; i++) u32[i] = (u32[i]! + half) & keep;
  }
  return room.prediction;
}

/** Measures how large differences are, in place of the sums' memory. */
function measure(
  workspace: Workspace,
  room: PieceRoom,
  { kind, view }: PieceShape,
  prediction: number,
): Scales {
  const { rows, columns, inner } = view,
    { f32 } = room.heap,
    structured = rows * columns > 1;
  f32.fill(0, room.columns >> 2, (room.columns >> 2) + columns);
  if (structured) f32.fill(0, room.inner >> 2, (room.inner >> 2) + inner);
  workspace.kernels.magnitudes(
    prediction,
    room.child,
    rows,
    columns,
    inner,
    room.rows,
    room.columns,
    structured ? room.inner : 0,
    kind.float ? 0 : 1,
  );
  const sums = (at: number, length: number): Float32Array => f32.subarray(at >> 2, (at >> 2) + length);
  return scalesOf(
    view,
    sums(room.rows, rows),
    sums(room.columns, columns),
    structured ? sums(room.inner, inner) : undefined,
  );
}

const unitScales: Scales = { mean: 0, rows: undefined, columns: undefined, inner: undefined };

function markContexts(
  workspace: Workspace,
  room: PieceRoom,
  { view }: PieceShape,
  setting: Setting,
  { mean, rows, columns, inner }: Scales,
  prediction: number,
): void {
  const { i32 } = room.heap,
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
  put(room.rows, view.rows, rows, centre);
  put(room.columns, view.columns, columns, 0);
  if (inner !== undefined) put(room.inner, view.inner, inner, 0);
  workspace.kernels.contexts(
    prediction,
    view.rows,
    view.columns,
    view.inner,
    room.rows,
    room.columns,
    inner === undefined ? 0 : room.inner,
    setting.exponentMask,
    room.contexts,
  );
}

/**
 * Codes a piece; undefined where it would be no smaller than `bytes`.
 * @param bytes exactly `count` numbers, like what is in `references`
 */
export function encodePiece(
  workspace: Workspace,
  shape: PieceShape,
  bytes: Uint8Array,
  prediction: Prediction,
  references: PieceReferences,
): { code: 2 | 3; bytes: Uint8Array } | undefined {
  const { kind, count, view } = shape,
    room = workspace.pieceRoom(count, view, bytes.length),
    { kernels } = workspace;
  const from = preparePrediction(workspace, room, shape, prediction, references);
  load(workspace, room, shape, bytes, room.child);
  // Units need no scale: one context, whose table says all.
  const scales = prediction.units ? unitScales : measure(workspace, room, shape, from),
    setting = settingOf(kind, prediction, scales.mean);
  markContexts(workspace, room, shape, setting, scales, from);
  const { histogram, totals } = workspace,
    counts = room.heap.u32.subarray(histogram >> 2, (histogram >> 2) + 4096);
  counts.fill(0);
  if (setting.alphabet === "exponents")
    kernels.exponentSymbols(room.child, room.contexts, count, setting.emax, room.indices, histogram);
  else
    kernels.differenceSymbols(
      from,
      room.child,
      room.contexts,
      count,
      setting.emax,
      setting.orderMask,
      setting.shift,
      setting.limit,
      room.indices,
      room.folded,
      histogram,
    );
  kernels.rowTotals(histogram, totals);
  const expected = workspace.expected(setting.alphabet, setting.shift),
    choice = chooseTables(counts, room.heap.u32.subarray(totals >> 2, (totals >> 2) + 64), expected);
  if (choice.bits / 8 >= bytes.length) return undefined;

  const out = new ByteWriter();
  out.u8(
    predictors.indexOf(prediction.predictor) |
      (scales.rows ? 4 : 0) |
      (scales.columns ? 8 : 0) |
      (scales.inner ? 16 : 0) |
      (prediction.units ? 32 : 0),
  );
  out.i16(scales.mean);
  if (prediction.predictor === "extrapolated") out.i16(prediction.alpha64);
  out.sized(writeSideInformation({ scales, lengths: choice.lengths, frequencies: choice.frequencies }));
  const streams = { workspace, room, from, count, setting };
  if (choice.close)
    writeClose(
      streams,
      out,
      workspace.frequencyTables(choice.frequencies, expected.frequencies, false),
      expected.extraCoding,
    );
  else {
    const table = workspace.codeTables(choice.lengths, expected, false),
      middle = 2 * (count >> 2);
    const parts = [
      ...pack(streams, table, 0, middle, room.stream),
      ...pack(streams, table, middle, count, room.secondStream),
    ];
    parts.forEach((part, i) => (i < 3 ? out.sized(part) : out.bytes(part)));
  }
  return out.length < bytes.length ? { code: choice.close ? close : packed, bytes: out.finish() } : undefined;
}

interface Streams {
  readonly workspace: Workspace;
  readonly room: PieceRoom;
  readonly from: number;
  readonly count: number;
  readonly setting: Setting;
}

/**
 * The two streams of the numbers from `from` to `to`, where they lie: at a stream's place and in the middle
 * of it.
 */
function pack(
  { workspace, room, setting }: Streams,
  table: number,
  from: number,
  to: number,
  place: number,
): readonly [Uint8Array, Uint8Array] {
  const { u8, u32 } = room.heap,
    { scratch } = workspace,
    second = place + room.halfStream;
  workspace.kernels.packBits(
    room.indices + 2 * from,
    room.folded + 4 * from,
    room.child + 4 * from,
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
  const { workspace, room, count } = streams;
  const begin = workspace.kernels.ransEncode(room.indices, count, table, room.stream, room.secondStream);
  // Chosen by its length, which is below the numbers' own: it fits.
  if (begin === 0) throw new RangeError("the close coder outgrew what its tables promised");
  const coded = room.heap.u8.slice(begin, room.secondStream),
    [first, second] = pack(streams, extras, 0, count, room.stream);
  out.sized(coded);
  out.sized(first);
  out.bytes(second);
}

/** Decodes a piece into `target`, exactly `count` numbers long. @throws DELTA_MALFORMED */
export function decodePiece(
  workspace: Workspace,
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
  if (predictor === undefined || flags > 63) throw malformed("its flags name no predictor");
  const units = (flags & 32) !== 0;
  if (units && (predictor === "none" || !kind.float))
    throw malformed("only floats with a prediction differ by units");
  const mean = reader.i16(),
    alpha64 = predictor === "extrapolated" ? reader.i16() : 0;
  if (
    mean < -600 ||
    mean > 512 ||
    Math.abs(alpha64) > mostAlpha64 ||
    (predictor === "extrapolated" && !kind.float)
  )
    throw malformed("a scale or factor is out of range");
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
  const room = workspace.pieceRoom(
    count,
    view,
    streams.reduce((sum, { length }) => sum + length + 16, 0),
  );
  const setting = settingOf(kind, { predictor, units }, mean);
  // Exponents have none; their contexts do not look at it.
  const from =
    setting.alphabet === "exponents"
      ? room.base
      : preparePrediction(workspace, room, shape, { predictor, alpha64, units }, references);
  markContexts(workspace, room, shape, setting, side.scales, from);
  const reading = { workspace, room, from: setting.alphabet === "exponents" ? 0 : from, count, setting };
  if (code === close) readClose(reading, side, streams);
  else readPacked(reading, side, streams);
  const { u8 } = room.heap;
  if (kind.widening === 0) {
    target.set(u8.subarray(room.child, room.child + target.length));
    return;
  }
  workspace.kernels.narrow(room.child, room.stream, count, kind.widening);
  target.set(u8.subarray(room.stream, room.stream + target.length));
}

/** What `bytes` were coded against, for whoever has to fetch it first. */
export function predictorOf(bytes: Uint8Array): Predictor {
  const predictor = predictors[(bytes[0] ?? 3) & 3];
  if (predictor === undefined) throw malformed("its flags name no predictor");
  return predictor;
}

function checkReferences(predictor: Predictor, { base, previous }: PieceReferences): void {
  if (predictor !== "none" && base === undefined)
    throw malformed("it needs a base of the same kind, and there is none");
  if (predictor === "extrapolated" && previous === undefined)
    throw malformed("it needs what came before its base, and that is not here");
}

/**
 * Puts streams one after the other into the memory, with room behind each for the kernels to read ahead;
 * start and bits of each into the scratch words.
 */
function place({ workspace, room: { heap, stream } }: Streams, streams: readonly Uint8Array[]): number {
  let at = stream;
  streams.forEach((bytes, i) => {
    heap.u8.set(bytes, at);
    heap.u32[(workspace.scratch >> 2) + 2 * i] = at;
    heap.u32[(workspace.scratch >> 2) + 2 * i + 1] = 8 * bytes.length;
    at += bytes.length + 16;
  });
  return workspace.scratch;
}

function readPacked(reading: Streams, { lengths }: SideInformation, streams: readonly Uint8Array[]): void {
  const {
    workspace,
    room,
    from,
    count,
    setting: { alphabet, orderMask, shift, emax },
  } = reading;
  const table = workspace.codeTables(lengths, workspace.expected(alphabet, shift), true),
    scratch = place(reading, streams);
  const damaged =
    workspace.kernels.unpackBits(
      from,
      room.contexts,
      count,
      table,
      scratch,
      orderMask,
      shift,
      emax,
      room.child,
    ) < 0;
  if (
    damaged ||
    streams.some(({ length }, i) => Math.ceil(room.heap.u32[(scratch >> 2) + 2 * i + 1]! / 8) !== length)
  )
    throw malformed("its streams do not hold as many numbers as the tensor has");
}

/** Symbols in place of the indices, then the bits that they leave open. */
function readClose(
  reading: Streams,
  { frequencies }: SideInformation,
  [coded, ...extras]: readonly Uint8Array[],
): void {
  const {
    workspace,
    room,
    from,
    count,
    setting: { alphabet, orderMask, shift, emax },
  } = reading;
  const expected = workspace.expected(alphabet, shift),
    table = workspace.frequencyTables(frequencies, expected.frequencies, true),
    half = count >> 1;
  place(reading, [coded!]);
  if (
    workspace.kernels.ransDecode(
      room.contexts,
      count,
      table,
      room.stream,
      room.stream + coded!.length,
      room.indices,
    ) < 0
  )
    throw malformed("its symbols do not end where they should");
  const scratch = place(reading, extras);
  const read = (which: 0 | 1, start: number, numbers: number): boolean => {
    const stream = room.heap.u32[(scratch >> 2) + 2 * which]!,
      { length } = extras[which]!;
    const bits = workspace.kernels.unpackExtras(
      from === 0 ? 0 : from + 4 * start,
      room.indices + start,
      numbers,
      expected.extraDecoding,
      stream,
      8 * length,
      orderMask,
      shift,
      emax,
      room.child + 4 * start,
    );
    return bits >= 0 && Math.ceil(bits / 8) === length;
  };
  if (!read(0, 0, half) || !read(1, half, count - half))
    throw malformed("its numbers do not end where they should");
}
