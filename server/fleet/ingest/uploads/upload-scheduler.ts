/**
 * Schedules the incoming uploads of one fleet and bounds how many run. It parks children whose base is missing, starts
 * them when the base is recorded, and routes manifests and blocks. Knows uploads, not envelopes.
 */
import { stackOf } from "../../../../shared/error-text.js";
import type { SaveRecord } from "../../../../shared/model/model.js";
import type { Log } from "../../../../shared/ports.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { Block, ManifestPart } from "../../../../shared/wire/messages.js";
import type { EventHub } from "../../../interface/events/event-hub.js";
import type { ClaimSummary } from "../../../storage/repository/claim.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import type { Accepted } from "./announcement.js";
import { announcementBytes } from "./message-bytes.js";
import { ParkingLot } from "./parking.js";
import { isKnown } from "./claims.js";
import { IncomingUpload } from "./incoming-upload.js";
import type { IncomingUploadParts } from "./incoming-upload-parts.js";
import type { IncomingUploadEnd } from "./incoming-upload-end.js";
import { RunningUploads } from "./running-uploads.js";
import { WaitingUploads, type WaitingUpload } from "./waiting-uploads.js";
import { wantBases } from "./want-messages.js";

export interface UploadSchedulerParts extends Omit<
  IncomingUploadParts,
  "onWanted" | "onProgress" | "repository" | "slowBudget"
> {
  readonly repository: FleetRepository;
  readonly log: Log;
  readonly events: EventHub;
  /** The version that has the number before this one in its line. */
  predecessorOf(record: Pick<SaveRecord, "device" | "line" | "sequence">): Hash | undefined;
  /** The version's fact is fsynced. */
  onRecorded(summary: VersionSummary): void;
  /** The fact of a claim is fsynced; a replay is to give its tensors. */
  onClaimed(claim: ClaimSummary): void;
  /** The version was recorded meanwhile: the device gets the same receipts again. */
  onAlreadyRecorded(device: string, summary: VersionSummary): void;
}

/** Max versions that each set below remembers (without base, raw only) until they are recorded. */
const maxRemembered = 10_000;
/** Share of a transfer that arrives between two events about it. */
const eventShare = 0.02;

/** Adds to a bounded set; the oldest entry is forgotten first. */
function remember(versions: Set<Hash>, versionId: Hash): void {
  versions.add(versionId);
  if (versions.size > maxRemembered) versions.delete(versions.values().next().value as Hash);
}

export class UploadScheduler {
  readonly #running: RunningUploads;
  /** One per upload that has not ended completely; it resolves when the upload has. */
  readonly #ends = new Set<Promise<void>>();
  readonly #waiting: WaitingUploads;
  /** Devices that found all upload slots taken, in the order in which they came. */
  readonly #queued = new Set<string>();
  readonly #parking: ParkingLot<Accepted>;
  /** Versions that are received without their base. */
  readonly #withoutBase = new Set<Hash>();
  /** Versions whose coded transfer could not be used: their next want is raw. */
  readonly #rawOnly = new Set<Hash>();
  /** Bytes of a version's transfer at its last event. */
  readonly #reportedBytes = new Map<Hash, number>();
  #closed = false;

  constructor(private readonly parts: UploadSchedulerParts) {
    this.#running = new RunningUploads(parts.limits.blockBytes);
    this.#parking = new ParkingLot(parts.limits);
    this.#waiting = new WaitingUploads(parts.limits);
  }

  get active(): number {
    return this.#running.count;
  }
  get parked(): number {
    return this.#parking.count;
  }

