/**
 * Samples in: appends what the device's software observes to the segment files of one line (format:
 * shared/train/datasets/sample-format.ts) and fsyncs them before it answers. A segment is named after the
 * index of its first sample, in twelve digits; indices only grow. Does not know sockets and watched folders;
 * both call it.
 */
import { join } from "node:path";
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { StemmaError } from "../../shared/errors.js";
import type { Clock, Files, Log, OpenFile } from "../../shared/ports.js";
import {
  decodeSegment,
  encodeSample,
  segmentMagic,
  segmentSuffix,
  type DecodedSegment,
  type Sample,
} from "../../shared/train/datasets/sample-format.js";
import type { Profile } from "../settings/profile.js";
import { planRetention, type Pin, type SegmentInfo } from "./retention.js";
import { sampleOfInput } from "./sample-input.js";

export interface IntakeStatus {
  readonly samples: number;
  readonly train: number;
  readonly heldOut: number;
  readonly bytes: number;
  readonly segments: number;
  /** Segments with a torn or damaged record: what follows it there is not read. */
  readonly damaged: number;
  /** One past the newest index. */
  readonly end: number;
}
export interface Taken {
  readonly accepted: number;
  readonly alreadyThere: number;
  readonly firstIndex: number;
  readonly end: number;
}

export interface IntakeOptions {
  readonly files: Files;
  readonly folder: string;
  readonly line: string;
  readonly limits: Profile["samples"];
  readonly clock: Clock;
  readonly log: Log;
  /**
   * Samples that must stay because a model trained on them is not released yet; read before any are deleted.
   */
  readonly pins: () => readonly Pin[];
}

interface Segment extends SegmentInfo {
  readonly trainIndices: readonly number[];
  readonly heldOut: number;
  readonly ids: readonly string[];
}

/** Size at which a new segment begins, so that dropping the oldest one frees a little and not everything. */
const segmentBytes = 1024 * 1024;

export function segmentName(firstIndex: number): string {
  return `${String(firstIndex).padStart(12, "0")}${segmentSuffix}`;
}
/** Index of a segment's first sample by its file's name; undefined when it is not a segment. */
export function segmentFirstIndex(name: string): number | undefined {
  return /^\d{12}\.samples$/.test(name) ? Number(name.slice(0, 12)) : undefined;
}

export class Intake {
  #segments: readonly Segment[] = [];
  #damaged = 0;
  #end = 0;
  #ids = new Set<string>();
  #current: { file: OpenFile; segment: Segment } | undefined;
  readonly #queue = new SerialQueue();

  private constructor(private readonly options: IntakeOptions) {}

  get folder(): string {
    return this.options.folder;
  }

  /**
   * Opens a line's samples. A torn or damaged segment is not an error: its intact samples count, and writing
   * continues in a new segment.
   */
  static async open(options: IntakeOptions): Promise<Intake> {
    const intake = new Intake(options);
    await options.files.makeFolder(options.folder);
    for (const name of await options.files.list(options.folder)) {
      const firstIndex = segmentFirstIndex(name);
      if (firstIndex === undefined) continue;
      const bytes = await options.files.read(join(options.folder, name));
      const { samples, torn } = decodeLeniently(bytes);
      intake.#put(describeSegment(name, firstIndex, bytes.length, samples));
      // Continue after the index of the torn record, so that no new segment gets the name of the torn file.
      if (torn) {
        intake.#damaged++;
        intake.#end = Math.max(intake.#end, firstIndex + samples.length + 1);
      }
    }
    if (intake.#damaged > 0)
      options.log.warn("samples-damaged", {
        line: options.line,
        segments: intake.#damaged,
        text: "torn or damaged samples were passed over; all sound ones before them stay",
      });
    return intake;
  }

  status(): IntakeStatus {
    const train = this.#segments.reduce((sum, segment) => sum + segment.trainIndices.length, 0);
    const heldOut = this.#segments.reduce((sum, segment) => sum + segment.heldOut, 0);
    const samples = this.#segments.reduce((sum, segment) => sum + segment.endIndex - segment.firstIndex, 0);
    const bytes = this.#segments.reduce((sum, segment) => sum + segment.bytes, 0);
    return {
      samples,
      train,
      heldOut,
      bytes,
      segments: this.#segments.length,
      damaged: this.#damaged,
      end: this.#end,
    };
  }

  /** How many training samples have an index of at least `from`. */
  trainSince(from: number): number {
    return this.#segments.reduce(
      (sum, segment) =>
        sum + (segment.endIndex <= from ? 0 : segment.trainIndices.filter((index) => index >= from).length),
      0,
    );
  }

