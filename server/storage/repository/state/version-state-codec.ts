/**
 * A version's state as bytes of the index: what most versions have in few bytes, all else as V8 writes it. Numbers take
 * seven bits a byte, the low ones first; all but the last byte have the eighth. Pure.
 *
 * Flags u8; version id, 32 bytes; position, version, recordedAtMs, tensorBytes, ownBytes, and what the flags name of
 * storedBytes, generation, storedAtMs and the time of the release, times as differences to recordedAtMs; lengths and
 * UTF-8 of name, and of what the flags name of `by` and the reason of the release; other members.
 */
import { deserialize, serialize } from "node:v8";
import { defined } from "../../../../shared/defined.js";
import { hexOf } from "../../../../shared/tensor/hash.js";
import { isWellFormedText } from "../../../../shared/tensor/strict-json.js";
import type { ListCodec } from "../../index/layered-lists.js";
import type { VersionState } from "./version-state.js";

const hasStoredBytes = 1;
const hasGeneration = 2;
const isReceived = 4;
const hasBy = 8;
const isStored = 16;
const isReleased = 32;
const hasOthers = 64;
/** All of it is as V8 writes it: a time is not a count of milliseconds since 1970, or a text is not Unicode. */
const isOdd = 128;

const hashBytes = 32;
/** The bytes of a number below 2^53. */
const longestNumber = 8;
const longestHead = 1 + hashBytes + 12 * longestNumber;

export const versionStateCodec: ListCodec<VersionState> = {
  encode: (version) => (isPlain(version) ? encodePlain(version) : encodeOdd(version)),
  decode: (bytes) =>
    ((bytes[0] as number) & isOdd) === 0
      ? decodePlain(bytes)
      : (deserialize(bytes.subarray(1)) as VersionState),
};

function encodeOdd(version: VersionState): Buffer {
  return Buffer.concat([Buffer.of(isOdd), serialize(version)]);
}

function isPlain({ recordedAtMs, storedAtMs, released, name, by }: VersionState): boolean {
  return (
    isPlainTime(recordedAtMs) &&
    isPlainTime(storedAtMs ?? 0) &&
    isPlainTime(released?.atMs ?? 0) &&
    isWellFormedText(name) &&
    isWellFormedText(by ?? "") &&
    isWellFormedText(released?.because ?? "")
  );
}

function isPlainTime(time: number): boolean {
  return Number.isInteger(time) && time >= 0 && time < 2 ** 52;
}

function encodePlain(version: VersionState): Buffer {
  const { versionId, name, position, recordedAtMs, tensorBytes, ownBytes, tags, ...rest } = version;
  const { storedBytes, generation, received, by, storedAtMs, released, version: number, ...others } = rest;
  const flags =
    (storedBytes === undefined ? 0 : hasStoredBytes) |
    (generation === undefined ? 0 : hasGeneration) |
    (received === undefined ? 0 : isReceived) |
    (by === undefined ? 0 : hasBy) |
    (storedAtMs === undefined ? 0 : isStored) |
    (released === undefined ? 0 : isReleased);
  const other = { ...defined(others), ...(tags.size === 0 ? {} : { tags }) };
  const isOther = Object.keys(other).length > 0;
  const texts = [name, by, released?.because].filter((text) => text !== undefined);
  const start = Buffer.allocUnsafe(longestHead + 3 * texts.reduce((sum, { length }) => sum + length, 0));
  start[0] = flags | (isOther ? hasOthers : 0);
  start.write(versionId, 1, "hex");
  let at = 1 + hashBytes;
  for (const each of [position, number, recordedAtMs, tensorBytes, ownBytes, storedBytes, generation])
    if (each !== undefined) at = writeNumber(start, at, each);
  for (const time of [storedAtMs, released?.atMs])
    if (time !== undefined) at = writeNumber(start, at, foldedSign(time - recordedAtMs));
  for (const text of texts) {
    at = writeNumber(start, at, Buffer.byteLength(text));
    at += start.write(text, at);
  }
  return isOther ? Buffer.concat([start.subarray(0, at), serialize(other)]) : start.subarray(0, at);
}

function decodePlain(bytes: Buffer): VersionState {
  const flags = bytes[0] as number;
  const reader = new Reader(bytes, 1 + hashBytes);
  const position = reader.number();
  const version = reader.number();
  const recordedAtMs = reader.number();
  const tensorBytes = reader.number();
  const ownBytes = reader.number();
  const storedBytes = (flags & hasStoredBytes) === 0 ? undefined : reader.number();
  const generation = (flags & hasGeneration) === 0 ? undefined : reader.number();
  const storedAtMs = (flags & isStored) === 0 ? undefined : recordedAtMs + reader.difference();
  const releasedAtMs = (flags & isReleased) === 0 ? undefined : recordedAtMs + reader.difference();
  const decoded: { -readonly [Member in keyof VersionState]: VersionState[Member] } = {
    versionId: hexOf(bytes.subarray(1, 1 + hashBytes)),
    name: reader.text(),
    version,
    position,
    recordedAtMs,
    tensorBytes,
    ownBytes,
    generation,
    tags: new Set(),
  };
  if (storedBytes !== undefined) decoded.storedBytes = storedBytes;
  if ((flags & isReceived) !== 0) decoded.received = true;
  if ((flags & hasBy) !== 0) decoded.by = reader.text();
  if (storedAtMs !== undefined) decoded.storedAtMs = storedAtMs;
  if (releasedAtMs !== undefined) decoded.released = { atMs: releasedAtMs, because: reader.text() };
  return (flags & hasOthers) === 0
    ? decoded
    : Object.assign(decoded, deserialize(reader.rest()) as Partial<VersionState>);
}

/** A number that may be negative as one that is not: the lowest bit is its sign. */
function foldedSign(number: number): number {
  return number < 0 ? -2 * number - 1 : 2 * number;
}

function writeNumber(bytes: Buffer, from: number, number: number): number {
  let at = from;
  let rest = number;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes[at++] = (rest % 128) | 0x80;
  bytes[at++] = rest;
  return at;
}

class Reader {
  constructor(
    private readonly bytes: Buffer,
    private at: number,
  ) {}

  number(): number {
    let byte = this.bytes[this.at++] as number;
    let number = byte & 0x7f;
    for (let unit = 128; byte >= 0x80; unit *= 128) {
      byte = this.bytes[this.at++] as number;
      number += (byte & 0x7f) * unit;
    }
    return number;
  }
  difference(): number {
    const folded = this.number();
    return folded % 2 === 0 ? folded / 2 : -(folded + 1) / 2;
  }
  text(): string {
    const length = this.number();
    this.at += length;
    return this.bytes.toString("utf8", this.at - length, this.at);
  }
  rest(): Buffer {
    return this.bytes.subarray(this.at);
  }
}
