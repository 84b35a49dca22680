/**
 * All receptions of one fleet: starts them in turn, parks children before their base, wakes them when
 * it is there, routes manifests and blocks. Knows receptions, not envelopes.
 */
import type { Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Block, ManifestPart } from "../../shared/wire/messages.js";
import type { EventHub } from "../events/event-hub.js";
import type { FleetRepository, VersionSummary } from "../repository/fleet-repository.js";
import type { Accepted } from "./announcement.js";
import { ParkingLot } from "./parking.js";
import { IncomingUpload, type IncomingUploadParts } from "./incoming-upload.js";
import type { IncomingUploadEnd } from "./incoming-upload-end.js";

export interface UploadSchedulerParts extends Omit<IncomingUploadParts, "wanted" | "moved" | "repository"> {
  readonly repository: FleetRepository;
  readonly log: Log;
  readonly events: EventHub;
  /** The version's fact is fsynced. */
  recorded(summary: VersionSummary): void;
  /** It was recorded meanwhile: the device is to be told what it was told before. */
  again(device: string, summary: VersionSummary): void;
  failed(error: unknown): void;
}

interface Waiting {
  readonly accepted: Accepted;
  readonly withoutBase: boolean;
}

/**
 * Versions that something is remembered of until they are recorded: that nobody has their bases, that they
 * are to come raw.
 */
const maxRemembered = 10_000;
/** How much of a transfer moves between two events about it. */
const eventShare = 0.02;

/** What an announcement holds in memory. */
function bytesOf({ recordBytes, objects }: Accepted): number {
  return recordBytes.length + [...objects.values()].reduce((sum, { bytes }) => sum + bytes.length, 0);
}

/** Bounded, the oldest forgotten first. */
function remember(versions: Set<Hash>, versionId: Hash): void {
  versions.add(versionId);
  if (versions.size > maxRemembered) versions.delete(versions.values().next().value as Hash);
}

export class UploadScheduler {
  readonly #running = new Map<Hash, IncomingUpload>();
  readonly #ofDevice = new Map<string, Set<IncomingUpload>>();
  readonly #ended = new Map<Hash, Promise<void>>();
  readonly #waiting = new Map<string, Waiting[]>();
  #waitingBytes = 0;
  /** Devices that found all places taken, in the order in which they came. */
  readonly #queued = new Set<string>();
  readonly #parking: ParkingLot<Accepted>;
  readonly #toBeTakenWhole = new Set<Hash>();
  /** Versions whose coded transfer was of no use: their next want is raw. */
  readonly #rawOnly = new Set<Hash>();
  readonly #told = new Map<Hash, number>();
  #closed = false;

  constructor(private readonly parts: UploadSchedulerParts) {
    this.#parking = new ParkingLot(parts.limits);
  }

  get active(): number {
    return this.#running.size;
  }
  get parked(): number {
    return this.#parking.count;
  }

