/**
 * Codes models for the devices that fetch them. Runs off the event loop, one model at a time. Devices that fetch the
 * same tensors, and for which the same versions are chosen to code against (coding-choice.ts), share one coded stream,
 * also with the plan of their rollout, which learns its length. Streams are kept in a folder of their own while they
 * are sent, and a while longer for the devices that come next. Coding is optional: after any failure the model is sent
 * raw.
 */
import { join } from "node:path";
import { SerialQueue } from "../../../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../../../shared/error-text.js";
import { isStemmaError } from "../../../../shared/errors.js";
import type { Clock, Files, Log } from "../../../../shared/ports.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { codeStream, type CodedStream } from "../../../../shared/wire/coding/code-stream.js";
import {
  codingSpoolEnding,
  countingSpool,
  openCodingSpool,
} from "../../../../shared/wire/coding/coding-spool.js";
import { codecFormat, firstCodecFormat, maxEncodedBytes } from "../../../../shared/wire/coding/encodings.js";
import { referencesOfTensors } from "../../../../shared/wire/coding/references.js";
import { openTensorCoder } from "../../../../shared/wire/coding/tensor-coder.js";
import { maxWireCodedTensorBytes } from "../../../../shared/wire/limits.js";
import type { Fetch, ObjectRef } from "../../../../shared/wire/messages.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import { chooseCoding, type CodingChoice } from "./coding-choice.js";
import { heldVersions, tensorsOf } from "./held-versions.js";
import type { IngestLimits } from "../limits.js";

export interface CodedDownloadsParts {
  readonly repository: FleetRepository;
  readonly files: Files;
  readonly clock: Pick<Clock, "monotonic" | "after">;
  readonly folder: string;
  readonly log: Log;
  readonly limits: Pick<IngestLimits, "coding" | "leaseMs" | "spoolBytes">;
}

/** A coded stream; the caller releases it when it has been sent. */
export interface CodedDownload extends CodedStream {
  release(): Promise<void>;
}

/** A coded stream that downloads share. */
interface SharedStream {
  readonly key: string;
  readonly versionId: Hash;
  readonly stream: Promise<CodedStream | undefined>;
  users: number;
  /** The time of its last use, by the monotonic clock. */
  usedMs: number;
  remove(): Promise<void>;
  /** The stream's length; while it is being coded, an upper bound. */
  reservedBytes: number;
}

/** A stream to code, as a fetch requests it. */
interface CodingWork {
  readonly summary: VersionSummary;
  readonly against: CodingChoice;
  readonly tensors: readonly Hash[];
  /** Upper bound of the coded stream's length. */
  readonly maxBytes: number;
  /** The format that the device asked for, with low-rank predictions if its link is slow. */
  readonly format: number;
}

/** Streams up to this length stay in memory. */
const memorySpoolBytes = 256 * 1024;
const maxLengths = 1024;
/** Streams that nobody uses are kept for so long, and no more than so many. */
const keptMs = 15 * 60_000;
const maxKept = 16;
/** Milliseconds between two looks at what is kept. */
const sweepMs = 60_000;

export class CodedDownloads {
  readonly #coded = new Map<string, SharedStream>();
  /** Lengths of streams that were coded to learn them. */
  readonly #lengths = new Map<string, number>();
  readonly #queue = new SerialQueue();
  #started = 0;
  #isClosed = false;
  #cancelSweep: (() => void) | undefined;
  private constructor(private readonly parts: CodedDownloadsParts) {}

  /** Opens the folder. Streams that a killed process left are removed; they are coded again on request. */
  static async open(parts: CodedDownloadsParts): Promise<CodedDownloads> {
    for (const name of await parts.files.list(parts.folder))
      if (name.endsWith(codingSpoolEnding)) await parts.files.remove(join(parts.folder, name));
    return new CodedDownloads(parts);
  }

