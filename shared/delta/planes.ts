/**
 * Byte planes, highest byte of every element first: code `planes`. The first planes are readable from a
 * prefix of the bytes, and against a base need no more than the base's same planes. Each byte is coded as
 * its difference from the base's (none: as itself), in the context of whether all bytes above were equal.
 *
 * Bytes: flags u8 (1: against a base) ‖ length of each plane as a varint ‖ planes; a plane is a row of
 * segments of 2^20 elements: mode u8 (0 raw, 1 coded) ‖ sized bytes; coded: sized tables ‖ stream.
 */
import { ByteReader, ByteWriter } from "./bytes.js";
import { frequenciesOf, frequencyTotal } from "./frequencies.js";
import { roughLog2 } from "./numbers.js";
import { codeNumber, newModel, numberContexts, RangeDecoder, RangeEncoder, type BitCoder } from "./range-coder.js";
import { malformed } from "./side-information.js";
import type { Workspace } from "./workspace.js";

const segmentElements = 2 ** 20;
const alphabet = 256;
/** A plane is coded only where it gets at least this much smaller; decoding costs time. */
const leastGain = 0.99;

/** Codes all planes of elements of `width` bytes. `base`: as long as `bytes`, or none. */
export function encodePlanes(workspace: Workspace, bytes: Uint8Array, width: number, base: Uint8Array | undefined): Uint8Array {
  const count = bytes.length / width, touched = new Uint8Array(count), planes: Uint8Array[] = [];
  for (let plane = width - 1; plane >= 0; plane--) {
    const out = new ByteWriter();
    for (let from = 0; from < count; from += segmentElements) {
      const length = Math.min(segmentElements, count - from), symbols = new Uint8Array(length);
      for (let i = 0, at = from * width + plane; i < length; i++, at += width) symbols[i] = bytes[at]! - (base?.[at] ?? 0);
      const coded = encodeSegment(workspace, symbols, touched.subarray(from, from + length));
      out.u8(coded === undefined ? 0 : 1);
      out.sized(coded ?? symbols);
      if (base !== undefined) for (let i = 0; i < length; i++) if (symbols[i] !== 0) touched[from + i] = 1;
    }
    planes.push(out.finish());
  }
  const all = new ByteWriter();
  all.u8(base === undefined ? 0 : 1);
  for (const plane of planes) all.varint(plane.length);
  for (const plane of planes) all.bytes(plane);
  return all.finish();
}

/** Whether `bytes` need a base. */
export function planesNeedBase(bytes: Uint8Array): boolean { return bytes[0] === 1; }

/** How many of the first bytes hold the first `planes` planes. @throws DELTA_MALFORMED */
export function planesPrefix(bytes: Uint8Array, width: number, planes: number): number {
  const reader = new ByteReader(bytes), lengths = header(reader, width);
  const before = bytes.length - reader.left;
  return lengths.slice(0, planes).reduce((sum, length) => sum + length, before);
}

function header(reader: ByteReader, width: number): readonly number[] {
  if (reader.u8() > 1) throw malformed("its flags name no layout");
  return Array.from({ length: width }, () => reader.varint());
}

/**
 * The first `planes` planes; the bytes below are nought.
 * @param bytes all of it, or a prefix that holds those planes
 * @param base at least its own first `planes` planes
 * @throws DELTA_MALFORMED
 */
export function decodePlanes(workspace: Workspace, bytes: Uint8Array, width: number, base: Uint8Array | undefined, target: Uint8Array, planes = width): void {
  const reader = new ByteReader(bytes), based = planesNeedBase(bytes), lengths = header(reader, width), count = target.length / width;
  if (based && base?.length !== target.length) throw malformed("it needs a base of the same size, and there is none");
  const touched = new Uint8Array(count);
  target.fill(0);
  for (let done = 0; done < planes; done++) {
    const plane = new ByteReader(reader.take(lengths[done]!)), place = width - 1 - done;
    for (let from = 0; from < count; from += segmentElements) {
      const length = Math.min(segmentElements, count - from), state = touched.subarray(from, from + length);
      const mode = plane.u8(), part = plane.sized();
      const symbols = mode === 1 ? decodeSegment(workspace, part, state) : part;
      if (mode > 1 || symbols.length !== length) throw malformed("a byte plane is not as long as the tensor");
      for (let i = 0, at = from * width + place; i < length; i++, at += width) target[at] = symbols[i]! + (based ? base![at]! : 0);
      if (based) for (let i = 0; i < length; i++) if (symbols[i] !== 0) state[i] = 1;
    }
    if (plane.left > 0) throw malformed("a byte plane is longer than the tensor");
  }
  if (planes === width && reader.left > 0) throw malformed("bytes follow its last plane");
}

