/**
 * Sends server models to devices: serves what a device fetches of a version, as blocks. Only the parts of a
 * version that the device may have are served: knowing a hash is not a permission (docs/design.md, "Trust").
 */
import { stackOf } from "../../../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import type { Clock, Log } from "../../../../shared/ports.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { BlockRequest, Fetch, ObjectRef } from "../../../../shared/wire/messages.js";
import { boundedBlockBytes } from "../../../../shared/wire/transfer/manifest.js";
import { runSender, type RunningSender } from "../../../../shared/wire/transfer/run-sender.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import { sendingFailed, tensorsDropped, tooManyDownloads, versionNotAssigned } from "../ingest-errors.js";
import type { CodedDownload, CodedDownloads } from "./coded-downloads.js";
import type { Deliveries, SentStream } from "./deliveries.js";
import { overFetchQuota, type DeviceQuota } from "../sessions/device-quota.js";
import type { DeviceSender } from "../sessions/device-sender.js";
import { FetchLists } from "./fetch-lists.js";
import { fetchedStream, type FetchedStream } from "./fetched-stream.js";
import type { IngestLimits } from "../limits.js";
import type { SendRates } from "./send-rates.js";
import { SharedTensors } from "./shared-tensors.js";

export interface DownloadsParts {
  readonly repository: FleetRepository;
  readonly sender: DeviceSender;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: Pick<IngestLimits, "blockBytes" | "leaseMs">;
  readonly codedDownloads: CodedDownloads;
  readonly deliveries: Deliveries;
  readonly rates: SendRates;
  /** Bounds how often a device fetches. */
  readonly quota: Pick<DeviceQuota, "waitMs" | "charge">;
}

interface Download {
  readonly device: string;
  readonly transfer: string;
  readonly blocks: RunningSender;
  readonly leaseId: string;
  readonly summary: VersionSummary;
  /** The requested objects. */
  readonly ids: readonly Hash[];
  readonly sent: SentStream;
  readonly coded: CodedDownload | undefined;
  /** The time when it was asked for, by the monotonic clock. */
  readonly startedMs: number;
  /** The time when its device last asked for some of it, or was sent some of it. */
  activeMs: number;
}
/** A stream that is being prepared, with the newest block request that came meanwhile. */
interface Preparing {
  readonly device: string;
  readonly versionId: Hash;
  request: BlockRequest | undefined;
}
interface EarlyRequest {
  readonly device: string;
  readonly request: BlockRequest;
  cancel(): void;
}
interface Prepared {
  readonly summary: VersionSummary;
  readonly raw: FetchedStream;
  readonly coded: CodedDownload | undefined;
  readonly startedMs: number;
}

/** Milliseconds that a request for blocks waits for its fetch, which it may have overtaken. */
const earlyMs = 5_000;
const maxEarlyRequests = 1024;
const maxDownloadsPerDevice = 8;
/** Milliseconds without a request and a block after which a stream is kept, but does not count as being sent. */
const stalledMs = 60_000;

/**
 * Key of a stream to a device. It contains the device, because devices of one profile that lack the same
 * objects use the same transfer id.
 */
const keyOf = (device: string, transfer: string): string => `${device}\0${transfer}`;

/** A device cannot make the server train. @throws MODEL_DROPPED where the tensors are not here */
async function refuseDropped(repository: FleetRepository, summary: VersionSummary): Promise<void> {
  const { versionId, name, version, dropped } = summary;
  if (dropped === undefined) return;
  const leaves = await repository.leaves(versionId);
  if (leaves.every(({ tensor }) => repository.objects.has(tensor))) return;
  throw tensorsDropped(name, version, versionId);
}

export class Downloads {
  readonly #running = new Map<string, Download>();
  readonly #preparing = new Map<string, Preparing>();
  readonly #lists = new FetchLists();
  /** Requests that came before their fetch. */
  readonly #early = new Map<string, EarlyRequest>();
  readonly #tensors: SharedTensors;
  constructor(private readonly parts: DownloadsParts) {
    this.#tensors = new SharedTensors(parts.repository.objects);
  }

  /**
   * Handles a part of a device's list of missing objects. Once the list is complete, its stream is prepared
   * and blocks can be requested. Never rejects: refusals go to the device.
   */
  async fetch(device: string, fetch: Fetch, correlation: string): Promise<void> {
    try {
      const objects = this.#lists.join(keyOf(device, fetch.transfer), fetch);
      if (objects === undefined) return;
      const retryAfterMs = this.parts.quota.waitMs(device);
      if (retryAfterMs > 0) {
        const { versionId, transfer } = fetch;
        const refusal = { ...overFetchQuota(retryAfterMs), versionId, transfer };
        await this.parts.sender.refuse(device, refusal, correlation);
        return;
      }
      this.parts.quota.charge(device);
      await this.#start(device, fetch, objects);
    } catch (error) {
      const { versionId, transfer } = fetch;
      const { code, message } = this.#reportable(error, { device, transfer, versionId });
      this.parts.log.warn("fetch-refused", { device, versionId, transfer, code, text: message });
      await this.parts.sender.refuse(device, { code, message, versionId, transfer }, correlation);
    }
  }

