/**
 * The journal on files: group commit, segments, and signed heads. open-journal.ts opens it. Does not know what
 * the facts mean.
 *
 * A group is everything that was appended while the group before was being fsynced. It is written with one
 * call and fsynced once; then its appends resolve and the next group is written. So everything before a
 * group's first entry is durable when the group reaches the disk. That distinguishes a torn tail from damage
 * (frame.ts, load-segments.ts).
 */
import { join } from "node:path";
import { StemmaError, isStemmaError } from "../errors.js";
import { writeDurably } from "../files/durable-write.js";
import type { Files, OpenFile } from "../ports.js";
import { hashBytes, hexOf } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import type { Fact } from "./fact.js";
import {
  encodeFrames,
  encodeSegmentHeader,
  frameHeaderBytes,
  maxEntryBytes,
  segmentHeaderBytes,
  type FrameToWrite,
} from "./frame.js";
import { encodeHeadSlot, headSlotBytes } from "./head.js";
import { headMessage } from "./head-message.js";
import {
  factNotDecoded,
  factNotEncoded,
  factTooLong,
  fewerEntries,
  journalStopped,
  noSuchEntry,
  openedWithoutKey,
  writingFailed,
} from "./journal-errors.js";
import type {
  FactCodec,
  HeadSigner,
  Journal,
  JournalEntry,
  JournalHead,
  JournalOpening,
  JournalProofs,
  SignedHead,
} from "./journal.js";
import { nextChain } from "./chain.js";
import { segmentName, type LoadedJournal } from "./load-segments.js";
import type { BlocksFile } from "./blocks-file.js";
import type { JournalIndex, Segment } from "./journal-index.js";
import { copySegments, readEntries, readEntryAt } from "./read-segments.js";
import { SegmentGuard } from "./segment-guard.js";

/** A journal on files, with the members that only its owner needs. */
export interface FileJournal<F = Fact> extends Journal<F>, JournalProofs {
  /** Resolves with the refusal of all further appends once the journal has stopped: it has to be opened again. */
  readonly stopped: Promise<StemmaError>;
  readonly opening: JournalOpening;
  /**
   * Copies the first `length` entries into an empty folder, durably; the copy opens as a journal with the
   * same chain.
   */
  copyTo(folder: string, length: number): Promise<{ readonly bytes: number }>;
  /** Bytes of all segments. */
  byteLength(): Promise<number>;
}

/** An append that waits to be written. */
interface PendingAppend {
  readonly payloads: readonly Uint8Array[];
  readonly bytes: number;
  readonly resolve: (positions: readonly number[]) => void;
  readonly reject: (error: unknown) => void;
}

/** A group is written in one call and has at most this many bytes, unless one append has more. */
const maxGroupBytes = 8 * 1024 * 1024;

/** The parts that openJournal passes to the journal that it opens. */
interface OpenedParts<F> {
  readonly files: Files;
  readonly folder: string;
  readonly codec: FactCodec<F>;
  readonly signer: HeadSigner | undefined;
  readonly segmentBytes: number;
  readonly loaded: LoadedJournal;
  /** The last segment. */
  readonly file: OpenFile;
  readonly guard: SegmentGuard;
  readonly headFile: OpenFile;
  readonly blocksFile: BlocksFile;
}

export class OpenedJournal<F> implements FileJournal<F> {
  readonly opening: JournalOpening;
  readonly stopped: Promise<StemmaError>;
  #reportStopped: (refusal: StemmaError) => void = () => undefined;
  readonly #files: Files;
  readonly #folder: string;
  readonly #codec: FactCodec<F>;
  readonly #signer: HeadSigner | undefined;
  readonly #segmentBytes: number;
  readonly #segments: Segment[];
  readonly #headFile: OpenFile;
  #file: OpenFile;
  #guard: SegmentGuard;
  /** A segment that this process began and could not finish, because the disk was full. */
  #begunSegment: string | undefined;
  #fileBytes: number;
  #length: number;
  #chain: Uint8Array;
  readonly #index: JournalIndex;
  readonly #blocksFile: BlocksFile;
  /** Bytes of the segments before the last one. */
  #earlierBytes: number;
  readonly #recent = new RecentEntries();
  /** The newest head; undefined or of a smaller length: to be computed. */
  #newestHead: JournalHead | undefined;
  #newestSignedHead: SignedHead | undefined;
  #queue: PendingAppend[] = [];
  #flushing: Promise<void> | undefined;
  #stopped: StemmaError | undefined;
  #headSlot = 0;
  #closed = false;

