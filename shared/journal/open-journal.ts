/**
 * The journal on files: group commit, torn tails, signed heads. Does not know what the facts mean.
 *
 * A group is everything that was appended while the group before was being fsynced. It is written with one
 * call and fsynced once; then its appends resolve and the next group is written. So everything before a
 * group's first entry is durable when the group reaches the disk. That distinguishes a torn tail from damage
 * (frame.ts, load-segments.ts).
 */
import { join } from "node:path";
import { StemmaError, isStemmaError } from "../errors.js";
import { writeDurably } from "../files/durable-write.js";
import { makeFolderDurably } from "../files/make-folder.js";
import type { Files, OpenFile } from "../ports.js";
import { hashBytes, hexOf } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import type { Fact } from "./fact.js";
import {
  encodeFrames,
  encodeSegmentHeader,
  frameAt,
  maxEntryBytes,
  segmentHeaderBytes,
  type FrameToWrite,
} from "./frame.js";
import { encodeHeadSlot, headSlotBytes, newestHead, type KeptHead } from "./head.js";
import { jsonCodec } from "./json-codec.js";
import type {
  FactCodec,
  HeadSigner,
  Journal,
  JournalEntry,
  JournalHead,
  JournalOpening,
  SignedHead,
} from "./journal.js";
import {
  loadSegments,
  nextChain,
  readSegment,
  segmentName,
  type LoadedJournal,
  type Segment,
} from "./load-segments.js";
import { MerkleLog, inclusionProof, logLeaf } from "./merkle-log.js";
import { headMessage } from "./head-message.js";

export interface JournalOptions<F> {
  readonly signer?: HeadSigner | undefined;
  /** JSON text when absent. */
  readonly codec?: FactCodec<F> | undefined;
  /** A new segment file is started once the last one has this many bytes. */
  readonly segmentBytes?: number | undefined;
}

/** A journal on files, with the members that only its owner needs. */
export interface FileJournal<F = Fact> extends Journal<F> {
  readonly opening: JournalOpening;
  /**
   * The bytes of an entry, and the proof that they are in the log of the current head (merkle-log.ts verifies
   * it).
   * @throws FACT_INVALID for a position that does not exist
   */
  prove(
    position: number,
  ): Promise<{ readonly entry: Uint8Array; readonly proof: readonly Hash[]; readonly head: JournalHead }>;
  /**
   * Copies the first `length` entries into an empty folder, durably; the copy opens as a journal with the
   * same chain.
   */
  copyTo(folder: string, length: number): Promise<{ readonly bytes: number }>;
  /** Bytes of all segments. */
  byteLength(): Promise<number>;
}

interface Waiting {
  readonly payloads: readonly Uint8Array[];
  readonly bytes: number;
  readonly resolve: (positions: readonly number[]) => void;
  readonly reject: (error: unknown) => void;
}

const headName = "head";
const maxGroupBytes = 8 * 1024 * 1024;

interface OpenedParts<F> {
  readonly files: Files;
  readonly folder: string;
  readonly options: JournalOptions<F>;
  readonly loaded: LoadedJournal;
  /** The last segment. */
  readonly file: OpenFile;
  readonly headFile: OpenFile;
}

class OpenedJournal<F> implements FileJournal<F> {
  readonly opening: JournalOpening;
  readonly #files: Files;
  readonly #folder: string;
  readonly #codec: FactCodec<F>;
  readonly #signer: HeadSigner | undefined;
  readonly #segmentBytes: number;
  readonly #segments: Segment[];
  readonly #headFile: OpenFile;
  #file: OpenFile;
  #fileBytes: number;
  #length: number;
  #chain: Uint8Array;
  #log: MerkleLog;
  #queue: Waiting[] = [];
  #flushing: Promise<void> | undefined;
  #stopped: StemmaError | undefined;
  #headSlot = 0;
  #closed = false;