/** Places of one segment: indices, symbols and contexts, then the stream. */
function roomOf(workspace: Workspace, length: number, streamBytes: number): ReturnType<Workspace["pieceRoom"]> {
  return workspace.pieceRoom(length, { rows: 1, columns: 1, inner: 1 }, streamBytes);
}

function encodeSegment(workspace: Workspace, symbols: Uint8Array, state: Uint8Array): Uint8Array | undefined {
  const counts = [new Uint32Array(alphabet), new Uint32Array(alphabet)] as const;
  for (let i = 0; i < symbols.length; i++) counts[state[i]! as 0 | 1][symbols[i]!]!++;
  const rows = counts.map((row) => { const shares = new Uint16Array(alphabet); frequenciesOf(row, shares); return shares; });
  let bits = 0;
  rows.forEach((shares, context) => shares.forEach((share, symbol) => { if (share > 0) bits += counts[context as 0 | 1][symbol]! * (11 - roughLog2(share)) + 5; }));
  if (bits / 8 + 16 > leastGain * symbols.length) return undefined;
  const room = roomOf(workspace, symbols.length, 0), { u8, u16 } = room.heap;
  for (let i = 0; i < symbols.length; i++) u16[(room.indices >> 1) + i] = (state[i]! << 8) | symbols[i]!;
  const begin = workspace.kernels.ransEncode(room.indices, symbols.length, workspace.frequencyTables(rows, [], false, alphabet), room.stream, room.secondStream);
  if (begin === 0) return undefined;
  const out = new ByteWriter(), coder = new RangeEncoder();
  codeShares(coder, rows);
  out.sized(coder.finish());
  out.bytes(u8.subarray(begin, room.secondStream));
  return out.length < symbols.length ? out.finish() : undefined;
}

function decodeSegment(workspace: Workspace, bytes: Uint8Array, state: Uint8Array): Uint8Array {
  const reader = new ByteReader(bytes), rows = [new Uint16Array(alphabet), new Uint16Array(alphabet)];
  codeShares(new RangeDecoder(reader.sized()), rows);
  for (const row of rows) {
    const sum = row.reduce((total, share) => total + share, 0);
    if (sum !== 0 && sum !== frequencyTotal) throw malformed("a table of frequencies does not add up");
  }
  const stream = reader.rest(), room = roomOf(workspace, state.length, stream.length), { u8 } = room.heap;
  u8.set(state, room.contexts);
  u8.set(stream, room.stream);
  const table = workspace.frequencyTables(rows.map((row) => (row[row.findIndex((share) => share > 0)] === undefined ? undefined : row)), [], true);
  if (workspace.kernels.ransDecode(room.contexts, state.length, table, room.stream, room.stream + stream.length, room.indices) < 0) throw malformed("a byte plane's symbols do not end where they should");
  return u8.slice(room.indices, room.indices + state.length);
}

function codeShares(coder: BitCoder, rows: readonly Uint16Array[]): void {
  const flags = newModel(4), values = newModel(numberContexts);
  for (const row of rows) {
    let before = 0;
    for (let s = 0; s < alphabet; s++) {
      before = coder.bit(flags, before, row[s]! > 0 ? 1 : 0);
      if (before === 0) continue;
      const share = codeNumber(coder, values, row[s]!);
      if (share < 1 || share > frequencyTotal) throw malformed("a frequency is out of range");
      row[s] = share;
    }
  }
}
