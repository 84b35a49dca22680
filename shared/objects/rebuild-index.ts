/**
 * Finds the index of a pack whose header, trailer or index is damaged. The pack's name has the hash of the
 * index, so an index that was found is known to be exact. Tried in this order: the index where the trailer
 * states it; an index elsewhere at the end of the file; the index with one bit flipped back. Where none has the
 * hash, those entries are kept that can be decoded and whose bytes have their id. Reads only.
 */
import { createHash, type Hash as NodeHash } from "node:crypto";
import { isStemmaError } from "../errors.js";
import { objectHasher, sha256, sha256OfSmall, tensorHasher } from "../tensor/hash.js";
import {
  decodeEntry,
  entryFixedBytes,
  indexEntryBytes,
  rawEncodingCode,
  type PackEntry,
  type PackFormat,
} from "./pack-entry.js";
import {
  decodePackIndex,
  encodePackIndex,
  maxIndexBytes,
  packHeaderBytes,
  packTrailerBytes,
  type PackIndex,
} from "./pack-format.js";

/** The bytes of a pack file. `read` returns fewer bytes than asked for at the end of the file only. */
export interface PackBytes {
  readonly name: string;
  readonly bytes: number;
  read(at: number, length: number): Promise<Uint8Array>;
}

export interface RebuiltIndex {
  readonly pack: PackIndex;
  /** True if the index is the one that was written; otherwise objects of the pack may be missing in it. */
  readonly isExact: boolean;
}

/** Format 3 reads indexes of format 2, too. */
const formats: readonly PackFormat[] = [3, 1];
/** An index without a readable trailer is looked for in this many bytes at the end of the file. */
const searchedBytes = 64 * 1024 * 1024;
const maxSearchHits = 10_000;
/** Bytes that are hashed, at most, to find a flipped bit in an index: a few seconds. */
const maxRepairBytes = 2 ** 31;
const maxOneShotBytes = 4096;
const pieceBytes = 4 * 1024 * 1024;

/** Returns undefined where nothing of the index was found. @throws FILE_FAILED */
export async function rebuildIndex(source: PackBytes): Promise<RebuiltIndex | undefined> {
  const stated = await statedIndex(source);
  if (stated !== undefined) {
    const exact = exactIndex(source, stated);
    if (exact !== undefined) return exact;
  }
  const found = await searchIndex(source);
  if (found !== undefined) return found;
  if (stated === undefined) return undefined;
  const unverified = await scanEntries(source, stated);
  const repaired = flippedBack(source, stated, unverified.suspects);
  if (repaired !== undefined) return repaired;
  const { entries } = unverified;
  if (entries.length === 0) return undefined;
  return { pack: { name: source.name, bytes: source.bytes, entries }, isExact: false };
}