  constructor(parts: OpenedParts<F>) {
    const { files, folder, codec, signer, segmentBytes, loaded, file, guard, headFile, blocksFile } = parts;
    this.#files = files;
    this.#folder = folder;
    this.#codec = codec;
    this.#signer = signer;
    this.#segmentBytes = segmentBytes;
    this.#segments = loaded.segments;
    this.#file = file;
    this.#guard = guard;
    this.#headFile = headFile;
    this.#fileBytes = loaded.lastSegmentBytes;
    this.#length = loaded.length;
    this.#chain = hashBytes(loaded.chain);
    this.#index = loaded.index;
    this.#blocksFile = blocksFile;
    this.#earlierBytes = loaded.earlierBytes;
    this.opening = { length: loaded.length, tornBytes: loaded.torn.length };
    this.stopped = new Promise((resolve) => {
      this.#reportStopped = resolve;
    });
  }

  append(facts: readonly F[]): Promise<readonly number[]> {
    if (this.#stopped !== undefined || this.#closed) return Promise.reject(this.#refusal());
    if (facts.length === 0) return Promise.resolve([]);
    return new Promise((resolve, reject) => {
      this.#signer?.requireFree?.();
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
      throw factNotEncoded(this.#folder, error);
    }
    if (payload.length === 0 || payload.length > maxEntryBytes)
      throw factTooLong(this.#folder, payload.length, maxEntryBytes);
    return payload;
  }

  #refusal(): StemmaError {
    return journalStopped(this.#folder, this.#stopped);
  }

  async #flush(): Promise<void> {
    // Appends made in the same turn of the event loop share the group.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const group: PendingAppend[] = [];
      let bytes = 0;
      while (
        this.#queue.length > 0 &&
        (group.length === 0 || bytes + (this.#queue[0] as PendingAppend).bytes <= maxGroupBytes)
      ) {
        const next = this.#queue.shift() as PendingAppend;
        bytes += next.bytes;
        group.push(next);
      }
      if (this.#stopped === undefined) await this.#commit(group);
      else for (const waiting of group) waiting.reject(this.#refusal());
    }
    // Nothing was awaited since the queue was found empty, so an append after this starts the next flush.
    this.#flushing = undefined;
  }

  /** Writes and fsyncs one group, then settles its appends. Never throws. */
  async #commit(group: readonly PendingAppend[]): Promise<void> {
    const first = this.#length;
    try {
      await this.#stopIfTaken(() => this.#guard.check(this.#file, this.#fileBytes));
      if (this.#fileBytes >= this.#segmentBytes) await this.#startSegment();
      const frames: FrameToWrite[] = group.flatMap(({ payloads }) =>
        payloads.map((payload, i) => ({ payload, following: payloads.length - 1 - i })),
      );
      const bytes = encodeFrames(frames, first);
      await this.#write(bytes);
      for (const [i, frame] of frames.entries()) this.#count(first + i, frame);
      this.#length += frames.length;
    } catch (error) {
      for (const waiting of group) waiting.reject(this.#stopped === undefined ? error : this.#refusal());
      return;
    }
    let position = first;
    for (const { payloads, resolve } of group) resolve(payloads.map(() => position++));
    await this.#writeHead();
    await this.#blocksFile.write(this.#index.ends);
  }

  /** Counts an entry that is on the disk. */
  #count(position: number, { payload, following }: FrameToWrite): void {
    this.#chain = nextChain(this.#chain, payload);
    const offset = this.#fileBytes;
    this.#fileBytes += frameHeaderBytes + payload.length;
    this.#index.append({
      payload,
      segment: this.#segments.at(-1)?.first ?? 0,
      offset,
      end: this.#fileBytes,
      chain: hexOf(this.#chain),
      following,
      earlierBytes: this.#earlierBytes,
    });
    this.#recent.add(position, payload);
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

  /** Stops the journal where another process has the home or wrote to it. */
  async #stopIfTaken(check: () => Promise<void>): Promise<void> {
    try {
      await check();
    } catch (error) {
      if (isStemmaError(error, "HOME_TAKEN")) this.#stop(error);
      throw error;
    }
  }

  #stop(error: unknown): void {
    this.#stopped ??= error instanceof StemmaError ? error : writingFailed(error);
    this.#reportStopped(this.#refusal());
  }

  async #startSegment(): Promise<void> {
    const path = join(this.#folder, segmentName(this.#length));
    if (path !== this.#begunSegment) await this.#stopIfTaken(() => this.#guard.checkNext(path));
    this.#begunSegment = path;
    let file: OpenFile;
    try {
      await writeDurably(
        this.#files,
        path,
        encodeSegmentHeader({ first: this.#length, chain: hexOf(this.#chain) }),
      );
      file = await this.#files.open(path, "update");
      this.#guard = await SegmentGuard.of(this.#files, path);
    } catch (error) {
      // The old segment is complete. On a full disk only this group fails, and the next one tries again.
      if (!isStemmaError(error, "DISK_FULL")) this.#stop(error);
      throw error;
    }
    await this.#file.close().catch(() => undefined);
    this.#file = file;
    this.#earlierBytes += this.#fileBytes;
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

  async *entries(from = 0): AsyncIterable<JournalEntry<F>> {
    const range = { from, to: this.#length };
    for await (const { position, payload, chain } of readEntries(
      this.#files,
      this.#segments,
      this.#index,
      range,
    )) {
      let fact: F;
      try {
        fact = this.#codec.decode(payload);
      } catch (error) {
        throw factNotDecoded(this.#folder, position, error);
      }
      yield { position, fact, chain: hexOf(chain) };
    }
  }

  head(): JournalHead {
    if (this.#newestHead?.length !== this.#length)
      this.#newestHead = { length: this.#length, chain: hexOf(this.#chain), root: this.#index.root() };
    return this.#newestHead;
  }

  signedHead(): SignedHead {
    if (this.#signer === undefined) throw openedWithoutKey(this.#folder);
    const { publicKey } = this.#signer;
    const head = this.head();
    // Every receipt carries a head: those that are sent between two commits share one.
    if (this.#newestSignedHead?.length !== head.length)
      this.#newestSignedHead = { ...head, publicKey, signature: this.#signer.sign(headMessage(head)) };
    return this.#newestSignedHead;
  }

  async readEntry(position: number): Promise<Uint8Array> {
    this.#requireEntry(position);
    const recent = this.#recent.get(position);
    if (recent !== undefined) return recent;
    return await readEntryAt(this.#files, this.#segments, position, this.#index.place(position));
  }

  proveEntry(position: number, length = this.#length): readonly Hash[] {
    this.#requireEntries(length);
    this.#requireEntry(position, length);
    return this.#index.inclusionProof(position, length);
  }

  proveStart(from: number, to = this.#length): readonly Hash[] {
    this.#requireEntries(to);
    if (from !== to) this.#requireEntry(from, to);
    return this.#index.consistencyProof(from, to);
  }

  rootAt(length: number): Hash {
    this.#requireEntries(length);
    return this.#index.root(length);
  }

  #requireEntry(position: number, length = this.#length): void {
    if (!Number.isInteger(position) || position < 0 || position >= length)
      throw noSuchEntry(this.#folder, position, length);
  }

  #requireEntries(length: number): void {
    if (!Number.isInteger(length) || length < 0 || length > this.#length)
      throw fewerEntries(this.#folder, this.#length, length);
  }

  async copyTo(folder: string, length: number): Promise<{ readonly bytes: number }> {
    this.#requireEntries(length);
    return await copySegments(this.#files, this.#segments, folder, length);
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

/** Max bytes of entries that are kept; the newest one is kept in any case. */
const maxRecentBytes = 1024 * 1024;

/**
 * The newest entries that an open journal wrote, in memory: each is asked for again within moments, once for
 * every receipt that proves it.
 */
class RecentEntries {
  /** The entries by position, oldest first. */
  readonly #entries = new Map<number, Uint8Array>();
  #bytes = 0;

  /** Adds an entry that is on disk; positions only grow. */
  add(position: number, payload: Uint8Array): void {
    this.#entries.set(position, payload);
    this.#bytes += payload.length;
    for (const [oldest, { length }] of this.#entries) {
      if (this.#bytes <= maxRecentBytes || oldest === position) return;
      this.#entries.delete(oldest);
      this.#bytes -= length;
    }
  }

  /** Returns an entry; undefined: read it from the disk. */
  get(position: number): Uint8Array | undefined {
    return this.#entries.get(position);
  }
}