  /** Bases of everything that is announced and not recorded yet, and whose child needs them. */
  basesUnderWay(): ReadonlyMap<Hash, string> {
    const needed = new Map<Hash, string>();
    const add = (device: string, { record: { bases, line } }: Accepted): void => {
      for (const base of bases)
        needed.set(base, `${device} is sending a version of ${line} that was trained from it`);
    };
    for (const { device, accepted } of this.#running.values()) add(device, accepted);
    for (const [device, all] of this.#waiting) for (const { accepted } of all) add(device, accepted);
    for (const { device, item } of this.#parking.all()) add(device, item);
    return needed;
  }

  /** Takes an announcement in, or continues with it. */
  async announced(device: string, accepted: Accepted): Promise<void> {
    const { versionId } = accepted;
    const running = this.#running.get(versionId);
    if (running !== undefined && !running.isInterrupted) return running.repeat();
    const waiting = this.#waiting.get(device) ?? [];
    if (waiting.some((one) => one.accepted.versionId === versionId)) return;
    if (
      waiting.length >= this.parts.limits.waitingPerDevice ||
      this.#waitingBytes + bytesOf(accepted) > this.parts.limits.waitingBytes
    ) {
      return this.parts.voice.refuse(device, {
        code: "QUOTA_EXCEEDED",
        message: `${waiting.length} announcements of this device wait for their turn, and ${this.#waitingBytes} bytes of all devices. Announce it again later.`,
        versionId,
        retryAfterMs: 10_000,
      });
    }
    // Parked before and announced again: the device had its chance to announce the base, so it has not got
    // it.
    const parked = this.#parking.take(versionId);
    const withoutBase =
      this.#toBeTakenWhole.has(versionId) || (parked !== undefined && this.#basesAbsent(device, accepted));
    this.#wait(device, { accepted, withoutBase });
    this.#next(device);
  }

  /**
   * The device cannot give what it was asked for: a base (then the child is taken whole), or the version
   * itself (then nothing waits for it).
   */
  refusedByDevice(device: string, versionId: Hash, code: string): void {
    if (code === "BASE_MISSING") {
      this.#withoutBase(device, versionId);
      return;
    }
    const running = this.#running.get(versionId);
    if (running?.device !== device || running.transfer === undefined) return;
    this.parts.log.warn("want-refused", { device, versionId, code });
    running.interrupt();
  }
  #withoutBase(device: string, versionId: Hash): void {
    for (const parked of [this.#parking.take(versionId), ...this.#parking.takeWaitingFor(versionId)]) {
      if (parked === undefined) continue;
      if (parked.device !== device) {
        this.#parking.park(parked, this.parts.clock.monotonic());
        continue;
      }
      this.#markBaseless(parked.versionId);
      this.#wait(device, { accepted: parked.item, withoutBase: true });
    }
    this.#next(device);
  }

  /** A base that children may be waiting for is recorded. */
  baseIsKnown(base: Hash): void {
    for (const { device, item } of this.#parking.takeWaitingFor(base)) {
      this.#wait(device, { accepted: item, withoutBase: false });
      this.#next(device);
    }
  }

  onManifest(device: string, part: ManifestPart): void {
    this.#byTransfer(device, part.transfer)?.onManifest(part);
  }
  onBlock(device: string, transfer: string, block: Block): void {
    this.#byTransfer(device, transfer)?.onBlock(block);
  }

  /**
   * The device's connection is gone. What is past its transfer runs on; the rest comes back with the next
   * announcement.
   */
  interrupt(device: string): void {
    for (const { accepted } of this.#waiting.get(device) ?? []) this.#waitingBytes -= bytesOf(accepted);
    this.#waiting.delete(device);
    this.#queued.delete(device);
    this.#parking.takeOfDevice(device);
    for (const reception of this.#ofDevice.get(device) ?? []) reception.interrupt();
  }

  /**
   * Parked announcements whose time is over: the next announcement of the same version is taken without its
   * base.
   */
  expire(): void {
    for (const { versionId, device } of this.#parking.takeExpired(this.parts.clock.monotonic())) {
      this.#markBaseless(versionId);
      void this.parts.voice.refuse(device, {
        code: "BASE_MISSING",
        message:
          "The base of this version was not announced in time. Announce it again: it is then taken whole, without its base.",
        versionId,
        retryAfterMs: 1_000,
      });
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#waiting.clear();
    this.#queued.clear();
    for (const reception of this.#running.values()) reception.interrupt();
    await Promise.all(this.#ended.values());
  }

  #basesAbsent(device: string, { record }: Accepted): boolean {
    const unknown = record.bases.filter((base) => this.parts.repository.get(base) === undefined);
    const underWay = (base: Hash): boolean =>
      this.#running.has(base) ||
      this.#parking.has(base) ||
      (this.#waiting.get(device) ?? []).some(({ accepted }) => accepted.versionId === base);
    return unknown.length > 0 && !unknown.some(underWay);
  }
  #markBaseless(versionId: Hash): void {
    remember(this.#toBeTakenWhole, versionId);
  }
  #wait(device: string, entry: Waiting): void {
    const waiting = this.#waiting.get(device);
    if (waiting === undefined) this.#waiting.set(device, [entry]);
    else waiting.push(entry);
    this.#waitingBytes += bytesOf(entry.accepted);
  }
  #byTransfer(device: string, transfer: string): IncomingUpload | undefined {
    for (const reception of this.#ofDevice.get(device) ?? [])
      if (reception.transfer === transfer) return reception;
    return undefined;
  }

  /** Starts what may start; a version that is still ending (after an interruption) begins when it has. */
  #next(device: string): void {
    const waiting = this.#waiting.get(device);
    if (waiting === undefined || this.#closed) return;
    let running = this.#ofDevice.get(device)?.size ?? 0;
    for (let at = 0; at < waiting.length && running < this.parts.limits.receptionsPerDevice;) {
      if (this.#running.size >= this.parts.limits.receptionsTotal) {
        this.#queued.add(device);
        return;
      }
      const next = waiting[at] as Waiting;
      if (this.#running.has(next.accepted.versionId)) {
        at++;
        continue;
      }
      waiting.splice(at, 1);
      this.#waitingBytes -= bytesOf(next.accepted);
      const known = this.parts.repository.get(next.accepted.versionId);
      if (known !== undefined) {
        this.parts.again(device, known);
        continue;
      }
      running++;
      this.#start(device, next);
    }
    if (waiting.length === 0) this.#waiting.delete(device);
  }

  #start(device: string, { accepted, withoutBase }: Waiting): void {
    const { events, repository } = this.parts;
    const about = {
      fleet: repository.fleet,
      device,
      line: accepted.record.line,
      versionId: accepted.versionId,
    };
    const reception = new IncomingUpload(
      device,
      accepted,
      withoutBase,
      this.#rawOnly.has(accepted.versionId),
      {
        ...this.parts,
        wanted: (_, reason, objects, bytes) =>
          events.emit({ event: "wanted", ...about, reason, objects, bytes }),
        moved: (_, transfer, bytes, totalBytes, resumedBytes) => {
          if (this.#isWorthTelling(accepted.versionId, bytes, totalBytes))
            events.emit({ event: "transfer", ...about, transfer, bytes, totalBytes, resumedBytes });
        },
      },
    );
    this.#running.set(accepted.versionId, reception);
    const ofDevice = this.#ofDevice.get(device);
    if (ofDevice === undefined) this.#ofDevice.set(device, new Set([reception]));
    else ofDevice.add(reception);
    const ended = reception
      .run()
      .then((end) => this.#end(reception, end))
      .catch((error: unknown) => {
        this.parts.log.error("reception-failed", {
          versionId: accepted.versionId,
          message: error instanceof Error ? (error.stack ?? error.message) : String(error),
        });
      });
    this.#ended.set(accepted.versionId, ended);
    void ended.finally(() => {
      if (this.#ended.get(accepted.versionId) === ended) this.#ended.delete(accepted.versionId);
    });
  }

  #isWorthTelling(versionId: Hash, bytes: number, totalBytes: number): boolean {
    const before = this.#told.get(versionId) ?? -1;
    if (bytes < totalBytes && bytes >= before && bytes - before < totalBytes * eventShare) return false;
    this.#told.set(versionId, bytes);
    return true;
  }

  async #end(reception: IncomingUpload, end: IncomingUploadEnd): Promise<void> {
    const { versionId, device, accepted } = reception;
    this.#running.delete(versionId);
    const ofDevice = this.#ofDevice.get(device);
    ofDevice?.delete(reception);
    if (ofDevice?.size === 0) this.#ofDevice.delete(device);
    this.#told.delete(versionId);
    switch (end.end) {
      case "recorded":
        this.#recorded(reception, end.summary);
        break;
      case "bases":
        await this.#park(device, accepted, end.bases);
        break;
      case "refused":
        await this.#refused(reception, end);
        break;
      case "interrupted":
        break;
    }
    this.#next(device);
    for (const queued of this.#queued) {
      if (this.#running.size >= this.parts.limits.receptionsTotal) return;
      this.#queued.delete(queued);
      this.#next(queued);
    }
  }

  #recorded({ device, versionId, wireBytes, startedAtMs }: IncomingUpload, summary: VersionSummary): void {
    const { events, repository, clock } = this.parts;
    this.#toBeTakenWhole.delete(versionId);
    this.#rawOnly.delete(versionId);
    events.emit({
      event: "recorded",
      fleet: repository.fleet,
      device,
      line: summary.record.line,
      versionId,
      name: summary.name,
      version: summary.version,
      wireBytes,
      tensorBytes: summary.tensorBytes,
      tookMs: clock.monotonic() - startedAtMs,
    });
    this.parts.recorded(summary);
    this.baseIsKnown(versionId);
  }

  async #park(device: string, accepted: Accepted, bases: readonly Hash[]): Promise<void> {
    const { versionId, record } = accepted;
    const { voice, clock, events, repository } = this.parts;
    // Recorded while this was looked at: no need to wait.
    if (bases.some((base) => repository.get(base) !== undefined)) {
      this.#wait(device, { accepted, withoutBase: false });
      return;
    }
    const parked = this.#parking.park(
      { versionId, device, bases, bytes: bytesOf(accepted), item: accepted },
      clock.monotonic(),
    );
    if (parked === undefined) {
      await voice.refuse(device, {
        code: "QUOTA_EXCEEDED",
        message:
          "Too many versions wait for their bases. Announce the bases first, and this one again later.",
        versionId,
        retryAfterMs: 30_000,
      });
      return;
    }
    events.emit({ event: "parked", fleet: repository.fleet, device, line: record.line, versionId, bases });
    await voice.say(device, { type: "parked", versionId, expiresMs: this.parts.limits.parkedMs });
    await voice.say(device, {
      type: "want",
      reason: "base",
      versionId,
      transfer: "",
      objects: [],
      bases,
      blockBytes: 0,
      part: 0,
      parts: 1,
      more: false,
      tensorIndices: [],
    });
  }

  async #refused(
    { device, versionId }: IncomingUpload,
    { error, retryAfterMs, uselessCoding = false }: Extract<IncomingUploadEnd, { end: "refused" }>,
  ): Promise<void> {
    const { voice, events, repository, log } = this.parts;
    if (uselessCoding) remember(this.#rawOnly, versionId);
    log.warn("reception-refused", {
      device,
      versionId,
      code: error.code,
      message: error.message,
      ...(error.code === "INTERNAL"
        ? { cause: error.cause instanceof Error ? error.cause.stack : String(error.cause) }
        : {}),
    });
    this.parts.failed(error);
    events.emit({
      event: "refused",
      fleet: repository.fleet,
      device,
      versionId,
      code: error.code,
      message: error.message,
    });
    await voice.refuse(device, { code: error.code, message: error.message, versionId, retryAfterMs });
  }
}