  /**
   * What a training that starts now would use: segments as the dataset reader pins them ("name:bytes"), and
   * the indices of their samples. Waits for appends under way.
   */
  snapshot(): Promise<{ readonly segments: readonly string[]; readonly range: Pin }> {
    return this.#queue.run(() => ({
      segments: this.#segments
        .filter((segment) => segment.endIndex > segment.firstIndex)
        .map(({ name, bytes }) => `${name}:${bytes}`),
      range: this.range(),
    }));
  }

  /** Index of the oldest sample kept and one past the newest. */
  range(): Pin {
    return {
      from: this.#segments.find((segment) => segment.endIndex > segment.firstIndex)?.firstIndex ?? this.#end,
      to: this.#end,
    };
  }

  /**
   * Stores samples; resolves once they are fsynced. A sample whose id is stored already is skipped. Samples
   * without an id get one from `batch` and their position in it, so that a batch submitted again after a
   * crash adds only what is missing.
   * @throws SAMPLE_INVALID (then none is stored), SAMPLE_QUOTA, DISK_FULL, FILE_FAILED
   */
  append(values: readonly unknown[], batch?: string): Promise<Taken> {
    return this.#queue.run(() => this.#append(values, batch));
  }

  async close(): Promise<void> {
    await this.#queue.idle();
    await this.#current?.file.close();
    this.#current = undefined;
  }

  async #append(values: readonly unknown[], batch: string | undefined): Promise<Taken> {
    const firstIndex = this.#end;
    const nowMs = this.options.clock.now();
    const samples: Sample[] = [];
    const seen = new Set<string>();
    for (const [at, value] of values.entries()) {
      const index = firstIndex + samples.length;
      const sample = sampleOfInput(value, `${at + 1} of ${batch ?? values.length}`, {
        id: batch === undefined ? `#${index}` : `${batch}:${at}`,
        index,
        nowMs,
        shares: this.options.limits,
      });
      if (this.#ids.has(sample.id) || seen.has(sample.id)) continue;
      seen.add(sample.id);
      samples.push(sample);
    }
    const records = samples.map(encodeSample);
    await this.#freeSpace(records.reduce((sum, record) => sum + record.length, 0));
    for (let at = 0; at < samples.length;) at += await this.#write(samples, records, at);
    return {
      accepted: samples.length,
      alreadyThere: values.length - samples.length,
      firstIndex,
      end: this.#end,
    };
  }

  /** Writes as many as fit in the current segment, durably; returns how many. */
  async #write(samples: readonly Sample[], records: readonly Uint8Array[], at: number): Promise<number> {
    const { files, folder } = this.options;
    if (this.#current !== undefined && this.#current.segment.bytes >= segmentBytes) {
      await this.#current.file.close();
      this.#current = undefined;
    }
    const isNew = this.#current === undefined;
    // After a restart a new segment begins, so that no file that may end in a torn record is written again.
    const current = this.#current ?? {
      file: await files.open(join(folder, segmentName(this.#end)), "append"),
      segment: describeSegment(segmentName(this.#end), this.#end, 0, []),
    };
    const pieces: Uint8Array[] = isNew ? [segmentMagic] : [];
    let length = isNew ? segmentMagic.length : 0;
    let count = 0;
    while (at + count < records.length && (count === 0 || current.segment.bytes + length < segmentBytes)) {
      const record = records[at + count] as Uint8Array;
      pieces.push(record);
      length += record.length;
      count++;
    }
    try {
      if (isNew) await current.file.truncate(0);
      await current.file.write(Buffer.concat(pieces), current.segment.bytes);
      await current.file.sync();
      if (isNew) await files.syncFolder(folder);
    } catch (error) {
      await this.#giveUpSegment(current.file, current.segment, count);
      throw error;
    }
    const segment = extend(current.segment, length, samples.slice(at, at + count));
    this.#put(segment);
    this.#current = { file: current.file, segment };
    return count;
  }

  /**
   * After a failed write it is unknown how much reached the disk, so neither the indices nor the file are
   * used again.
   */
  async #giveUpSegment(file: OpenFile, segment: Segment, count: number): Promise<void> {
    this.#current = undefined;
    this.#end += count;
    // Best effort: without it, samples that were refused might be found after a restart.
    await file.truncate(segment.bytes).catch(() => undefined);
    await file.close().catch(() => undefined);
  }

  async #freeSpace(newBytes: number): Promise<void> {
    const { limits, line, files, folder, clock, log } = this.options;
    const plan = planRetention(
      this.#segments,
      this.options.pins(),
      {
        maxBytes: limits.maxBytes - newBytes,
        maxAgeMs: limits.maxAgeHours === null ? null : limits.maxAgeHours * 3_600_000,
      },
      clock.now(),
    );
    if (plan.bytes + newBytes > limits.maxBytes)
      throw new StemmaError(
        "SAMPLE_QUOTA",
        `The line ${line} holds ${plan.bytes} bytes of samples that may not go yet (a pending training needs them, or they are the newest), and ${newBytes} more pass the profile's ${limits.maxBytes} (samples.maxBytes). Send them again later, or raise the limit.`,
        { line },
      );
    for (const name of plan.drop) {
      await files.remove(join(folder, name));
      for (const id of this.#segments.find((segment) => segment.name === name)?.ids ?? [])
        this.#ids.delete(id);
      this.#segments = this.#segments.filter((segment) => segment.name !== name);
    }
    if (plan.drop.length > 0)
      log.info("samples-dropped", {
        line,
        segments: plan.drop.length,
        text: "the oldest samples were dropped to free space for new ones",
      });
  }

  #put(segment: Segment): void {
    this.#segments = [...this.#segments.filter((other) => other.name !== segment.name), segment].sort(
      (a, b) => a.firstIndex - b.firstIndex,
    );
    this.#end = Math.max(this.#end, segment.endIndex);
    for (const id of segment.ids) this.#ids.add(id);
  }
}

