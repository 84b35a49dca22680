/**
 * Samples in: appends what the device's software observes to the segment files of one line (format:
 * shared/train/datasets/sample-format.ts) and fsyncs them before it answers. A segment is named after the
 * index of its first sample, in twelve digits; indices only grow. Does not know sockets and watched folders;
 * both call it.
 */
import { join } from "node:path";
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { StemmaError } from "../../shared/errors.js";
import { temporarySuffix, writeDurably } from "../../shared/files/durable-write.js";
import type { Clock, Files, Log, OpenFile } from "../../shared/ports.js";
import {
  describeForm,
  formOf,
  misfit,
  narrowedForm,
  type SampleForm,
} from "../../shared/train/datasets/sample-form.js";
import {
  encodeSample,
  segmentMagic,
  withoutRecords,
  type Sample,
} from "../../shared/train/datasets/sample-format.js";
import type { IntakeStatus, ListedSample, Removal, Removed, Snapshot, Taken } from "./intake-answers.js";
import type { Profile } from "../settings/profile.js";
import { planRetention, type Pin } from "./retention.js";
import { sampleOfInput, sampleRefused } from "../../shared/train/datasets/sample-input.js";
import {
  emptySegment,
  extendSegment,
  firstThatFits,
  readSegment,
  samplesIn,
  segmentFirstIndex,
  segmentName,
  storedSampleOf,
  type Segment,
  type StoredSample,
} from "./segment.js";
import { counted } from "../../shared/printable.js";

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
  /** The form that the line's model and its settings ask for; {} where they ask for nothing. */
  readonly neededForm: () => Promise<SampleForm>;
}

/** Size at which a new segment begins, so that dropping the oldest one frees a little and not everything. */
const segmentBytes = 1024 * 1024;