  /**
   * The coded stream for a fetch; undefined where the fetch is answered raw.
   * @param fetch with those references only that the device provably had
   */
  async acquire(
    device: string,
    summary: VersionSummary,
    fetch: Fetch,
    refs: readonly ObjectRef[],
  ): Promise<CodedDownload | undefined> {
    const rawBytes = refs.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const allowed =
      this.parts.limits.coding &&
      (fetch.codec ?? 0) >= firstCodecFormat &&
      rawBytes > 0 &&
      refs.every(({ kind }) => kind === "tensor") &&
      fetch.streamBytes !== rawBytes;
    if (!allowed) return undefined;
    const format = Math.min(fetch.codec ?? 0, codecFormat);
    const tensors = refs.map(({ id }) => id);
    const against = await this.#choose(device, summary, fetch.references ?? []);
    const work = { summary, against, tensors, maxBytes: maxEncodedBytes(rawBytes), format };
    return await this.#use(work);
  }

  /** Returns undefined if the stream cannot be coded, or if there is no room for it. */
  async #use(work: CodingWork): Promise<CodedDownload | undefined> {
    const key = keyOf(work.summary, work);
    if (!this.#coded.has(key)) await this.#makeRoom(work.maxBytes);
    // Another may have started it meanwhile. Counted at once: what nobody uses may be removed.
    const coded = this.#coded.get(key) ?? this.#start(key, work);
    if (coded === undefined) return undefined;
    coded.users++;
    const release = async (): Promise<void> => {
      coded.usedMs = this.parts.clock.monotonic();
      coded.users--;
      if (this.#isClosed || (await coded.stream) === undefined) await this.#remove(coded);
      else this.#sweepLater();
    };
    const stream = await coded.stream;
    if (stream !== undefined) return { ...stream, release };
    await release();
    return undefined;
  }

  async #choose(
    device: string,
    { record }: VersionSummary,
    references: readonly Hash[],
  ): Promise<CodingChoice> {
    const { repository } = this.parts;
    const held = await heldVersions(repository, references);
    return chooseCoding(record.bases, held, (id) => repository.hasSent(device, id));
  }

  #hasRoom(bytes: number): boolean {
    const reserved = [...this.#coded.values()].reduce((sum, { reservedBytes }) => sum + reservedBytes, 0);
    return reserved + bytes <= this.parts.limits.spoolBytes;
  }
  /** Removes streams that nobody uses until there is room, if that gives it. */
  async #makeRoom(bytes: number): Promise<void> {
    for (const kept of this.#unusedStreams()) {
      if (this.#hasRoom(bytes)) return;
      await this.#remove(kept);
    }
  }

  #start(key: string, work: CodingWork): SharedStream | undefined {
    const { summary, maxBytes } = work;
    const { files, folder, log, clock } = this.parts;
    if (!this.#hasRoom(maxBytes)) return undefined;
    // Numbered: one of the same key may be about to be removed.
    const path = join(folder, `${key}-${++this.#started}${codingSpoolEnding}`);
    let spool: Awaited<ReturnType<typeof openCodingSpool>> | undefined;
    const stream = this.#queue
      .run(async () => {
        await files.makeFolder(folder);
        spool = await openCodingSpool(files, path, maxBytes, memorySpoolBytes);
        const startedMs = clock.monotonic();
        const done = await this.#code(work, spool);
        coded.reservedBytes = done.byteLength;
        log.debug("model-coded", {
          versionId: summary.versionId,
          tensors: work.tensors.length,
          bytes: done.byteLength,
          durationMs: Math.round(clock.monotonic() - startedMs),
        });
        return done;
      })
      .catch((error: unknown) => {
        log.warn("model-not-coded", {
          versionId: summary.versionId,
          code: isStemmaError(error) ? error.code : undefined,
          message: messageOf(error),
        });
        return undefined;
      });
    const coded: SharedStream = {
      key,
      versionId: summary.versionId,
      stream,
      users: 0,
      usedMs: clock.monotonic(),
      reservedBytes: maxBytes,
      remove: async () => {
        await stream;
        await spool?.remove();
      },
    };
    this.#coded.set(key, coded);
    return coded;
  }

