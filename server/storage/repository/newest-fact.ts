/**
 * Finds the newest time of the facts at the end of a fleet's journal, without opening the fleet, which may take long.
 * Verifies nothing.
 */
import { frameAt, segmentHeaderBytes } from "../../../shared/journal/frame.js";
import { listSegments, readSegment } from "../../../shared/journal/load-segments.js";
import type { Files } from "../../../shared/ports.js";
import { journalFolderOf } from "./lost-journal.js";
import { factCodec } from "./state/fact-codec.js";

/**
 * Milliseconds since 1970 of the newest fact in the journal's last file that has any, which holds some 40,000 facts; 0:
 * there is no fact. @throws FACT_INVALID, JOURNAL_CORRUPT, FILE_FAILED
 */
export async function newestFactMs(files: Files, fleetFolder: string): Promise<number> {
  const folder = journalFolderOf(fleetFolder);
  if ((await files.stat(folder)) === undefined) return 0;
  for (const { path } of (await listSegments(files, folder)).toReversed()) {
    const bytes = await readSegment(files, path);
    let newestMs = 0;
    let frame = frameAt(bytes, segmentHeaderBytes);
    for (; frame !== undefined; frame = frameAt(bytes, frame.end))
      newestMs = Math.max(newestMs, factCodec.decode(frame.payload).atMs);
    if (newestMs > 0) return newestMs;
  }
  return 0;
}
