/**
 * Reads a journal's segments, verifies chain hashes, and decides whether a damaged end is torn (never acknowledged) or
 * corrupt.
 */
import { join } from "node:path";
import { StemmaError } from "../errors.js";
import type { Files } from "../ports.js";
import { hashBytes, hexOf } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { nextChain } from "./chain.js";
import {
  decodeSegmentHeader,
  frameAt,
  laterGroupExists,
  maxSegmentFileBytes,
  segmentHeaderBytes,
  type Frame,
  type SegmentHeader,
} from "./frame.js";
import type { KeptHead } from "./head.js";
import { BlockEnds } from "./journal-blocks.js";
import { endMissing, entryCorrupt, historyChanged, segmentCorrupt } from "./journal-errors.js";
import { JournalIndex, type Segment } from "./journal-index.js";

const segmentPattern = /^(\d{16})\.log$/;
export function segmentName(first: number): string {
  return `${String(first).padStart(16, "0")}.log`;
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
  /** The journal's segments; new ones are pushed here. */
  readonly segments: Segment[];
  readonly length: number;
  readonly chain: Hash;
  readonly index: JournalIndex;
  /** The end of the last complete append in the last segment. */
  readonly lastSegmentBytes: number;
  /** Bytes of the segments before it. */
  readonly earlierBytes: number;
  /** The bytes after the last complete append, which were never acknowledged. */
  readonly torn: Uint8Array;
  /** Blocks of which the end was known, and no entry was read. */
  readonly knownBlocks: number;
}

/** @param from the offset of the first byte that is read */
export async function readSegment(files: Files, path: string, from = 0): Promise<Uint8Array> {
  const size = (await files.stat(path))?.size ?? 0;
  if (size > maxSegmentFileBytes)
    throw segmentCorrupt(path, `has ${size} bytes, more than is ever written`, { size });
  if (from === 0) return files.read(path);
  const file = await files.open(path, "read");
  try {
    const bytes = new Uint8Array(Math.max(0, size - from));
    return bytes.subarray(0, await file.read(bytes, from));
  } finally {
    await file.close();
  }
}

/** The bytes of a segment from an offset on. */
interface SegmentPart extends Segment {
  readonly from: number;
  readonly bytes: Uint8Array;
  readonly isLast: boolean;
}

/** Reads the entries of all segments in order; its state is that after the last complete append. */
class Loader {
  #length: number;
  #chain: Uint8Array;
  /** Entries of the current append that must still follow. */
  #following: number;
  #earlierBytes: number;
  /** True if the entries reached the length that the head states, and chain and root agreed with it. */
  #hasReachedHead = false;

  constructor(
    private readonly folder: string,
    private readonly head: KeptHead | undefined,
    readonly index: JournalIndex,
  ) {
    const { position, chain, following, earlierBytes } = index.borderBefore(index.length);
    this.#length = position;
    this.#chain = hashBytes(chain);
    this.#following = following;
    this.#earlierBytes = earlierBytes;
    this.#checkHead();
  }