export class Intake {
  #segments: readonly Segment[] = [];
  #damaged = 0;
  #end = 0;
  readonly #ids = new Set<string>();
  /** The part of every stored input, by its content: a copy falls into the same one. */
  readonly #splits = new Map<string, { readonly split: Sample["split"]; readonly count: number }>();
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
      if (firstIndex === undefined) {
        // Left by a removal that a crash interrupted; it may contain samples that were to go.
        if (name.endsWith(temporarySuffix)) await options.files.remove(join(options.folder, name));
        continue;
      }
      const bytes = await options.files.read(join(options.folder, name));
      const { segment, torn } = readSegment(firstIndex, bytes);
      intake.#put(segment, segment.samples);
      // Continue after the index of the torn record, so that no new segment gets the name of the torn file.
      if (torn) {
        intake.#damaged++;
        intake.#end = Math.max(intake.#end, segment.endIndex + 1);
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

  /** Bytes of all segments. */
  get bytes(): number {
    return this.#segments.reduce((sum, segment) => sum + segment.bytes, 0);
  }

  async status(): Promise<IntakeStatus> {
    const form = await this.#form();
    const counts = { samples: 0, train: 0, heldOut: 0, unfit: 0 };
    for (const [, sample] of samplesIn(this.#segments)) {
      counts.samples++;
      if (misfit(sample, form) !== undefined) counts.unfit++;
      else if (sample.split === "train") counts.train++;
      else if (sample.split === "held-out") counts.heldOut++;
    }
    return {
      ...counts,
      form: form.shape === undefined ? null : describeForm(form),
      bytes: this.bytes,
      segments: this.#segments.length,
      damaged: this.#damaged,
      end: this.#end,
    };
  }

  /** Counts the fitting training samples with an index of at least `from`. */
  async trainSince(from: number): Promise<number> {
    const form = await this.#form();
    let count = 0;
    for (const [index, sample] of samplesIn(this.#segments.filter(({ endIndex }) => endIndex > from)))
      if (index >= from && sample.split === "train" && misfit(sample, form) === undefined) count++;
    return count;
  }

  /** Returns the samples that a training would use that starts now. Waits for appends under way. */
  snapshot(): Promise<Snapshot> {
    return this.#queue.run(async () => {
      const form = await this.#form();
      let usable = 0;
      let unfit = 0;
      for (const [, sample] of samplesIn(this.#segments))
        if (misfit(sample, form) === undefined) usable++;
        else unfit++;
      return {
        segments: this.#segments
          .filter((segment) => segment.endIndex > segment.firstIndex)
          .map(({ name, bytes }) => `${name}:${bytes}`),
        range: this.range(),
        form,
        usable,
        unfit,
      };
    });
  }

  /** The newest `limit` samples in order of index, or of those that do not fit. */
  async list(limit: number, onlyUnfit: boolean): Promise<readonly ListedSample[]> {
    const form = await this.#form();
    const listed: ListedSample[] = [];
    for (const [index, { id, timeMs, split, shape, label, targets }] of samplesIn(this.#segments)) {
      const unfit = misfit({ shape, label, targets }, form) ?? null;
      if (onlyUnfit && unfit === null) continue;
      const named = targets === undefined ? {} : { targets: Object.keys(targets) };
      listed.push({ index, id, timeMs, split, shape, label, ...named, unfit });
    }
    return listed.slice(-limit);
  }

  /**
   * Removes samples for good; resolves once their content is off the disk. Their ids may be used again.
   * @throws FILE_FAILED, DISK_FULL; what was removed before stays removed
   */
  remove(removal: Removal): Promise<Removed> {
    return this.#queue.run(() => this.#remove(removal));
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

  /** The form that samples need now: the model's, and where that leaves something open the oldest sample's. */
  async #form(): Promise<SampleForm> {
    const needed = await this.options.neededForm();
    const first = firstThatFits(this.#segments, needed);
    return first === undefined ? needed : narrowedForm(needed, first);
  }

  async #remove(removal: Removal): Promise<Removed> {
    const { files, folder, pins, line, log } = this.options;
    const form = await this.#form();
    const ids = "ids" in removal ? new Set(removal.ids) : undefined;
    const pinned = pins();
    let removed = 0;
    let trainedOn = 0;
    for (const segment of this.#segments) {
      const positions = new Set<number>();
      for (const [index, sample] of samplesIn([segment])) {
        const isUnfit = misfit(sample, form) !== undefined;
        if (ids === undefined ? "all" in removal || isUnfit : ids.delete(sample.id)) {
          positions.add(index - segment.firstIndex);
          if (!isUnfit && pinned.some(({ from, to }) => from <= index && index < to)) trainedOn++;
        }
      }
      if (positions.size === 0) continue;
      // The file is replaced, so samples that come later need a new one.
      if (this.#current?.segment.name === segment.name) {
        await this.#current.file.close();
        this.#current = undefined;
      }
      const path = join(folder, segment.name);
      await writeDurably(files, path, withoutRecords(await files.read(path), positions));
      this.#forget([...positions].map((at) => segment.samples[at]));
      const samples = segment.samples.map((sample, at) => (positions.has(at) ? undefined : sample));
      this.#put({ ...segment, samples }, []);
      removed += positions.size;
    }
    if (removed > 0)
      log.info("samples-removed", {
        line,
        removed,
        text: `${counted(removed, "sample was", "samples were")} removed`,
      });
    return { removed, trainedOn, unknown: [...(ids ?? [])] };
  }

  async #append(values: readonly unknown[], batch: string | undefined): Promise<Taken> {
    const firstIndex = this.#end;
    const nowMs = this.options.clock.now();
    let form = await this.#form();
    const samples: Sample[] = [];
    const seen = new Set<string>();
    for (const [at, value] of values.entries()) {
      const index = firstIndex + samples.length;
      const where = `${at + 1} of ${batch ?? values.length}`;
      const sample = sampleOfInput(value, where, {
        id: batch === undefined ? `#${index}` : `${batch}:${at}`,
        nowMs,
        shares: this.options.limits,
        splitOf: (key) => this.#splits.get(key)?.split,
      });
      if (this.#ids.has(sample.id) || seen.has(sample.id)) continue;
      const problem = misfit(formOf(sample), form);
      if (problem !== undefined)
        throw sampleRefused(
          where,
          `${problem} by the ${this.#segments.length === 0 ? "" : "model or the samples of the "}line ${this.options.line}`,
          `Nothing of this batch was stored. Correct it; \`stemma agent samples list ${this.options.line}\` shows the stored ones, \`… rm\` removes them`,
        );
      form = narrowedForm(form, formOf(sample));
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
    // A new segment begins after a restart, so that no file that may end in a torn record is written again.
    const current = this.#current ?? {
      file: await files.open(join(folder, segmentName(this.#end)), "append"),
      segment: emptySegment(this.#end),
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
    const added = samples.slice(at, at + count).map(storedSampleOf);
    const segment = extendSegment(current.segment, length, added);
    this.#put(segment, added);
    this.#current = { file: current.file, segment };
    return count;
  }

  /**
   * Gives up a segment after a failed write, when it is unknown how much reached the disk: neither the
   * indices nor the file are used again.
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
      this.#forget(this.#segments.find((segment) => segment.name === name)?.samples ?? []);
      this.#segments = this.#segments.filter((segment) => segment.name !== name);
    }
    if (plan.drop.length > 0)
      log.info("samples-dropped", {
        line,
        segments: plan.drop.length,
        text: "the oldest samples were dropped to free space for new ones",
      });
  }

  /** Takes a segment's new state over; `added` are its samples that were not known before. */
  #put(segment: Segment, added: readonly (StoredSample | undefined)[]): void {
    this.#segments = [...this.#segments.filter((other) => other.name !== segment.name), segment].sort(
      (a, b) => a.firstIndex - b.firstIndex,
    );
    this.#end = Math.max(this.#end, segment.endIndex);
    for (const sample of added) {
      if (sample === undefined) continue;
      this.#ids.add(sample.id);
      const before = this.#splits.get(sample.key);
      this.#splits.set(sample.key, { split: before?.split ?? sample.split, count: (before?.count ?? 0) + 1 });
    }
  }

  #forget(samples: readonly (StoredSample | undefined)[]): void {
    for (const sample of samples) {
      if (sample === undefined) continue;
      this.#ids.delete(sample.id);
      const { split, count } = this.#splits.get(sample.key) ?? { split: sample.split, count: 1 };
      if (count > 1) this.#splits.set(sample.key, { split, count: count - 1 });
      else this.#splits.delete(sample.key);
    }
  }
}
