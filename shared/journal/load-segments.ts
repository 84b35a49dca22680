/**
 * Reads a journal's segments, verifies every chain hash, and decides whether a damaged end is torn (never
 * acknowledged) or corrupt.
 */
import { join } from "node:path";
import type { Files } from "../ports.js";
import { Sha256, hashBytes, hexOf, zeroHash } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import {
  decodeSegmentHeader,
  frameAt,
  laterGroupExists,
  maxSegmentFileBytes,
  segmentHeaderBytes,
  type Frame,
} from "./frame.js";
import type { KeptHead } from "./head.js";
import { endMissing, entryCorrupt, historyChanged, segmentCorrupt } from "./journal-errors.js";
import { JournalIndex } from "./journal-index.js";

/** The chain hash before the first entry. */
export const firstChain = zeroHash;

/** chain = H(previous chain ‖ entry bytes). */
export function nextChain(previous: Uint8Array, payload: Uint8Array): Uint8Array {
  return new Sha256().update(previous).update(payload).digestBytes();
}

const segmentPattern = /^(\d{16})\.log$/;
export function segmentName(first: number): string {
  return `${String(first).padStart(16, "0")}.log`;
}

export interface Segment {
  readonly first: number;
  readonly path: string;
}

/** A journal's segments in order. */
export async function listSegments(files: Files, folder: string): Promise<Segment[]> {
  const names = await files.list(folder);
  return names.flatMap((name) => {
    const match = segmentPattern.exec(name);
    return match === null ? [] : [{ first: Number(match[1]), path: join(folder, name) }];
  });
}

export interface LoadedJournal {
  readonly segments: readonly Segment[];
  readonly length: number;
  readonly chain: Hash;
  readonly index: JournalIndex;
  /** The end of the last complete append in the last segment. */
  readonly lastSegmentBytes: number;
  /** The bytes after it in the last segment, which were never acknowledged. */
  readonly torn: Uint8Array;
}

export async function readSegment(files: Files, path: string): Promise<Uint8Array> {
  const size = (await files.stat(path))?.size ?? 0;
  if (size > maxSegmentFileBytes)
    throw segmentCorrupt(path, `has ${size} bytes, more than is ever written`, { size });
  return files.read(path);
}

/** Reads the entries of all segments in order; its state is that after the last complete append. */
class Loader {
  readonly #folder: string;
  readonly #head: KeptHead | undefined;
  #length = 0;
  #chain = hashBytes(firstChain);
  readonly index = new JournalIndex();
  /** True if the entries reached the length that the head states, and chain and root agreed with it. */
  #hasReachedHead = false;

  constructor(folder: string, head: KeptHead | undefined) {
    this.#folder = folder;
    this.#head = head;
    this.#checkHead(0, this.#chain);
  }

  get length(): number {
    return this.#length;
  }
  get chain(): Hash {
    return hexOf(this.#chain);
  }
  get hasReachedHead(): boolean {
    return this.#hasReachedHead;
  }

  #checkHead(length: number, chain: Uint8Array): void {
    if (this.#head === undefined || this.#head.length !== length) return;
    if (hexOf(chain) !== this.#head.chain || this.index.root() !== this.#head.root)
      throw historyChanged(this.#folder, length);
    this.#hasReachedHead = true;
  }

  /** Adds one segment; returns where its last complete append ends. */
  segment(bytes: Uint8Array, path: string, isLast: boolean): number {
    let end = segmentHeaderBytes;
    let at = end;
    let position = this.#length;
    let chain = this.#chain;
    // The number of entries of the current append must still follow.
    for (let following = 0; at < bytes.length;) {
      const frame = frameAt(bytes, at);
      if (frame === undefined) break;
      this.#checkFrame(frame, position, following, path);
      chain = nextChain(chain, frame.payload);
      this.index.append(frame.payload, at);
      position++;
      this.#checkHead(position, chain);
      at = frame.end;
      following = frame.following;
      if (following === 0) {
        end = at;
        this.#length = position;
        this.#chain = chain;
      }
    }
    this.index.truncate(this.#length);
    if (end !== bytes.length) this.#requireTornTail(bytes, at, { path, position, isLast });
    return end;
  }

  #checkFrame(frame: Frame, position: number, following: number, path: string): void {
    if (frame.groupFirst > position) throw entryCorrupt(path, position, "an entry is missing before it");
    if (following > 0 && frame.following !== following - 1)
      throw entryCorrupt(path, position, "the entries appended together are not all there");
  }

  /**
   * Checks the bytes after the last complete append, which cannot be read as entries. @throws JOURNAL_CORRUPT
   * unless they are a torn tail that was never acknowledged
   */
  #requireTornTail(
    bytes: Uint8Array,
    at: number,
    {
      path,
      position,
      isLast,
    }: { readonly path: string; readonly position: number; readonly isLast: boolean },
  ): void {
    if (!isLast) throw entryCorrupt(path, position, "another segment follows, so it had been complete");
    if (this.#head !== undefined && this.#head.length > this.#length)
      throw entryCorrupt(
        path,
        position,
        `${this.#head.length} entries were durable according to the journal's head`,
      );
    if (laterGroupExists(bytes, at, position))
      throw entryCorrupt(path, position, "later entries are intact, so it had been durable");
  }
}

/**
 * Loads and verifies everything. Reads one segment at a time. @throws JOURNAL_CORRUPT, JOURNAL_FORMAT_UNKNOWN
 */
export async function loadSegments(
  files: Files,
  folder: string,
  head: KeptHead | undefined,
): Promise<LoadedJournal> {
  const segments = await listSegments(files, folder);
  const loader = new Loader(folder, head);
  let lastSegmentBytes = 0;
  let torn = new Uint8Array(0);
  for (const [i, { first, path }] of segments.entries()) {
    const bytes = await readSegment(files, path);
    const header = decodeSegmentHeader(bytes, path);
    if (first !== header.first || first !== loader.length || header.chain !== loader.chain)
      throw segmentCorrupt(
        path,
        `does not continue the one before (entry ${loader.length}): a segment is missing or was replaced`,
        { expected: loader.length, actual: header.first },
      );
    lastSegmentBytes = loader.segment(bytes, path, i === segments.length - 1);
    torn = new Uint8Array(bytes.subarray(lastSegmentBytes));
  }
  if (head !== undefined && !loader.hasReachedHead) throw endMissing(folder, loader.length, head.length);
  const { length, chain, index } = loader;
  return { segments, length, chain, index, lastSegmentBytes, torn };
}