  /** A request for blocks of a stream to this device. One that overtook its fetch waits for it a while. */
  onBlockRequest(device: string, request: BlockRequest): void {
    const { repository, limits } = this.parts;
    const key = keyOf(device, request.transfer);
    const running = this.#running.get(key);
    if (running !== undefined) {
      repository.objects.renew(running.leaseId, limits.leaseMs);
      running.activeMs = this.parts.clock.monotonic();
      running.blocks.onRequest(request);
      return;
    }
    const preparing = this.#preparing.get(key);
    if (preparing !== undefined) preparing.request = request;
    else this.#keepEarly(key, device, request);
  }

  /** See LiveFleet. */
  fetching(versionId: Hash): ReadonlySet<string> {
    const sinceMs = this.parts.clock.monotonic() - stalledMs;
    const devices = new Set<string>();
    for (const { device, summary, activeMs } of this.#running.values())
      if (summary.versionId === versionId && activeMs > sinceMs) devices.add(device);
    for (const preparing of this.#preparing.values())
      if (preparing.versionId === versionId) devices.add(preparing.device);
    return devices;
  }

  /** The device reports that it has received the complete transfer. */
  async endTransfer(device: string, transfer: string): Promise<void> {
    const download = this.#running.get(keyOf(device, transfer));
    if (download === undefined) return;
    this.#stop(download);
    const { sent, summary, ids } = download;
    if (!sent.isComplete) return;
    try {
      await this.parts.deliveries.delivered(device, summary, ids, sent);
    } catch (error) {
      // The device has the model; at worst it sends some of it back once.
      this.#reportable(error, { device, transfer, versionId: summary.versionId });
    }
  }

  /** Ends all streams to a device that is gone, or to every device when the server stops. */
  end(device?: string): void {
    const belongsToDevice = (one: { readonly device: string }): boolean =>
      device === undefined || one.device === device;
    for (const [key, early] of this.#early) if (belongsToDevice(early)) this.#forgetEarly(key);
    for (const [key, preparing] of this.#preparing)
      if (belongsToDevice(preparing)) this.#preparing.delete(key);
    for (const download of this.#running.values()) if (belongsToDevice(download)) this.#stop(download);
  }

  async #start(device: string, fetch: Fetch, refs: readonly ObjectRef[]): Promise<void> {
    const { repository, codedDownloads } = this.parts;
    const key = keyOf(device, fetch.transfer);
    // Requested again while it is being prepared: the answer is on its way.
    if (this.#preparing.has(key)) return;
    const present = this.#running.get(key);
    // The same list was requested again: the device has reconnected, and its receiver continues.
    if (present !== undefined) {
      present.blocks.reconnected();
      this.#stop(present);
    }
    const startedMs = this.parts.clock.monotonic();
    const summary = this.#requireAllowed(device, fetch.versionId);
    await refuseDropped(repository, summary);
    const { versionId } = summary;
    const preparing: Preparing = { device, versionId, request: this.#early.get(key)?.request };
    this.#forgetEarly(key);
    this.#preparing.set(key, preparing);
    try {
      const withUses = repository.hasSent(device, versionId);
      const stream = await fetchedStream({ repository, tensors: this.#tensors }, summary, refs, withUses);
      const references = (fetch.references ?? []).filter((id) => repository.hasHad(device, id));
      const coded = await codedDownloads.acquire(device, summary, { ...fetch, references }, stream.sized);
      // Meanwhile the device disconnected, or fetched it again.
      if (this.#preparing.get(key) !== preparing) {
        await coded?.release();
        return;
      }
      const blocks = this.#send(device, fetch, { summary, raw: stream, coded, startedMs });
      if (preparing.request !== undefined) blocks.onRequest(preparing.request);
    } finally {
      if (this.#preparing.get(key) === preparing) this.#preparing.delete(key);
    }
  }

  /** @throws QUOTA_EXCEEDED, NOT_ALLOWED */
  #requireAllowed(device: string, versionId: Hash): VersionSummary {
    const ofDevice = [...this.#running.values(), ...this.#preparing.values()].filter(
      (one) => one.device === device,
    );
    if (ofDevice.length >= maxDownloadsPerDevice) throw tooManyDownloads(maxDownloadsPerDevice);
    const summary = this.parts.repository.get(versionId);
    if (summary === undefined || !this.#mayHave(device, summary)) throw versionNotAssigned(versionId, device);
    return summary;
  }

  #mayHave(device: string, summary: VersionSummary): boolean {
    const { repository } = this.parts;
    const known = repository.device(device);
    if (known?.state !== "enrolled") return false;
    return (
      repository.hasSent(device, summary.versionId) ||
      known.lines.some((line) => repository.assignment(device, line) === summary.versionId) ||
      repository.stagedFor(device).some(({ versionId }) => versionId === summary.versionId)
    );
  }

  #send(
    device: string,
    { transfer, blockBytes: requestedBytes }: Fetch,
    { summary, raw, coded, startedMs }: Prepared,
  ): RunningSender {
    const { repository, sender, clock, limits, deliveries } = this.parts;
    const { objects, encodings } = coded ?? raw;
    const ids = raw.sized.map(({ id }) => id);
    const lease = repository.objects.lease(ids, limits.leaseMs);
    const blockBytes = boundedBlockBytes(
      requestedBytes === 0 ? limits.blockBytes : requestedBytes,
      limits.blockBytes,
    );
    const { versionId } = summary;
    const sent = deliveries.stream(
      sha256(JSON.stringify([device, versionId, transfer, ids, blockBytes, encodings])),
    );
    this.parts.log.debug("fetch-begun", {
      device,
      versionId,
      transfer,
      objects: objects.length,
      bytes: objects.reduce((sum, { byteLength }) => sum + byteLength, 0),
    });
    const take = this.parts.rates.of(device, versionId);
    const blocks: RunningSender = runSender({ transfer, blockBytes, encodings }, objects, {
      clock,
      send: async (message, unused) => {
        if (message.type === "block") {
          await take(message.data.length);
          // Meanwhile it may have ended.
          const running = this.#running.get(keyOf(device, transfer));
          if (running?.blocks !== blocks) return;
          await sender.sendBlock(device, transfer, message, unused);
          running.activeMs = clock.monotonic();
        } else await sender.send(device, message);
        sent.sent(message);
      },
      onFailed: (error) => {
        void this.#failed(device, transfer, error);
      },
    });
    this.#running.set(keyOf(device, transfer), {
      device,
      transfer,
      blocks,
      leaseId: lease.id,
      summary,
      ids,
      sent,
      coded,
      startedMs,
      activeMs: clock.monotonic(),
    });
    return blocks;
  }

  #keepEarly(key: string, device: string, request: BlockRequest): void {
    if (this.#early.has(key)) return;
    if (this.#early.size >= maxEarlyRequests) this.#forgetEarly(this.#early.keys().next().value ?? "");
    const cancel = this.parts.clock.after(earlyMs, () => {
      this.#early.delete(key);
      void this.parts.sender.refuse(device, {
        code: "TRANSFER_UNKNOWN",
        message: "The server does not send this transfer (any more). Fetch the version again.",
        transfer: request.transfer,
      });
    });
    this.#early.set(key, { device, request, cancel });
  }

  #forgetEarly(key: string): void {
    this.#early.get(key)?.cancel();
    this.#early.delete(key);
  }

  async #failed(device: string, transfer: string, error: unknown): Promise<void> {
    const download = this.#running.get(keyOf(device, transfer));
    const versionId = download?.summary.versionId;
    const { code, message } = this.#reportable(error, { device, transfer, versionId });
    await this.parts.sender.refuse(device, { code, message, transfer, retryAfterMs: 60_000 });
    if (download !== undefined) this.#stop(download);
  }

  /** The error as the device gets it; an unexpected one is logged here and sent without its cause. */
  #reportable(
    error: unknown,
    about: { readonly device: string; readonly transfer: string; readonly versionId: Hash | undefined },
  ): StemmaError {
    if (isStemmaError(error)) return error;
    this.parts.log.error("download-failed", { ...about, text: stackOf(error) });
    return sendingFailed(error);
  }

  #stop(download: Download): void {
    const key = keyOf(download.device, download.transfer);
    if (this.#running.get(key) === download) {
      this.#running.delete(key);
      if (![...this.#running.values()].some((other) => other.device === download.device))
        this.parts.rates.end(download.device);
      download.sent.durationMs += this.parts.clock.monotonic() - download.startedMs;
    }
    this.parts.repository.objects.release(download.leaseId);
    // Not awaited: a reader may be in the middle of a piece, and nothing depends on its end.
    void download.blocks
      .stop()
      .finally(() => download.coded?.release())
      .catch(() => undefined);
  }
}