  /** Bases of all announced versions that are not recorded yet, each with the reason why it is needed. */
  basesUnderWay(): ReadonlyMap<Hash, string> {
    const needed = new Map<Hash, string>();
    const add = (device: string, { record: { bases, line } }: Accepted): void => {
      for (const base of bases)
        needed.set(base, `${device} is sending a version of ${line} that was trained from it`);
    };
    for (const { device, accepted } of this.#running.all()) add(device, accepted);
    for (const { device, accepted } of this.#waiting.all()) add(device, accepted);
    for (const { device, item } of this.#parking.all()) add(device, item);
    return needed;
  }

  /** Accepts an announcement, or continues with one that is known. */
  async announced(device: string, accepted: Accepted): Promise<void> {
    const { versionId } = accepted;
    const running = this.#running.get(versionId);
    if (running !== undefined && !running.isInterrupted) return running.repeat();
    if (this.#waiting.has(device, versionId)) return;
    const full = this.#waiting.refusalOf(device, accepted);
    if (full !== undefined) return this.parts.sender.refuse(device, full);
    // Parked before and announced again: the device did not announce the base, so it does not have it.
    const parked = this.#parking.take(versionId);
    const withoutBase =
      this.#withoutBase.has(versionId) || (parked !== undefined && this.#basesAbsent(device, accepted));
    this.#waiting.add(device, { accepted, withoutBase });
    this.#startWaiting(device);
  }

  /**
   * The device does not have what was requested: a base (then the child is received without it), or the
   * version itself (then its upload ends).
   */
  refusedByDevice(device: string, versionId: Hash, code: string): void {
    if (code === "BASE_MISSING") {
      this.#continueWithoutBase(device, versionId);
      return;
    }
    const running = this.#running.get(versionId);
    if (running?.device !== device || running.transfer === undefined) return;
    this.parts.log.warn("want-refused", { device, versionId, code });
    running.interrupt();
  }
  #continueWithoutBase(device: string, versionId: Hash): void {
    for (const parked of [this.#parking.take(versionId), ...this.#parking.takeWaitingFor(versionId)]) {
      if (parked === undefined) continue;
      if (parked.device !== device) {
        this.#parking.park(parked, this.parts.clock.monotonic());
        continue;
      }
      this.#rememberWithoutBase(parked.versionId);
      this.#waiting.add(device, { accepted: parked.item, withoutBase: true });
    }
    this.#startWaiting(device);
  }

  /** A version is recorded: its parked children may start. */
  baseIsKnown(base: Hash): void {
    for (const { device, item } of this.#parking.takeWaitingFor(base)) {
      this.#waiting.add(device, { accepted: item, withoutBase: false });
      this.#startWaiting(device);
    }
  }

  onManifest(device: string, part: ManifestPart): void {
    this.#running.byTransfer(device, part.transfer)?.onManifest(part);
  }
  onBlock(device: string, transfer: string, block: Block): void {
    this.#running.byTransfer(device, transfer)?.onBlock(block);
  }

  /**
   * The device's connection is gone. Uploads that have all their blocks run to their end; the others are
   * resumed with the next announcement.
   */
  interrupt(device: string): void {
    this.#waiting.drop(device);
    this.#queued.delete(device);
    this.#parking.takeOfDevice(device);
    for (const upload of this.#running.of(device)) upload.interrupt();
  }

  /**
   * Drops parked announcements that waited too long: the next announcement of the same version is received
   * without its base.
   */
  expire(): void {
    for (const { versionId, device } of this.#parking.takeExpired(this.parts.clock.monotonic())) {
      this.#rememberWithoutBase(versionId);
      void this.parts.sender.refuse(device, {
        code: "BASE_MISSING",
        message:
          "The base of this version was not announced in time. Announce the version again: it is then received without its base.",
        versionId,
        retryAfterMs: 1_000,
      });
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#waiting.clear();
    this.#queued.clear();
    for (const upload of this.#running.all()) upload.interrupt();
    await Promise.all(this.#ends);
  }

  #basesAbsent(device: string, { record }: Accepted): boolean {
    const unknown = record.bases.filter((base) => !isKnown(this.parts.repository, base));
    const underWay = (base: Hash): boolean =>
      this.#running.has(base) || this.#parking.has(base) || this.#waiting.has(device, base);
    return unknown.length > 0 && !unknown.some(underWay);
  }
  #rememberWithoutBase(versionId: Hash): void {
    remember(this.#withoutBase, versionId);
  }

  /**
   * Starts uploads of a device as far as the limits allow. An upload whose predecessor is still ending waits.
   */
  #startWaiting(device: string): void {
    if (this.#closed) return;
    let running = this.#running.countOf(device);
    while (running < this.parts.limits.receptionsPerDevice) {
      const isReady = ({ versionId }: Accepted): boolean => !this.#running.has(versionId);
      if (!this.#waiting.some(device, isReady)) return;
      if (this.#running.count >= this.parts.limits.receptionsTotal) {
        this.#queued.add(device);
        return;
      }
      const next = this.#waiting.take(device, isReady);
      if (next === undefined) return;
      const known = this.parts.repository.get(next.accepted.versionId);
      if (known !== undefined) {
        this.parts.onAlreadyRecorded(device, known);
        continue;
      }
      running++;
      this.#start(device, next);
    }
  }

  #start(device: string, { accepted, withoutBase }: WaitingUpload): void {
    const { events, repository } = this.parts;
    const about = {
      fleet: repository.fleet,
      device,
      line: accepted.record.line,
      versionId: accepted.versionId,
    };
    const { versionId } = accepted;
    const upload = new IncomingUpload(
      {
        device,
        accepted,
        predecessor: this.parts.predecessorOf(accepted.record),
        withoutBase,
        rawOnly: this.#rawOnly.has(versionId),
      },
      {
        ...this.parts,
        slowBudget: this.#running.slowBudgetOf(device),
        onWanted: (want) => events.emit({ event: "wanted", ...about, ...want }),
        onProgress: (progress) => {
          if (this.#isWorthAnEvent(versionId, progress.bytes, progress.totalBytes))
            events.emit({ event: "transfer", ...about, ...progress });
        },
      },
    );
    this.#running.add(upload);
    const ended = this.#runToEnd(upload);
    this.#ends.add(ended);
    void ended.finally(() => this.#ends.delete(ended));
  }

  /** Runs an upload and acts on its end. Never rejects. */
  async #runToEnd(upload: IncomingUpload): Promise<void> {
    try {
      await this.#end(upload, await upload.run());
    } catch (error) {
      this.parts.log.error("reception-failed", {
        versionId: upload.versionId,
        message: stackOf(error),
      });
    }
  }

  #isWorthAnEvent(versionId: Hash, bytes: number, totalBytes: number): boolean {
    const before = this.#reportedBytes.get(versionId) ?? -1;
    if (bytes < totalBytes && bytes >= before && bytes - before < totalBytes * eventShare) return false;
    this.#reportedBytes.set(versionId, bytes);
    return true;
  }

  async #end(upload: IncomingUpload, end: IncomingUploadEnd): Promise<void> {
    const { versionId, device, accepted } = upload;
    this.#running.remove(upload);
    this.#reportedBytes.delete(versionId);
    switch (end.end) {
      case "recorded":
        this.#recorded(upload, end.summary);
        break;
      case "claimed":
        this.#claimed(upload, end.claim);
        break;
      case "bases":
        await this.#park(device, accepted, end.bases);
        break;
      case "refused":
        await this.#refused(upload, end);
        break;
      case "interrupted":
        break;
    }
    this.#startWaiting(device);
    for (const queued of this.#queued) {
      if (this.#running.count >= this.parts.limits.receptionsTotal) return;
      this.#queued.delete(queued);
      this.#startWaiting(queued);
    }
  }

  #recorded({ device, versionId, wireBytes, startedAtMs }: IncomingUpload, summary: VersionSummary): void {
    const { events, repository, clock } = this.parts;
    this.#withoutBase.delete(versionId);
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
    this.parts.onRecorded(summary);
    this.baseIsKnown(versionId);
  }

  #claimed({ device, versionId, wireBytes, startedAtMs }: IncomingUpload, claim: ClaimSummary): void {
    const { events, repository, clock } = this.parts;
    const { line, name } = claim.record;
    const about = { fleet: repository.fleet, device, line, name, versionId, tensorBytes: claim.tensorBytes };
    events.emit({ event: "claimed", ...about, wireBytes, tookMs: clock.monotonic() - startedAtMs });
    this.parts.onClaimed(claim);
    this.baseIsKnown(versionId);
  }

  async #park(device: string, accepted: Accepted, bases: readonly Hash[]): Promise<void> {
    const { versionId, record } = accepted;
    const { sender, clock, events, repository } = this.parts;
    // A base was recorded meanwhile: no need to wait.
    if (bases.some((base) => isKnown(repository, base))) {
      this.#waiting.add(device, { accepted, withoutBase: false });
      return;
    }
    const parked = this.#parking.park(
      { versionId, device, bases, bytes: announcementBytes(accepted), item: accepted },
      clock.monotonic(),
    );
    if (parked === undefined) {
      await sender.refuse(device, {
        code: "QUOTA_EXCEEDED",
        message:
          "Too many versions wait for their bases. Announce the bases first, and this one again later.",
        versionId,
        retryAfterMs: 30_000,
      });
      return;
    }
    events.emit({ event: "parked", fleet: repository.fleet, device, line: record.line, versionId, bases });
    await sender.send(device, { type: "parked", versionId, expiresMs: this.parts.limits.parkedMs });
    await sender.send(device, wantBases(versionId, bases));
  }

  async #refused(
    { device, versionId }: IncomingUpload,
    { error, retryAfterMs, uselessCoding = false }: Extract<IncomingUploadEnd, { end: "refused" }>,
  ): Promise<void> {
    const { sender, events, repository, log } = this.parts;
    if (uselessCoding) remember(this.#rawOnly, versionId);
    log.warn("reception-refused", {
      device,
      versionId,
      code: error.code,
      message: error.message,
      cause: error.code === "INTERNAL" ? causeOf(error) : undefined,
    });
    events.emit({
      event: "refused",
      fleet: repository.fleet,
      device,
      versionId,
      code: error.code,
      message: error.message,
    });
    await sender.refuse(device, { code: error.code, message: error.message, versionId, retryAfterMs });
  }
}

function causeOf({ cause }: Error): string {
  return stackOf(cause);
}
