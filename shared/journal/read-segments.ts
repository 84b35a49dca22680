/**
 * Reads the entries of an opened journal again from its segments. Opening has verified them all
 * (load-segments.ts), so an entry that cannot be read now was damaged since.
 */
import { join } from "node:path";
import { writeDurably } from "../files/durable-write.js";
import { makeFolderDurably } from "../files/make-folder.js";
import type { Files } from "../ports.js";
import { frameAt, frameHeaderBytes, maxEntryBytes, segmentHeaderBytes, type Frame } from "./frame.js";
import { entryDamagedNow } from "./journal-errors.js";
import { nextChain, readSegment, segmentName, type Segment } from "./load-segments.js";

/** One entry as it is stored. */
export interface StoredEntry {
  readonly position: number;
  readonly payload: Uint8Array;
  /** The chain hash after this entry. */
  readonly chain: Uint8Array;
}

/** The entries from position `from` up to `to`, which is not included. @throws JOURNAL_CORRUPT */
export async function* readEntries(
  files: Files,
  segments: readonly Segment[],
  { from, to }: { readonly from: number; readonly to: number },
): AsyncIterable<StoredEntry> {
  // Copied, because a segment may be added while the entries are read.
  for (const [index, segment] of [...segments].entries()) {
    const next = segments[index + 1];
    if (segment.first >= to || (next !== undefined && next.first <= from)) continue;
    const bytes = await readSegment(files, segment.path);
    let chain: Uint8Array = bytes.slice(24, 56);
    let offset = segmentHeaderBytes;
    for (let position = segment.first; position < Math.min(to, next?.first ?? to); position++) {
      const frame = requireFrame(bytes, offset, { segment, position });
      chain = nextChain(chain, frame.payload);
      if (position >= from) yield { position, payload: frame.payload, chain };
      offset = frame.end;
    }
  }
}

/**
 * The bytes of one entry, read alone. `offset`: where its frame begins in its segment. @throws JOURNAL_CORRUPT
 */
export async function readEntryAt(
  files: Files,
  segments: readonly Segment[],
  { position, offset }: { readonly position: number; readonly offset: number },
): Promise<Uint8Array> {
  const segment = segments.findLast(({ first }) => first <= position) as Segment;
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