/**
 * Another program may have written a segment whose checksum is correct but whose content is not a sample. It
 * is treated as damaged, not as a fatal error.
 */
function decodeLeniently(bytes: Uint8Array): Pick<DecodedSegment, "samples" | "torn"> {
  try {
    return decodeSegment(bytes);
  } catch {
    return { samples: [], torn: true };
  }
}

function describeSegment(
  name: string,
  firstIndex: number,
  bytes: number,
  samples: readonly Sample[],
): Segment {
  return extend(
    { name, firstIndex, bytes: 0, endIndex: firstIndex, newestMs: 0, trainIndices: [], heldOut: 0, ids: [] },
    bytes,
    samples,
  );
}

function extend(segment: Segment, bytes: number, samples: readonly Sample[]): Segment {
  const train = samples.flatMap((sample, at) => (sample.split === "train" ? [segment.endIndex + at] : []));
  return {
    ...segment,
    bytes: segment.bytes + bytes,
    endIndex: segment.endIndex + samples.length,
    newestMs: samples.reduce((newest, sample) => Math.max(newest, sample.timeMs), segment.newestMs),
    trainIndices: [...segment.trainIndices, ...train],
    heldOut: segment.heldOut + samples.filter((sample) => sample.split === "held-out").length,
    ids: [...segment.ids, ...samples.map((sample) => sample.id)],
  };
}
