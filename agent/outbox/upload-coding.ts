/**
 * Codes the tensors that the server wants against versions that both sides have, in the background and one
 * transfer at a time. Any obstacle (a base that was forgotten, no disk space, a thread that ends) makes the
 * transfer raw: coding is never required. Does not know the link; uploads.ts sends.
 */
import { join } from "node:path";
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import type { LeafTable } from "../../shared/model/model.js";
import { decodeSaveRecord } from "../../shared/model/save-record.js";
import type { ObjectReader } from "../../shared/objects/object-store.js";
import { readTrees } from "../../shared/objects/version-trees.js";
import type { Clock, Files, Log } from "../../shared/ports.js";
import type { Hash, Tensor } from "../../shared/tensor/tensor.js";
import { codeStream, estimateStream, type CodingWork } from "../../shared/wire/coding/code-stream.js";
import { codingSpoolEnding, openCodingSpool } from "../../shared/wire/coding/coding-spool.js";
import { codecFormat, firstCodecFormat, maxEncodedBytes } from "../../shared/wire/coding/encodings.js";
import {
  ownReferences,
  referencesOfTensors,
  type HeldVersion,
  type TensorReferences,
} from "../../shared/wire/coding/references.js";
import { openTensorCoder, type TensorCoder } from "../../shared/wire/coding/tensor-coder.js";
import type { Encoding, ObjectRef, Want } from "../../shared/wire/messages.js";
import type { StreamObject } from "../../shared/wire/transfer/stream.js";
import type { Profile } from "../settings/profile.js";
import { decideCoding, prefersLowRank } from "../../shared/wire/coding/decide-coding.js";
import { readOptimizer, readVersion } from "./read-version.js";

export interface UploadCodingOptions {
  readonly objects: ObjectReader;
  readonly files: Files;
  /** The folder for coded streams while they are sent. */
  readonly folder: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly link: Profile["link"];
  /** A quarter of it bounds what coding one tensor may hold. */
  readonly memoryLimitMb: number;
  /** True if the disk budget has space for a coded stream of so many bytes. */
  mayTake(bytes: number): Promise<boolean>;
}

/** A stream ready to be sent; `remove` gives its space back. */
export interface CodedUpload {
  readonly objects: readonly StreamObject[];
  readonly encodings: readonly Encoding[];
  remove(): Promise<void>;
}

/** Streams up to this length stay in memory. */
const memorySpoolBytes = 256 * 1024;
/** Number of elements of the tensor on which the rate of the codec is measured. */
const measuredNumbers = 2 ** 18;

export class UploadCoding {
  #coderBytesPerSecond: number | undefined;
  readonly #queue = new SerialQueue();
  constructor(private readonly options: UploadCodingOptions) {}

  /** Removes the streams that a killed process left; coding them again gives the same bytes. */
  static async clear(files: Files, folder: string): Promise<void> {
    for (const name of await files.list(folder))
      if (name.endsWith(codingSpoolEnding)) await files.remove(join(folder, name));
  }

  /** True if this want may be answered by coded tensors at all. */
  mayCode(want: Want): boolean {
    return (
      this.options.link.coding !== "never" &&
      (want.codec ?? 0) >= firstCodecFormat &&
      want.reason !== "objects" &&
      want.tensorIndices.length > 0
    );
  }