  get length(): number {
    return this.#length;
  }
  get chain(): Hash {
    return hexOf(this.#chain);
  }
  /** Bytes of the segments before the newest. */
  get earlierBytes(): number {
    return this.#earlierBytes;
  }
  /** @throws JOURNAL_CORRUPT where the head counts more entries */
  requireHead(): void {
    if (this.head !== undefined && !this.#hasReachedHead)
      throw endMissing(this.folder, this.#length, this.head.length);
  }

  #checkHead(): void {
    if (this.head?.length !== this.#length) return;
    if (this.chain !== this.head.chain || this.index.root() !== this.head.root)
      throw historyChanged(this.folder, this.#length);
    this.#hasReachedHead = true;
  }

  /** Adds a part; returns where in its segment the last complete append ends. */
  add(part: SegmentPart): number {
    const { from, bytes, isLast } = part;
    let at = 0;
    let end = 0;
    // An append counts with its last entry.
    let append: FoundFrame[] = [];
    while (at < bytes.length) {
      const frame = frameAt(bytes, at);
      if (frame === undefined) break;
      this.#checkFrame(frame, this.#length + append.length, part.path);
      append.push({ frame, offset: from + at });
      at = frame.end;
      this.#following = frame.following;
      if (frame.following > 0) continue;
      this.#addAppend(append, part);
      append = [];
      end = at;
    }
    if (end !== bytes.length)
      this.#requireTornTail(bytes, at, { ...part, position: this.#length + append.length });
    if (!isLast) this.#earlierBytes += from + bytes.length;
    return from + end;
  }

  #addAppend(append: readonly FoundFrame[], { first: segment, from }: SegmentPart): void {
    for (const { frame, offset } of append) {
      const { payload, following } = frame;
      this.#chain = nextChain(this.#chain, payload);
      const [end, earlierBytes] = [from + frame.end, this.#earlierBytes];
      this.index.append({ payload, segment, offset, end, chain: this.chain, following, earlierBytes });
    }
    this.#length += append.length;
    this.#checkHead();
  }

  #checkFrame(frame: Frame, position: number, path: string): void {
    if (frame.groupFirst > position) throw entryCorrupt(path, position, "an entry is missing before it");
    if (this.#following > 0 && frame.following !== this.#following - 1)
      throw entryCorrupt(path, position, "the entries appended together are not all there");
  }

  /**
   * Checks the bytes after the last complete append, which cannot be read as entries. @throws JOURNAL_CORRUPT
   * unless they are a torn tail that was never acknowledged
   */
  #requireTornTail(
    bytes: Uint8Array,
    at: number,
    { path, isLast, position }: SegmentPart & { readonly position: number },
  ): void {
    if (!isLast) throw entryCorrupt(path, position, "another segment follows, so it had been complete");
    if (this.head !== undefined && this.head.length > this.#length)
      throw entryCorrupt(
        path,
        position,
        `${this.head.length} entries were durable according to the journal's head`,
      );
    if (laterGroupExists(bytes, at, position))
      throw entryCorrupt(path, position, "later entries are intact, so it had been durable");
  }
}

interface FoundFrame {
  readonly frame: Frame;
  /** The place of its first byte in the segment. */
  readonly offset: number;
}

/** A block has 256 entries: proofs read at most two, and memory has 96 bytes for each. */
export const defaultBlockLevel = 8;

/**
 * Loads a journal and verifies everything, one segment at a time.
 * @throws JOURNAL_CORRUPT, JOURNAL_FORMAT_UNKNOWN
 */
export async function loadSegments(
  files: Files,
  folder: string,
  head: KeptHead | undefined,
  level = defaultBlockLevel,
): Promise<LoadedJournal> {
  const segments = await listSegments(files, folder);
  const index = new JournalIndex(new BlockEnds(level), segments, files.openNow);
  return await load(files, segments, new Loader(folder, head, index));
}

/**
 * Loads a journal of which the ends of blocks are known: verifies the entries behind the last block that the head
 * covers, and that blocks and entries lead to the head. Where they do not, it verifies everything.
 * @throws JOURNAL_CORRUPT, JOURNAL_FORMAT_UNKNOWN
 */
export async function loadBehind(
  ends: BlockEnds,
  files: Files,
  folder: string,
  head: KeptHead | undefined,
): Promise<LoadedJournal> {
  const segments = await listSegments(files, folder);
  const known = ends.first(Math.min(ends.count, Math.floor((head?.length ?? 0) / ends.size)));
  if (files.openNow !== undefined && known.count > 0 && (await hasSegments(files, segments, known))) {
    const index = new JournalIndex(known, segments, files.openNow);
    try {
      return await load(files, segments, new Loader(folder, head, index));
    } catch (error) {
      // All entries tell what is wrong: with them, or with the blocks only.
      if (!(error instanceof StemmaError)) throw error;
    }
  }
  return await loadSegments(files, folder, head, ends.level);
}

/** True if the segments before the end of the last block are there, with their bytes. */
async function hasSegments(files: Files, segments: readonly Segment[], ends: BlockEnds): Promise<boolean> {
  const { segment, offset, earlierBytes } = ends.end(ends.count - 1);
  let bytes = 0;
  for (const { first, path } of segments) {
    if (first > segment) break;
    const size = (await files.stat(path))?.size ?? 0;
    if (first === segment) return bytes === earlierBytes && size >= offset;
    bytes += size;
  }
  return false;
}

async function load(files: Files, segments: Segment[], loader: Loader): Promise<LoadedJournal> {
  const { index } = loader;
  const knownBlocks = index.ends.count;
  const border = index.borderBefore(index.length);
  let lastSegmentBytes = 0;
  let torn = new Uint8Array(0);
  for (const [i, segment] of segments.entries()) {
    if (segment.first < border.segment) continue;
    const isBegun = border.position > 0 && segment.first === border.segment;
    const part = isBegun
      ? { from: border.offset, bytes: await readSegment(files, segment.path, border.offset) }
      : await nextSegment(files, segment, loader);
    lastSegmentBytes = loader.add({ ...segment, ...part, isLast: i === segments.length - 1 });
    torn = new Uint8Array(part.bytes.subarray(lastSegmentBytes - part.from));
  }
  loader.requireHead();
  const { length, chain, earlierBytes } = loader;
  return { segments, length, chain, index, lastSegmentBytes, earlierBytes, torn, knownBlocks };
}

/** Reads a segment that continues the one before it. */
async function nextSegment(
  files: Files,
  { first, path }: Segment,
  { length, chain }: Loader,
): Promise<Pick<SegmentPart, "from" | "bytes">> {
  const bytes = await readSegment(files, path);
  requireNext(decodeSegmentHeader(bytes, path), { first, path }, { position: length, chain });
  return { from: segmentHeaderBytes, bytes: bytes.subarray(segmentHeaderBytes) };
}

/** Checks that a segment continues the one before it. @throws JOURNAL_CORRUPT */
export function requireNext(
  header: SegmentHeader,
  { first, path }: Segment,
  before: { readonly position: number; readonly chain: Hash },
): void {
  if (first === header.first && first === before.position && header.chain === before.chain) return;
  throw segmentCorrupt(
    path,
    `does not continue the one before (entry ${before.position}): a segment is missing or was replaced`,
    { expected: before.position, actual: header.first },
  );
}