  constructor({ files, folder, options, loaded, file, headFile }: OpenedParts<F>) {
    this.#files = files;
    this.#folder = folder;
    this.#codec = options.codec ?? jsonCodec<F>();
    this.#signer = options.signer;
    this.#segmentBytes = options.segmentBytes ?? 16 * 1024 * 1024;
    this.#segments = [...loaded.segments];
    this.#file = file;
    this.#headFile = headFile;
    this.#fileBytes = loaded.lastSegmentBytes;
    this.#length = loaded.length;
    this.#chain = hashBytes(loaded.chain);
    this.#log = loaded.log;
    this.opening = { length: loaded.length, tornBytes: loaded.torn.length };
  }

  append(facts: readonly F[]): Promise<readonly number[]> {
    if (this.#stopped !== undefined || this.#closed) return Promise.reject(this.#refusal());
    if (facts.length === 0) return Promise.resolve([]);
    return new Promise((resolve, reject) => {
      const payloads = facts.map((fact) => this.#encode(fact));
      this.#queue.push({
        payloads,
        bytes: payloads.reduce((sum, { length }) => sum + length, 0),
        resolve,
        reject,
      });
      this.#flushing ??= this.#flush();
    });
  }

  #encode(fact: F): Uint8Array {
    let payload: Uint8Array;
    try {
      payload = this.#codec.encode(fact);
    } catch (error) {
      throw new StemmaError(
        "FACT_INVALID",
        "A fact could not be encoded; nothing was appended. See the cause.",
        { cause: error },
      );
    }
    if (payload.length === 0 || payload.length > maxEntryBytes)
      throw new StemmaError(
        "FACT_INVALID",
        `A fact takes ${payload.length} bytes; 1 to ${maxEntryBytes} are allowed. Put large data into the object store and store its hash.`,
        { bytes: payload.length },
      );
    return payload;
  }

  #refusal(): StemmaError {
    return new StemmaError(
      "JOURNAL_STOPPED",
      `The journal in ${this.#folder} accepts no more facts: ${this.#stopped?.message ?? "it was closed"} Restart to open and verify it again.`,
      { cause: this.#stopped },
    );
  }

  async #flush(): Promise<void> {
    // Appends made in the same turn of the event loop share the group.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const group: Waiting[] = [];
      let bytes = 0;
      while (
        this.#queue.length > 0 &&
        (group.length === 0 || bytes + (this.#queue[0] as Waiting).bytes <= maxGroupBytes)
      ) {
        const next = this.#queue.shift() as Waiting;
        bytes += next.bytes;
        group.push(next);
      }
      if (this.#stopped === undefined) await this.#commit(group);
      else for (const waiting of group) waiting.reject(this.#refusal());
    }
    // There was no await since the queue was found empty, so an append after this starts the next flush.
    this.#flushing = undefined;
  }

  /** Writes and fsyncs one group, then settles its appends. Never throws. */
  async #commit(group: readonly Waiting[]): Promise<void> {
    const first = this.#length;
    try {
      if (this.#fileBytes >= this.#segmentBytes) await this.#startSegment();
      const frames: FrameToWrite[] = group.flatMap(({ payloads }) =>
        payloads.map((payload, i) => ({ payload, following: payloads.length - 1 - i })),
      );
      const bytes = encodeFrames(frames, first);
      await this.#write(bytes);
      const log = this.#log.fork();
      let chain = this.#chain;
      for (const { payload } of frames) {
        chain = nextChain(chain, payload);
        log.append(logLeaf(payload));
      }
      this.#fileBytes += bytes.length;
      this.#length += frames.length;
      this.#chain = chain;
      this.#log = log;
    } catch (error) {
      for (const waiting of group) waiting.reject(this.#stopped === undefined ? error : this.#refusal());
      return;
    }
    let position = first;
    for (const { payloads, resolve } of group) resolve(payloads.map(() => position++));
    await this.#writeHead();
  }

  /**
   * Writes and fsyncs. A write that fails because the disk is full is undone, and the journal stays usable;
   * any other failure stops it.
   */
  async #write(bytes: Uint8Array): Promise<void> {
    try {
      await this.#file.write(bytes, this.#fileBytes);
    } catch (error) {
      if (!isStemmaError(error, "DISK_FULL")) {
        this.#stop(error);
        throw error;
      }
      try {
        await this.#file.truncate(this.#fileBytes);
        await this.#file.sync();
      } catch (failed) {
        this.#stop(failed);
      }
      throw error;
    }
    // After a failed fsync the kernel may have dropped the pages and marked them clean: what is on the disk
    // is unknown until it is read again.
    try {
      await this.#file.sync();
    } catch (error) {
      this.#stop(error);
      throw error;
    }
  }

  #stop(error: unknown): void {
    this.#stopped ??=
      error instanceof StemmaError
        ? error
        : new StemmaError("JOURNAL_STOPPED", "An unexpected error ended the journal.", { cause: error });
  }

  async #startSegment(): Promise<void> {
    const path = join(this.#folder, segmentName(this.#length));
    let file: OpenFile;
    try {
      await writeDurably(
        this.#files,
        path,
        encodeSegmentHeader({ first: this.#length, chain: hexOf(this.#chain) }),
      );
      file = await this.#files.open(path, "update");
    } catch (error) {
      // The old segment is complete. On a full disk only this group fails, and the next one tries again.
      if (!isStemmaError(error, "DISK_FULL")) this.#stop(error);
      throw error;
    }
    await this.#file.close().catch(() => undefined);
    this.#file = file;
    this.#fileBytes = segmentHeaderBytes;
    this.#segments.push({ first: this.#length, path });
  }

  /** Writes the head without fsync: a head may be older than the entries. A failure loses no entries. */
  async #writeHead(): Promise<void> {
    try {
      const { publicKey, signature } =
        this.#signer === undefined ? { publicKey: "", signature: "" } : this.signedHead();
      this.#headSlot = 1 - this.#headSlot;
      await this.#headFile.write(
        encodeHeadSlot({ ...this.head(), publicKey, signature }),
        this.#headSlot * headSlotBytes,
      );
    } catch {
      /* The next group writes it again. */
    }
  }

  async *#payloads(
    from: number,
    to: number,
  ): AsyncIterable<{ readonly position: number; readonly payload: Uint8Array; readonly chain: Uint8Array }> {
    for (const [i, segment] of [...this.#segments].entries()) {
      const next = this.#segments[i + 1];
      if (segment.first >= to || (next !== undefined && next.first <= from)) continue;
      const bytes = await readSegment(this.#files, segment.path);
      let chain: Uint8Array = bytes.slice(24, 56);
      let at = segmentHeaderBytes;
      for (let position = segment.first; position < Math.min(to, next?.first ?? to); position++) {
        const frame = frameAt(bytes, at);
        if (frame === undefined)
          throw new StemmaError(
            "JOURNAL_CORRUPT",
            `The journal segment ${segment.path} was intact when it was opened and is damaged now at entry ${position}. Check the disk and restore the journal from a backup.`,
            { path: segment.path, position },
          );
        chain = nextChain(chain, frame.payload);
        if (position >= from) yield { position, payload: frame.payload, chain };
        at = frame.end;
      }
    }
  }

  async *entries(from = 0): AsyncIterable<JournalEntry<F>> {
    for await (const { position, payload, chain } of this.#payloads(from, this.#length)) {
      let fact: F;
      try {
        fact = this.#codec.decode(payload);
      } catch (error) {
        throw new StemmaError(
          "FACT_INVALID",
          `Entry ${position} of the journal in ${this.#folder} is intact but not a fact that this Stemma can read. A newer Stemma may have written it; use that one.`,
          { cause: error, position },
        );
      }
      yield { position, fact, chain: hexOf(chain) };
    }
  }

  head(): JournalHead {
    return { length: this.#length, chain: hexOf(this.#chain), root: this.#log.root() };
  }

  signedHead(): SignedHead {
    if (this.#signer === undefined)
      throw new StemmaError(
        "KEY_INVALID",
        `The journal in ${this.#folder} was opened without a key, so its head cannot be signed.`,
      );
    const head = this.head();
    return { ...head, publicKey: this.#signer.publicKey, signature: this.#signer.sign(headMessage(head)) };
  }

  async prove(position: number): Promise<{ entry: Uint8Array; proof: readonly Hash[]; head: JournalHead }> {
    const head = this.head();
    if (!Number.isInteger(position) || position < 0 || position >= head.length)
      throw new StemmaError("FACT_INVALID", `The journal has no entry ${position}; it has ${head.length}.`, {
        position,
        length: head.length,
      });
    const leaves: Uint8Array[] = [];
    let entry = new Uint8Array(0);
    for await (const { position: at, payload } of this.#payloads(0, head.length)) {
      leaves.push(logLeaf(payload));
      if (at === position) entry = payload.slice();
    }
    return { entry, proof: inclusionProof(leaves, position), head };
  }

  async copyTo(folder: string, length: number): Promise<{ readonly bytes: number }> {
    await makeFolderDurably(this.#files, folder);
    if (length > this.#length)
      throw new StemmaError(
        "FACT_INVALID",
        `The journal has ${this.#length} entries; ${length} cannot be copied.`,
        { length },
      );
    let bytes = 0;
    for (const [i, segment] of [...this.#segments].entries()) {
      if (segment.first >= length && i > 0) break;
      const source = await readSegment(this.#files, segment.path);
      const end = Math.min(length, this.#segments[i + 1]?.first ?? length);
      let at = segmentHeaderBytes;
      for (let position = segment.first; position < end; position++) {
        const frame = frameAt(source, at);
        if (frame === undefined)
          throw new StemmaError(
            "JOURNAL_CORRUPT",
            `The journal segment ${segment.path} was intact when it was opened and is damaged now at entry ${position}. Check the disk.`,
            { path: segment.path, position },
          );
        at = frame.end;
      }
      await writeDurably(this.#files, join(folder, segmentName(segment.first)), source.subarray(0, at));
      bytes += at;
    }
    return { bytes };
  }

  async byteLength(): Promise<number> {
    let sum = 0;
    for (const { path } of this.#segments) sum += (await this.#files.stat(path))?.size ?? 0;
    return sum;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#flushing;
    if (this.#stopped === undefined) await this.#headFile.sync().catch(() => undefined);
    await this.#headFile.close();
    await this.#file.close();
  }
}

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
  if (kept.publicKey === signer.publicKey && signer.verify(headMessage(kept), kept.signature)) return kept;
  throw new StemmaError(
    "HEAD_SIGNATURE_INVALID",
    `The journal head in ${path} is not signed with this server's key. If the key was replaced on purpose, remove that file (it is written again); else restore the journal from a backup.`,
    { path },
  );
}

/**
 * Makes the disk agree with what was loaded: cuts off the torn tail (copied to a file where there is space),
 * and fsyncs the rest.
 */
async function settle(files: Files, folder: string, loaded: LoadedJournal): Promise<OpenFile> {
  const last = loaded.segments[loaded.segments.length - 1] as Segment;
  const file = await files.open(last.path, "update");
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
 * Opens the journal in `folder`, creating it when missing. Every entry is read and its chain hash checked; a
 * torn tail that was never acknowledged is cut off; any other damage is an error. Only one process at a time
 * may have it open (see lockHome).
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
  const head = await readHead(files, headPath, options.signer);
  let loaded = await loadSegments(files, folder, head);
  if (loaded.segments.length === 0) {
    const path = join(folder, segmentName(0));
    await writeDurably(files, path, encodeSegmentHeader({ first: 0, chain: loaded.chain }));
    loaded = { ...loaded, segments: [{ first: 0, path }], lastSegmentBytes: segmentHeaderBytes };
  }
  const file = await settle(files, folder, loaded);
  try {
    const headFile = await files.open(headPath, "append");
    return new OpenedJournal({ files, folder, options, loaded, file, headFile });
  } catch (error) {
    await file.close();
    throw error;
  }
}
