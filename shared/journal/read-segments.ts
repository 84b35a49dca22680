/**
 * Reads the entries of an opened journal again from its segments. They have been verified (load-segments.ts), so an
 * entry that cannot be read now was damaged since.
 */
import { dirname, join } from "node:path";
import { writeDurably } from "../files/durable-write.js";
import { makeFolderDurably } from "../files/make-folder.js";
import type { Files } from "../ports.js";
import { hashBytes, hexOf } from "../tensor/hash.js";
import { nextChain } from "./chain.js";
import {
  decodeSegmentHeader,
  frameAt,
  frameHeaderBytes,
  maxEntryBytes,
  segmentHeaderBytes,
  type Frame,
} from "./frame.js";
import { endMissing, entryDamagedNow } from "./journal-errors.js";
import type { EntryPlace } from "./journal-blocks.js";
import type { JournalIndex, Segment } from "./journal-index.js";
import { readSegment, requireNext, segmentName } from "./load-segments.js";

/** One entry as it is stored. */
export interface StoredEntry {
  readonly position: number;
  readonly payload: Uint8Array;
  /** The chain hash after this entry. */
  readonly chain: Uint8Array;
}

/**
 * The entries from position `from` up to `to`, which is not included. The chain is followed from the block's start, and
 * compared where it is known. @throws JOURNAL_CORRUPT
 */
export async function* readEntries(
  files: Files,
  segments: readonly Segment[],
  index: Pick<JournalIndex, "borderBefore" | "chainAt">,
  { from, to }: { readonly from: number; readonly to: number },
): AsyncIterable<StoredEntry> {
  if (from >= to) return;
  const border = index.borderBefore(from);
  let { position } = border;
  let chain = hashBytes(border.chain);
  // Copied, because a segment may be added while the entries are read.
  for (const segment of segments.filter(({ first }) => first >= border.segment)) {
    const isBegun = segment.first === border.segment && border.position > 0;
    const bytes = await readSegment(files, segment.path, isBegun ? border.offset : 0);
    if (!isBegun)
      requireNext(decodeSegmentHeader(bytes, segment.path), segment, { position, chain: hexOf(chain) });
    for (let at = isBegun ? 0 : segmentHeaderBytes; at < bytes.length && position < to; position++) {
      const frame = requireFrame(bytes, at, { segment, position });
      chain = nextChain(chain, frame.payload);
      const known = index.chainAt(position + 1);
      if (known !== undefined && known !== hexOf(chain)) throw entryDamagedNow(segment.path, position);
      if (position >= from) yield { position, payload: frame.payload, chain };
      at = frame.end;
    }
    if (position === to) return;
  }
  throw endMissing(dirname(segments[0]?.path ?? ""), position, to);
}

/** The bytes of one entry, read alone. @param place where its frame begins @throws JOURNAL_CORRUPT */
export async function readEntryAt(
  files: Files,
  segments: readonly Segment[],
  position: number,
  place: EntryPlace,
): Promise<Uint8Array> {
  const { offset } = place;
  const segment = segments.findLast(({ first }) => first <= place.segment) as Segment;
  const file = await files.open(segment.path, "read");
  try {
    const header = new Uint8Array(frameHeaderBytes);
    await file.read(header, offset);
    const payloadBytes = Math.min(new DataView(header.buffer).getUint32(4, true), maxEntryBytes);
    const frame = new Uint8Array(frameHeaderBytes + payloadBytes);
    await file.read(frame, offset);
    return requireFrame(frame, 0, { segment, position }).payload;
  } finally {
    await file.close();
  }
}

/**
 * Copies the first `length` entries into an empty folder, durably. Returns the bytes that were written.
 * @throws JOURNAL_CORRUPT
 */
export async function copySegments(
  files: Files,
  segments: readonly Segment[],
  folder: string,
  length: number,
): Promise<{ readonly bytes: number }> {
  await makeFolderDurably(files, folder);
  let copiedBytes = 0;
  for (const [index, segment] of [...segments].entries()) {
    if (segment.first >= length && index > 0) break;
    const bytes = await readSegment(files, segment.path);
    const end = Math.min(length, segments[index + 1]?.first ?? length);
    let offset = segmentHeaderBytes;
    for (let position = segment.first; position < end; position++)
      offset = requireFrame(bytes, offset, { segment, position }).end;
    await writeDurably(files, join(folder, segmentName(segment.first)), bytes.subarray(0, offset));
    copiedBytes += offset;
  }
  return { bytes: copiedBytes };
}

function requireFrame(
  bytes: Uint8Array,
  offset: number,
  { segment: { path }, position }: { readonly segment: Segment; readonly position: number },
): Frame {
  const frame = frameAt(bytes, offset);
  if (frame === undefined) throw entryDamagedNow(path, position);
  return frame;
}
