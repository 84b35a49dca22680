/**
 * Opens the journal on files: checks the head's signature, verifies what leads to it, and cuts off a torn tail.
 * file-journal.ts is the opened journal.
 */
import { join } from "node:path";
import { writeDurably } from "../files/durable-write.js";
import { makeFolderDurably } from "../files/make-folder.js";
import type { Files, OpenFile } from "../ports.js";
import type { Fact } from "./fact.js";
import { OpenedJournal, type FileJournal } from "./file-journal.js";
import { encodeSegmentHeader, segmentHeaderBytes } from "./frame.js";
import { headSlotBytes, newestHead, type KeptHead } from "./head.js";
import { headMessage } from "./head-message.js";
import { headOfAnotherKey } from "./journal-errors.js";
import type { FactCodec, HeadSigner } from "./journal.js";
import { SegmentGuard } from "./segment-guard.js";
import { BlocksFile } from "./blocks-file.js";
import type { Segment } from "./journal-index.js";
import { defaultBlockLevel, loadBehind, segmentName, type LoadedJournal } from "./load-segments.js";

export interface JournalOptions<F> {
  readonly signer?: HeadSigner | undefined;
  /** JSON text when absent. */
  readonly codec?: FactCodec<F> | undefined;
  /** A new segment file is started once the last one has this many bytes. Default 16 MiB. */
  readonly segmentBytes?: number | undefined;
  /** A block has 2^level entries. Default 8. */
  readonly blockLevel?: number | undefined;
}

export const headName = "head";
const blocksName = "blocks";
const defaultSegmentBytes = 16 * 1024 * 1024;

async function readHead(
  files: Files,
  path: string,
  signer: HeadSigner | undefined,
): Promise<KeptHead | undefined> {
  const kept =
    (await files.stat(path)) === undefined
      ? undefined
      : newestHead((await files.read(path)).subarray(0, 2 * headSlotBytes));
  if (kept === undefined || signer?.verify === undefined) return kept;
  if (signer.verify(headMessage(kept), kept.signature, kept.publicKey)) return kept;
  throw headOfAnotherKey(path);
}

/** Makes the first segment of a journal that has none. */
async function loadedOrBegun(files: Files, folder: string, loaded: LoadedJournal): Promise<LoadedJournal> {
  if (loaded.segments.length > 0) return loaded;
  const path = join(folder, segmentName(0));
  await writeDurably(files, path, encodeSegmentHeader({ first: 0, chain: loaded.chain }));
  loaded.segments.push({ first: 0, path });
  return { ...loaded, lastSegmentBytes: segmentHeaderBytes };
}

function lastOf({ segments }: LoadedJournal): Segment {
  return segments[segments.length - 1] as Segment;
}

/**
 * Makes the disk agree with what was loaded: cuts off the torn tail (copied to a file where there is space),
 * and fsyncs the rest.
 */
async function settle(files: Files, folder: string, loaded: LoadedJournal): Promise<OpenFile> {
  const file = await files.open(lastOf(loaded).path, "update");
  try {
    if (loaded.torn.length > 0) {
      await writeDurably(files, join(folder, `torn-${loaded.length}`), loaded.torn).catch(() => undefined);
      await file.truncate(loaded.lastSegmentBytes);
    }
    // An earlier process may have died between its write and its fsync: what was read here must not disappear
    // later.
    await file.sync();
    await files.syncFolder(folder);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

/**
 * Opens the journal in `folder`, creating it when missing. The entries behind the last known block are read, and their
 * chain hashes checked; with the blocks they must lead to the head. A torn tail that was never acknowledged is cut off;
 * any other damage found is an error, and reading `entries` finds all there is. Only one process at a time may have it
 * open (see lockHome).
 * @throws JOURNAL_CORRUPT, JOURNAL_FORMAT_UNKNOWN, HEAD_SIGNATURE_INVALID, FILE_FAILED, DISK_FULL
 */
export async function openJournal<F = Fact>(
  files: Files,
  folder: string,
  options: JournalOptions<F> = {},
): Promise<FileJournal<F>> {
  await makeFolderDurably(files, folder);
  for (const name of await files.list(folder))
    if (name.endsWith(".tmp")) await files.remove(join(folder, name));
  const headPath = join(folder, headName);
  const hadHead = (await files.stat(headPath)) !== undefined;
  const head = await readHead(files, headPath, options.signer);
  const blocksFile = new BlocksFile(files, join(folder, blocksName));
  const ends = await blocksFile.read(options.blockLevel ?? defaultBlockLevel);
  const loaded = await loadedOrBegun(files, folder, await loadBehind(ends, files, folder, head));
  const file = await settle(files, folder, loaded);
  try {
    const guard = await SegmentGuard.of(files, lastOf(loaded).path);
    const headFile = await files.open(headPath, "append");
    // Durable before the first entry: a journal whose head file is missing lost it, and perhaps its end.
    if (!hadHead) {
      await headFile.sync();
      await files.syncFolder(folder);
    }
    blocksFile.found(loaded.knownBlocks);
    await blocksFile.write(loaded.index.ends);
    return new OpenedJournal({
      files,
      folder,
      codec: options.codec ?? jsonCodec<F>(),
      signer: options.signer,
      segmentBytes: options.segmentBytes ?? defaultSegmentBytes,
      loaded,
      file,
      guard,
      headFile,
      blocksFile,
    });
  } catch (error) {
    await file.close();
    throw error;
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true });
const encoder = new TextEncoder();

/** The journal's default codec: facts that are plain JSON (without undefined, NaN or Infinity) as text. */
function jsonCodec<F>(): FactCodec<F> {
  return {
    encode: (fact) => encoder.encode(JSON.stringify(fact)),
    decode: (bytes) => JSON.parse(decoder.decode(bytes)) as F,
  };
}
