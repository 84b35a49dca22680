/**
 * Codes models for the devices that fetch them. Runs off the event loop, one model at a time. Devices that fetch the
 * same tensors, and for which the same versions are chosen to code against (coding-choice.ts), share one coded stream.
 * Streams are kept in a folder of their own while they are sent. Coding is optional: after any failure the model is
 * sent raw.
 */
import { join } from "node:path";
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import type { Files, Log } from "../../shared/ports.js";
import { sha256 } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { codeStream, type CodedStream } from "../../shared/wire/coding/code-stream.js";
import { codingSpoolEnding, countingSpool, openCodingSpool } from "../../shared/wire/coding/coding-spool.js";
import { codecFormat, firstCodecFormat, maxEncodedBytes } from "../../shared/wire/coding/encodings.js";
import { referencesOfTensors } from "../../shared/wire/coding/references.js";
import { openTensorCoder } from "../../shared/wire/coding/tensor-coder.js";
import { maxWireCodedTensorBytes } from "../../shared/wire/limits.js";
import type { Fetch, ObjectRef } from "../../shared/wire/messages.js";
import type { VersionSummary } from "../repository/answers/version-answers.js";
import type { FleetRepository } from "../repository/fleet-repository.js";
import { chooseCoding, type CodingChoice } from "./coding-choice.js";
import { heldVersions, tensorsOf } from "./held-versions.js";
import type { IngestLimits } from "./limits.js";

export interface CodedDownloadsParts {
  readonly repository: FleetRepository;
  readonly files: Files;
  readonly folder: string;
  readonly log: Log;
  readonly limits: Pick<IngestLimits, "coding" | "leaseMs" | "spoolBytes">;
}

/** A coded stream; the caller releases it when it has been sent. */
export interface CodedDownload extends Pick<CodedStream, "objects" | "encodings"> {
  release(): Promise<void>;
}

/** A coded stream that downloads share. */
interface SharedStream {
  readonly stream: Promise<CodedStream | undefined>;
  users: number;
  remove(): Promise<void>;
  readonly reservedBytes: number;
}

/** A stream to code, as a fetch requests it. */
interface CodingWork {
  readonly summary: VersionSummary;
  readonly against: CodingChoice;
  readonly tensors: readonly Hash[];
  /** Upper bound of the coded stream's length. */
  readonly maxBytes: number;
  /** Whether the device asked for the format with low-rank predictions: where its link is slow. */
  readonly format: number;
}

/** Streams up to this length stay in memory. */
const memorySpoolBytes = 256 * 1024;
const maxLengths = 1024;

export class CodedDownloads {
  readonly #coded = new Map<string, SharedStream>();
  /** Lengths of streams that were coded to learn them. */
  readonly #lengths = new Map<string, number>();
  readonly #queue = new SerialQueue();
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
    const key = keyOf(summary, { tensors, against, format });
    const coded =
      this.#coded.get(key) ??
      this.#start(key, {
        summary,
        against,
        tensors,
        maxBytes: maxEncodedBytes(rawBytes),
        format,
      });
    if (coded === undefined) return undefined;
    coded.users++;
    const release = async (): Promise<void> => {
      if (--coded.users > 0) return;
      if (this.#coded.get(key) === coded) this.#coded.delete(key);
      await coded.remove();
    };
    const stream = await coded.stream;
    if (stream !== undefined) return { objects: stream.objects, encodings: stream.encodings, release };
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

  #start(key: string, work: CodingWork): SharedStream | undefined {
    const { summary, maxBytes } = work;
    const { limits, files, folder, log } = this.parts;
    const reserved = [...this.#coded.values()].reduce((sum, { reservedBytes }) => sum + reservedBytes, 0);
    if (reserved + maxBytes > limits.spoolBytes) return undefined;
    let spool: Awaited<ReturnType<typeof openCodingSpool>> | undefined;
    const stream = this.#queue
      .run(async () => {
        await files.makeFolder(folder);
        spool = await openCodingSpool(
          files,
          join(folder, `${key}${codingSpoolEnding}`),
          maxBytes,
          memorySpoolBytes,
        );
        return await this.#code(work, spool);
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
      stream,
      users: 0,
      reservedBytes: maxBytes,
      remove: async () => {
        await stream;
        await spool?.remove();
      },
    };
    this.#coded.set(key, coded);
    return coded;
  }

  async #code(
    { summary, against, tensors, maxBytes, format }: CodingWork,
    spool: Awaited<ReturnType<typeof openCodingSpool>>,
  ): Promise<CodedStream> {
    const { repository, limits } = this.parts;
    // Read again: the trees of all that waits to be coded would take memory.
    const held = await heldVersions(repository, against.held);
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

  /** The length that a stream would have, without keeping it. @throws what codeStream throws */
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
    const { byteLength } = await this.#queue.run(() =>
      this.#code({ summary, ...work, maxBytes: maxEncodedBytes(rawBytes) }, countingSpool()),
    );
    if (this.#lengths.size >= maxLengths) this.#lengths.delete(this.#lengths.keys().next().value ?? "");
    this.#lengths.set(key, byteLength);
    return byteLength;
  }

  /** Resolves when nothing is being coded. */
  async idle(): Promise<void> {
    await this.#queue.idle();
  }
}

function keyOf(
  { versionId }: VersionSummary,
  { tensors, against, format }: Pick<CodingWork, "tensors" | "against" | "format">,
): string {
  return sha256(JSON.stringify([versionId, tensors, against, format]));
}