  /**
   * The coded stream of the tensors of a want; undefined where raw is better or coding fails.
   * @param seenBytesPerSecond rate of earlier transfers
   */
  prepare(
    want: Want,
    refs: readonly ObjectRef[],
    seenBytesPerSecond: number | undefined,
    signal: AbortSignal,
  ): Promise<CodedUpload | undefined> {
    return this.#queue
      .run(() => this.#prepare(want, refs, seenBytesPerSecond, signal))
      .catch((error: unknown) => {
        if (!signal.aborted)
          this.options.log.warn("upload-not-coded", {
            versionId: want.versionId,
            transfer: want.transfer,
            code: isStemmaError(error) ? error.code : undefined,
            text: `sent raw: ${messageOf(error)}`,
          });
        return undefined;
      });
  }

  async #prepare(
    want: Want,
    refs: readonly ObjectRef[],
    seenBytesPerSecond: number | undefined,
    signal: AbortSignal,
  ): Promise<CodedUpload | undefined> {
    const { log } = this.options;
    const rawBytes = refs.reduce((sum, { byteLength }) => sum + byteLength, 0);
    // The server has received a part of the stream already, and that stream was raw.
    if (signal.aborted || want.streamBytes === rawBytes) return undefined;
    if (!(await this.options.mayTake(maxEncodedBytes(rawBytes))))
      throw new StemmaError(
        "DISK_BUDGET_EXHAUSTED",
        `there is not enough disk space for a coded copy of ${rawBytes} bytes in addition to the model.`,
      );
    const coder = openTensorCoder(rawBytes);
    try {
      const work: CodingWork = {
        tensors: refs.map(({ id }) => id),
        references: await this.#references(
          want,
          refs.map(({ id }) => id),
        ),
        objects: this.options.objects,
        coder,
        signal,
        // The same in every process, so that a resumed transfer is the same stream.
        format: prefersLowRank(this.options.link)
          ? Math.min(want.codec ?? firstCodecFormat, codecFormat)
          : firstCodecFormat,
        maxTensorBytes: (this.options.memoryLimitMb * 2 ** 20) / 16,
      };
      // A resumed transfer was decided before, perhaps by an earlier process: it must be the same stream
      // again.
      if (want.streamBytes === undefined) {
        const decision = await this.#decide(work, seenBytesPerSecond);
        log.debug("coding-decided", {
          versionId: want.versionId,
          transfer: want.transfer,
          coded: decision.coded,
          text: `${decision.coded ? "coded" : "raw"}: ${decision.because}`,
        });
        if (!decision.coded) return undefined;
      }
      return await this.#code(want, work, rawBytes);
    } finally {
      await coder.close();
    }
  }

  async #code(want: Want, work: CodingWork, rawBytes: number): Promise<CodedUpload | undefined> {
    const { files, folder, clock, log } = this.options;
    const startedMs = clock.monotonic();
    await files.makeFolder(folder);
    const spool = await openCodingSpool(
      files,
      join(folder, `${want.transfer}${codingSpoolEnding}`),
      maxEncodedBytes(rawBytes),
      memorySpoolBytes,
    );
    try {
      const { objects, encodings, byteLength } = await codeStream(work, spool);
      log.debug("coded", {
        versionId: want.versionId,
        transfer: want.transfer,
        rawBytes,
        bytes: byteLength,
        tookMs: clock.monotonic() - startedMs,
        text: `${byteLength} bytes on the wire for ${rawBytes}`,
      });
      return { objects, encodings, remove: () => spool.remove() };
    } catch (error) {
      await spool.remove();
      throw error;
    }
  }

  async #decide(
    work: CodingWork,
    seenBytesPerSecond: number | undefined,
  ): Promise<{ readonly coded: boolean; readonly because: string }> {
    const { link } = this.options;
    const needsFigures = link.coding === "auto";
    const { rawBytes, codedBytes } = needsFigures
      ? await estimateStream(work)
      : { rawBytes: 0, codedBytes: 0 };
    return decideCoding({
      link,
      measuredBytesPerSecond: seenBytesPerSecond,
      coderBytesPerSecond: needsFigures
        ? (this.#coderBytesPerSecond ??= await this.#measure(work.coder))
        : Infinity,
      rawBytes,
      codedBytes,
      tensors: work.tensors.length,
    });
  }

  /**
   * Measures the rate of the codec, once per process: a megabyte of float32 against a slightly changed copy.
   * A first call warms the codec up.
   */
  async #measure(coder: TensorCoder): Promise<number> {
    const { clock } = this.options;
    await coder.encode(ramp(1), { base: ramp(0) });
    const startedMs = clock.monotonic();
    await coder.encode(ramp(1), { base: ramp(0) });
    return (4 * measuredNumbers * 1000) / Math.max(clock.monotonic() - startedMs, 0.001);
  }

  /**
   * The references of the wanted tensors, among the versions that the server offers and whose records and
   * trees this device has; of checkpoints also among the wanted tensors themselves.
   */
  async #references(
    { versionId, references = [], ownReferences: mayUseOwn = false, optimizerReference }: Want,
    tensors: readonly Hash[],
  ): Promise<ReadonlyMap<Hash, TensorReferences>> {
    const { objects } = this.options;
    const own = await readVersion(objects, versionId);
    if (own === undefined) return new Map();
    const held: HeldVersion[] = [];
    for (const id of references) {
      const version = await readVersion(objects, id);
      if (version !== undefined) held.push(version);
    }
    const ofModel = new Map([
      ...(await this.#optimizerReferences(versionId, optimizerReference)),
      ...referencesOfTensors(own, held),
    ]);
    if (!mayUseOwn) return ofModel;
    const checkpoints = await this.#checkpoints(versionId);
    const ofCheckpoints = checkpoints.flatMap((leaves) => [
      ...referencesOfTensors({ bases: own.bases, leaves }, held),
    ]);
    // What comes later replaces what came before: the model's references stay, a checkpoint's nearest wins.
    return new Map([...ofCheckpoints, ...ownReferences(own.leaves, checkpoints, tensors), ...ofModel]);
  }

  /** The arrays of the optimizer's state, each against the one of its name in an earlier version's state. */
  async #optimizerReferences(
    versionId: Hash,
    earlier: Hash | undefined,
  ): Promise<ReadonlyMap<Hash, TensorReferences>> {
    const { objects } = this.options;
    const own = earlier === undefined ? undefined : await readOptimizer(objects, versionId);
    const before = earlier === undefined ? undefined : await readOptimizer(objects, earlier);
    if (own === undefined || before === undefined) return new Map();
    return referencesOfTensors({ bases: [before.versionId], leaves: own.leaves }, [before]);
  }

  async #checkpoints(versionId: Hash): Promise<readonly LeafTable[]> {
    const { objects } = this.options;
    const trees = await readTrees(objects, decodeSaveRecord(await objects.read("record", versionId)));
    return trees.flatMap((tree) => (tree.part === "checkpoint" ? [tree.leaves] : []));
  }
}

function ramp(step: number): Tensor {
  const values = new Float32Array(measuredNumbers);
  for (let i = 0; i < values.length; i++)
    values[i] = ((i * 2_654_435_761) % 65_536) / 65_536 - 0.5 + (step * ((i * 40_503) % 1024)) / 1e7;
  return { dtype: "F32", shape: [measuredNumbers / 512, 512], bytes: new Uint8Array(values.buffer) };
}
