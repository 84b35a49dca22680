/**
 * Encodes entries in a segment file of the journal, and distinguishes damage from a torn tail. Pure.
 * (docs/formats.md, "Journal")
 *
 * Segment (format 1): header of 64 bytes = "STEMMAJL", format u32, crc u32 of the rest of the header,
 * position of its first entry u64, chain hash before it, zeros. Then frames: magic u32, payload length
 * u32, crc u32 of what follows, number of entries after this one in the same append u32, position of
 * the first entry of the group that was fsynced together u64, payload.
 */
import { crc32 } from "node:zlib";
import { hashBytes, hexOf } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { segmentCorrupt, segmentFormatUnknown } from "./journal-errors.js";

export const segmentHeaderBytes = 64;
export const frameHeaderBytes = 24;
/** Longest entry; anything larger belongs in the object store. */
export const maxEntryBytes = 1024 * 1024;
/**
 * Longest segment that is read, far above what is ever written, so that a hostile file is not read into
 * memory.
 */
export const maxSegmentFileBytes = 1024 * 1024 * 1024;

const segmentMagic = new TextEncoder().encode("STEMMAJL");
const segmentFormat = 1;
const frameMagic = new Uint8Array([0x53, 0x4a, 0x45, 0x01]);

export interface SegmentHeader {
  readonly first: number;
  readonly chain: Hash;
}

export function encodeSegmentHeader({ first, chain }: SegmentHeader): Uint8Array {
  const bytes = new Uint8Array(segmentHeaderBytes);
  const view = new DataView(bytes.buffer);
  bytes.set(segmentMagic, 0);
  view.setUint32(8, segmentFormat, true);
  view.setBigUint64(16, BigInt(first), true);
  bytes.set(hashBytes(chain), 24);
  view.setUint32(12, crc32(bytes.subarray(16)), true);
  return bytes;
}

/**
 * A header whose CRC-32 is that of format 1 is of format 1, whatever its format field states: the CRC-32 of a newer
 * format covers that field too.
 * @throws JOURNAL_CORRUPT, JOURNAL_FORMAT_UNKNOWN
 */
export function decodeSegmentHeader(bytes: Uint8Array, path: string): SegmentHeader {
  if (bytes.length < segmentHeaderBytes) throw segmentCorrupt(path, "is shorter than its header");
  if (!segmentMagic.every((byte, i) => bytes[i] === byte))
    throw segmentCorrupt(path, "does not start like a journal segment");
  const view = new DataView(bytes.buffer, bytes.byteOffset, segmentHeaderBytes);
  const format = view.getUint32(8, true);
  const isIntact = view.getUint32(12, true) === crc32(bytes.subarray(16, segmentHeaderBytes));
  if (format !== segmentFormat && isIntact)
    throw segmentCorrupt(
      path,
      `states the format ${format} in a header of format ${segmentFormat}: that field is damaged`,
    );
  if (format !== segmentFormat) throw segmentFormatUnknown(path, format, segmentFormat);
  if (!isIntact) throw segmentCorrupt(path, "has a damaged header");
  return { first: Number(view.getBigUint64(16, true)), chain: hexOf(bytes.subarray(24, 56)) };
}

/** One entry to write: `following` entries of the same append come after it. */
export interface FrameToWrite {
  readonly payload: Uint8Array;
  readonly following: number;
}

/** The frames of one group, to be written with one call and fsynced once. */
export function encodeFrames(frames: readonly FrameToWrite[], groupFirst: number): Uint8Array {
  const bytes = new Uint8Array(
    frames.reduce((sum, { payload }) => sum + frameHeaderBytes + payload.length, 0),
  );
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const { payload, following } of frames) {
    const end = at + frameHeaderBytes + payload.length;
    bytes.set(frameMagic, at);
    view.setUint32(at + 4, payload.length, true);
    view.setUint32(at + 12, following, true);
    view.setBigUint64(at + 16, BigInt(groupFirst), true);
    bytes.set(payload, at + frameHeaderBytes);
    view.setUint32(at + 8, crc32(bytes.subarray(at + 12, end)), true);
    at = end;
  }
  return bytes;
}

export interface Frame {
  readonly payload: Uint8Array;
  readonly following: number;
  readonly groupFirst: number;
  readonly end: number;
}

/** The complete frame at `at`, or undefined where there is none. */
export function frameAt(bytes: Uint8Array, at: number): Frame | undefined {
  if (at + frameHeaderBytes > bytes.length) return undefined;
  for (let i = 0; i < frameMagic.length; i++) if (bytes[at + i] !== frameMagic[i]) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, frameHeaderBytes);
  const length = view.getUint32(4, true);
  const end = at + frameHeaderBytes + length;
  if (length > maxEntryBytes || end > bytes.length) return undefined;
  if (view.getUint32(8, true) !== crc32(bytes.subarray(at + 12, end))) return undefined;
  return {
    payload: bytes.subarray(at + frameHeaderBytes, end),
    following: view.getUint32(12, true),
    groupFirst: Number(view.getBigUint64(16, true)),
    end,
  };
}

/** Returns where the next complete frame begins, from `from` on; undefined where there is none. */
export function nextFrameOffset(bytes: Uint8Array, from: number): number | undefined {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = buffer.indexOf(frameMagic, from); at !== -1; at = buffer.indexOf(frameMagic, at + 1))
    if (frameAt(bytes, at) !== undefined) return at;
  return undefined;
}

/**
 * True if the entry at `position`, which cannot be read, had been fsynced: proven by a complete frame of a
 * later group after `from`, because a group is written only once the one before it is durable.
 */
export function laterGroupExists(bytes: Uint8Array, from: number, position: number): boolean {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = buffer.indexOf(frameMagic, from); at !== -1; at = buffer.indexOf(frameMagic, at + 1)) {
    const frame = frameAt(bytes, at);
    if (frame !== undefined && frame.groupFirst > position) return true;
  }
  return false;
}
