/**
 * Reads a damaged journal as far as anything in it can be read. Pure reading; what becomes of it is decided by
 * the caller.
 *
 * Entries are chained, so those before the first damage verify as they do on opening. A single flipped bit is
 * put right: the entry's CRC-32 finds it, and the chain and the head confirm it. Entries after damage that
 * cannot be put right are complete by their own CRC-32, but their place in the chain cannot be verified.
 */
import { crc32 } from "node:zlib";
import { isStemmaError } from "../errors.js";
import type { Files } from "../ports.js";
import { hashBytes, hexOf } from "../tensor/hash.js";
import {
  decodeSegmentHeader,
  frameAt,
  frameHeaderBytes,
  nextFrameOffset,
  segmentHeaderBytes,
  type Frame,
} from "./frame.js";
import type { KeptHead } from "./head.js";
import { firstChain, nextChain } from "./chain.js";
import { listSegments, readSegment } from "./load-segments.js";

export interface SalvagedEntries {
  /** Entries from position 0 on, whose chain verifies. */
  readonly verified: readonly Uint8Array[];
  /** Positions of entries in which a flipped bit was put right. */
  readonly repaired: readonly number[];
  /** Intact entries after the first damage that could not be put right. */
  readonly later: readonly Uint8Array[];
  /** Number of places where something that was written cannot be read, or is missing. */
  readonly gaps: number;
  /** True if chain and length agree with the head; undefined without a readable head. */
  readonly agreesWithHead: boolean | undefined;
}

/** Longest payload in which a flipped bit is looked for: below a second. */
const maxRepairedBytes = 8 * 1024;

/**
 * @param head the newest readable head, whose signature was verified by the caller
 * @throws JOURNAL_FORMAT_UNKNOWN for a segment of a newer format
 */
export async function readDamagedJournal(
  files: Files,
  folder: string,
  head: KeptHead | undefined,
): Promise<SalvagedEntries> {
  const reader = new DamagedReader(head);
  for (const { first, path } of await listSegments(files, folder))
    reader.segment(await readSegment(files, path), first, path);
  return reader.result();
}

class DamagedReader {
  readonly #head: KeptHead | undefined;
  readonly #verified: Uint8Array[] = [];
  readonly #repaired: number[] = [];
  readonly #later: Uint8Array[] = [];
  #chain = hashBytes(firstChain);
  #gaps = 0;
  #headChain: string | undefined;

  constructor(head: KeptHead | undefined) {
    this.#head = head;
    this.#noteHead();
  }

  segment(bytes: Uint8Array, first: number, path: string): void {
    const continues = this.#continues(bytes, first, path);
    if (this.#gaps === 0 && !continues) this.#gaps++;
    for (let at = segmentHeaderBytes; at < bytes.length;) {
      const frame = frameAt(bytes, at) ?? this.#repairedFrame(bytes, at);
      if (frame === undefined) {
        const next = nextFrameOffset(bytes, at + 1);
        // Nothing can be read any more: a torn tail that was never acknowledged, or an end that was lost. The
        // head, or another segment, tells them apart.
        if (next === undefined) return;
        this.#gaps++;
        at = next;
        continue;
      }
      this.#take(frame.payload);
      at = frame.end;
    }
  }

  /**
   * True if a segment begins where the entries so far end. A damaged header is known from its place.
   * @throws JOURNAL_FORMAT_UNKNOWN where the segment has no entry that this program can read
   */
  #continues(bytes: Uint8Array, first: number, path: string): boolean {
    if (first !== this.#verified.length) return false;
    try {
      const header = decodeSegmentHeader(bytes, path);
      return header.first === first && header.chain === hexOf(this.#chain);
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      const isForeign = isStemmaError(error, "JOURNAL_FORMAT_UNKNOWN");
      if (isForeign && nextFrameOffset(bytes, segmentHeaderBytes) === undefined) throw error;
      return bytes.length >= segmentHeaderBytes;
    }
  }

  #take(payload: Uint8Array): void {
    if (this.#gaps > 0) {
      this.#later.push(payload.slice());
      return;
    }
    this.#chain = nextChain(this.#chain, payload);
    this.#verified.push(payload.slice());
    this.#noteHead();
  }

  #noteHead(): void {
    if (this.#head?.length === this.#verified.length) this.#headChain = hexOf(this.#chain);
  }

  #repairedFrame(bytes: Uint8Array, at: number): Frame | undefined {
    const frame = flippedBack(bytes, at);
    if (frame !== undefined) this.#repaired.push(this.#verified.length + this.#later.length);
    return frame;
  }

  result(): SalvagedEntries {
    const missing = (this.#head?.length ?? 0) > this.#verified.length && this.#gaps === 0;
    return {
      verified: this.#verified,
      repaired: this.#repaired,
      later: this.#later,
      gaps: this.#gaps + (missing ? 1 : 0),
      agreesWithHead:
        this.#head === undefined || this.#headChain === undefined
          ? undefined
          : this.#headChain === this.#head.chain,
    };
  }
}

/** The frame at `at` after one bit of it was flipped back, where its CRC-32 is right then. */
function flippedBack(bytes: Uint8Array, at: number): Frame | undefined {
  if (at + frameHeaderBytes > bytes.length) return undefined;
  const window = bytes.slice(at, at + frameHeaderBytes + maxRepairedBytes);
  for (let bit = 0; bit < 8 * frameHeaderBytes; bit++) {
    flip(window, bit);
    const frame = frameAt(window, 0);
    if (frame !== undefined) return { ...frame, end: at + frame.end };
    flip(window, bit);
  }
  const view = new DataView(window.buffer);
  const end = frameHeaderBytes + view.getUint32(4, true);
  if (end > window.length) return undefined;
  for (let bit = 8 * frameHeaderBytes; bit < 8 * end; bit++) {
    flip(window, bit);
    const frame =
      view.getUint32(8, true) === crc32(window.subarray(12, end)) ? frameAt(window, 0) : undefined;
    if (frame !== undefined) return { ...frame, end: at + frame.end };
    flip(window, bit);
  }
  return undefined;
}

function flip(bytes: Uint8Array, bit: number): void {
  bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
}