  /** Streams that nobody uses, the one that was used least recently first. */
  #unusedStreams(): readonly SharedStream[] {
    return [...this.#coded.values()]
      .filter(({ users }) => users === 0)
      .sort((one, other) => one.usedMs - other.usedMs);
  }

  /** Removes a stream that nobody uses. */
  async #remove(coded: SharedStream): Promise<void> {
    if (coded.users > 0 || this.#coded.get(coded.key) !== coded) return;
    this.#coded.delete(coded.key);
    await coded.remove();
  }

  #sweepLater(): void {
    if (this.#isClosed) return;
    this.#cancelSweep ??= this.parts.clock.after(sweepMs, () => {
      this.#cancelSweep = undefined;
      void this.#sweep();
    });
  }

  /** Removes what was not used for long, and what was retired: erased objects must not stay here. */
  async #sweep(): Promise<void> {
    const { clock, repository, log } = this.parts;
    const sinceMs = clock.monotonic() - keptMs;
    const kept = this.#unusedStreams();
    const tooMany = kept.length - maxKept;
    try {
      for (const [index, coded] of kept.entries()) {
        const version = repository.get(coded.versionId);
        const isGone = version === undefined || version.retired !== undefined;
        if (index < tooMany || coded.usedMs <= sinceMs || isGone) await this.#remove(coded);
      }
    } catch (error) {
      log.warn("coded-model-not-removed", { message: messageOf(error) });
    }
    if (this.#coded.size > 0) this.#sweepLater();
  }

  async #code(
    { summary, against, tensors, maxBytes, format }: CodingWork,
    spool: Awaited<ReturnType<typeof openCodingSpool>>,
  ): Promise<CodedStream> {
    const { repository, limits } = this.parts;
    // Read again: the trees of all that waits to be coded would take memory.
    const held = await heldVersions(repository, against.references);
    const lease = repository.objects.lease([...tensors, ...tensorsOf(held)], limits.leaseMs);
    const coder = openTensorCoder(maxBytes);
    try {
      const leaves = await repository.leaves(summary.versionId);
      return await codeStream(
        {
          tensors,
          references: referencesOfTensors({ bases: against.bases, leaves }, held),
          objects: repository.objects,
          coder,
          format,
          maxTensorBytes: maxWireCodedTensorBytes,
        },
        spool,
      );
    } finally {
      await coder.close();
      repository.objects.release(lease.id);
    }
  }

  /**
   * The length that a stream would have. It is kept for the devices that fetch it next, where there is room.
   * @throws what codeStream throws
   */
  async codedLength(
    summary: VersionSummary,
    work: Pick<CodingWork, "tensors" | "against" | "format">,
  ): Promise<number> {
    const key = keyOf(summary, work);
    const known = this.#lengths.get(key);
    if (known !== undefined) return known;
    const rawBytes = work.tensors.reduce(
      (sum, id) => sum + (this.parts.repository.objects.stat(id)?.byteLength ?? 0),
      0,
    );
    const whole: CodingWork = { summary, ...work, maxBytes: maxEncodedBytes(rawBytes) };
    const kept = await this.#use(whole);
    await kept?.release();
    const { byteLength } = kept ?? (await this.#queue.run(() => this.#code(whole, countingSpool())));
    if (this.#lengths.size >= maxLengths) this.#lengths.delete(this.#lengths.keys().next().value ?? "");
    this.#lengths.set(key, byteLength);
    return byteLength;
  }

  /** Ends what is being coded, and removes what nobody uses. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#queue.idle();
    for (const coded of this.#unusedStreams()) await this.#remove(coded);
    this.#cancelSweep?.();
  }
}

function keyOf(
  { versionId }: VersionSummary,
  { tensors, against, format }: Pick<CodingWork, "tensors" | "against" | "format">,
): string {
  return sha256(JSON.stringify([versionId, tensors, against, format]));
}