interface IndexBytes {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/**
 * The index where the trailer states it. Offset and length state the same, so one of them is enough where the
 * other is damaged; the index that begins with the first object is preferred.
 */
async function statedIndex(source: PackBytes): Promise<IndexBytes | undefined> {
  const end = source.bytes - packTrailerBytes;
  if (end < packHeaderBytes) return undefined;
  const trailer = await source.read(end, packTrailerBytes);
  const view = new DataView(trailer.buffer, trailer.byteOffset, trailer.length);
  const offset = Number(view.getBigUint64(0, true));
  const length = Number(view.getBigUint64(8, true));
  const candidates = [...new Set([offset, end - length])].filter(
    (at) => Number.isSafeInteger(at) && at >= packHeaderBytes && at <= end && end - at <= maxIndexBytes,
  );
  const read: IndexBytes[] = [];
  for (const at of candidates) {
    const index = { offset: at, bytes: await source.read(at, end - at) };
    if (sha256(index.bytes) === indexHashOf(source)) return index;
    read.push(index);
  }
  return read.find(({ offset: at, bytes }) => firstObjectIsStated(bytes, at)) ?? read[0];
}

function indexHashOf({ name }: PackBytes): string {
  return name.slice(0, 64);
}

/** The first object of a pack is stored after the header. */
function firstObjectIsStated(index: Uint8Array, offset: number): boolean {
  if (index.length < entryFixedBytes) return false;
  const view = new DataView(index.buffer, index.byteOffset, index.length);
  return Number(view.getBigUint64(40, true)) === packHeaderBytes && offset > packHeaderBytes;
}

/** The index, where its bytes have the hash in the pack's name. */
function exactIndex(source: PackBytes, { offset, bytes }: IndexBytes): RebuiltIndex | undefined {
  if (sha256(bytes) !== indexHashOf(source)) return undefined;
  for (const format of formats) {
    try {
      const entries = decodePackIndex(bytes, offset, source.name, format);
      // Only the format that it was written in gives the same bytes again.
      if (sha256(encodePackIndex(entries)) !== indexHashOf(source)) continue;
      return { pack: { name: source.name, bytes: source.bytes, entries }, isExact: true };
    } catch (error) {
      if (!isStemmaError(error)) throw error;
    }
  }
  return undefined;
}

/** Looks for an index that reaches to the trailer, or to the end of a file whose trailer was cut off. */
async function searchIndex(source: PackBytes): Promise<RebuiltIndex | undefined> {
  const start = Math.max(0, source.bytes - searchedBytes);
  const tail = Buffer.from(await source.read(start, source.bytes - start));
  const firstOffset = Buffer.alloc(8);
  firstOffset.writeBigUInt64LE(BigInt(packHeaderBytes));
  let hits = 0;
  for (
    let hit = tail.lastIndexOf(firstOffset);
    hit >= 40 && hits < maxSearchHits;
    hit = tail.lastIndexOf(firstOffset, hit - 1), hits++
  ) {
    const offset = start + hit - 40;
    if (offset < packHeaderBytes) return undefined;
    for (const end of indexEnds(tail, hit - 40, { source, offset })) {
      const exact = exactIndex(source, { offset, bytes: tail.subarray(hit - 40, end) });
      if (exact !== undefined) return exact;
    }
  }
  return undefined;
}

/** Finds the ends of entries that begin at `start`, if they reach the trailer's place. */
function indexEnds(
  tail: Uint8Array,
  start: number,
  { source, offset }: { readonly source: PackBytes; readonly offset: number },
): readonly number[] {
  const latest = tail.length;
  const ends: number[] = [];
  for (const format of formats) {
    let at = start;
    try {
      while (at + entryFixedBytes <= latest) {
        const entry = decodeEntry(tail, at, {
          pack: source.name,
          format,
          objectsStart: packHeaderBytes,
          objectsEnd: offset,
        });
        at += indexEntryBytes(entry, format);
      }
    } catch (error) {
      if (!isStemmaError(error)) throw error;
    }
    // A trailer that was cut off, or that cannot be decoded as an entry, follows.
    if (at > start && at <= latest && latest - at <= packTrailerBytes) ends.push(at);
  }
  return ends;
}

interface ScannedEntries {
  /** Entries whose bytes have their id, and coded ones, which are compared when they are decoded. */
  readonly entries: readonly PackEntry[];
  /** Ranges of the index that may be damaged, the likeliest first. */
  readonly suspects: readonly { readonly from: number; readonly to: number }[];
}

/** Decodes what can be decoded. After a damaged entry, the next one is found by its bytes. */
async function scanEntries(source: PackBytes, { offset, bytes }: IndexBytes): Promise<ScannedEntries> {
  let best: ScannedEntries = { entries: [], suspects: [{ from: 0, to: bytes.length }] };
  for (const format of formats) {
    const scanned = await scanIn(source, { offset, bytes }, format);
    if (scanned.entries.length > best.entries.length) best = scanned;
  }
  return best;
}

/**
 * The largest number of bytes of an entry: fixed fields, 32 dimensions, eight references, seven plane checks,
 * a low part.
 */
const maxEntryBytes = 64 + 8 + 8 * 32 + 8 * 32 + 56 + 64;

async function scanIn(
  source: PackBytes,
  { offset, bytes }: IndexBytes,
  format: PackFormat,
): Promise<ScannedEntries> {
  const origin = { pack: source.name, format, objectsStart: packHeaderBytes, objectsEnd: offset };
  const entries: PackEntry[] = [];
  const damaged: { from: number; to: number }[] = [];
  const unverified: { from: number; to: number }[] = [];
  let isAligned = true;
  for (let at = 0; at + entryFixedBytes <= bytes.length;) {
    const entry = decoded(() => decodeEntry(bytes, at, origin));
    const isIntact = entry !== undefined && (await hasItsId(source, entry));
    // Out of step, a coded entry could be any bytes: only one whose bytes have its id is believed.
    if (entry === undefined || isIntact === false || (!isAligned && isIntact === undefined)) {
      if (isAligned) damaged.push({ from: at, to: Math.min(bytes.length, at + maxEntryBytes) });
      isAligned = false;
      at++;
      continue;
    }
    const end = at + indexEntryBytes(entry, format);
    if (isIntact === undefined) unverified.push({ from: at, to: end });
    entries.push(entry);
    isAligned = true;
    at = end;
  }
  return { entries, suspects: [...damaged, ...unverified, { from: 0, to: bytes.length }] };
}

function decoded(decode: () => PackEntry): PackEntry | undefined {
  // Most of thousands of attempts fail. Nobody sees their stacks, which take most of the time.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return decode();
  } catch (error) {
    if (isStemmaError(error)) return undefined;
    throw error;
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** True if an object's bytes have its id; undefined for coded ones, which cannot be compared alone. */
async function hasItsId(source: PackBytes, entry: PackEntry): Promise<boolean | undefined> {
  if (entry.encodingCode !== rawEncodingCode) return undefined;
  if ((entry.kind === "tensor") !== (entry.header !== undefined)) return false;
  const hasher = entry.header === undefined ? objectHasher(entry.kind) : tensorHasher(entry.header);
  for (let done = 0; done < entry.storedBytes; done += pieceBytes)
    hasher.update(await source.read(entry.offset + done, Math.min(pieceBytes, entry.storedBytes - done)));
  return hasher.digest() === entry.id;
}

/** The index after one bit was flipped back, where that gives the hash in the pack's name. */
function flippedBack(
  source: PackBytes,
  { offset, bytes }: IndexBytes,
  suspects: ScannedEntries["suspects"],
): RebuiltIndex | undefined {
  const wantedHex = indexHashOf(source);
  const wanted = Buffer.from(wantedHex, "hex");
  const copy = bytes.slice();
  // Hashing a short index whole takes less time than copying the state of a hash.
  const isWanted = (before: NodeHash, at: number): boolean =>
    copy.length <= maxOneShotBytes
      ? sha256OfSmall(copy) === wantedHex
      : before.copy().update(copy.subarray(at)).digest().equals(wanted);
  let hashedBytes = 0;
  const isTried = new Uint8Array(bytes.length);
  for (const { from, to } of suspects) {
    let before: NodeHash = createHash("sha256").update(copy.subarray(0, from));
    for (let at = from; at < to; at++) {
      if (isTried[at] === 0) {
        isTried[at] = 1;
        for (let bit = 0; bit < 8; bit++) {
          copy[at] = (copy[at] as number) ^ (1 << bit);
          if (isWanted(before, at)) return exactIndex(source, { offset, bytes: copy });
          copy[at] = (copy[at] as number) ^ (1 << bit);
        }
        hashedBytes += 8 * (bytes.length - at);
        if (hashedBytes > maxRepairBytes) return undefined;
      }
      before = before.update(copy.subarray(at, at + 1));
    }
  }
  return undefined;
}
