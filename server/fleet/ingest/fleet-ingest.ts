/**
 * The ingest of one fleet: decodes its devices' messages and passes each to the part that answers it. The
 * messages of one device are handled in order; long work runs concurrently. All state that matters is in the
 * repository and the spool, so the process may be killed at any moment.
 */
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError, type ErrorCode } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { decodeEnvelope } from "../../../shared/wire/codec.js";
import { blockOverheadBytes, maxBlockBytes, maxMessageBytes } from "../../../shared/wire/limits.js";
import type { Body, Envelope } from "../../../shared/wire/messages.js";
import type { ClaimSummary } from "../../storage/repository/claim.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { CommandToSend, PredictedBytes } from "../../services/context/operations-context.js";
import { storeNamedEngine } from "../../services/context/own-engine.js";
import type { DeviceMessage } from "../../access/broker/broker-port.js";
import type { Admission } from "./sessions/admission.js";
import { AnnouncementAnswers } from "./uploads/announcement-answers.js";
import { LineLeases } from "../../services/context/line-leases.js";
import { composeIngest, type FleetIngestParts, type IngestServices } from "./compose-ingest.js";
import type { ConnectionRefusal, CountedRefusals } from "./sessions/connection-refusals.js";
import type { DeviceDoubt } from "./sessions/device-doubts.js";
import { DeviceGreeting } from "./sessions/device-greeting.js";
import type { OnlineDevice } from "./sessions/device-sessions.js";

export interface IngestFigures {
  readonly receptions: number;
  readonly parked: number;
  readonly confirming: number;
  readonly spoolBytes: number;
  /** Length of the journal. */
  readonly facts: number;
  /** Counts devices by state; states that no device has are absent. Looks at every device. */
  devices(): Readonly<Record<string, number>>;
  /** Counts rollouts by phase; phases that no rollout is in are absent. */
  rollouts(): Readonly<Record<string, number>>;
}

/** Milliseconds between two checks for parked announcements and spools that have expired. */
const expiryCheckMs = 60_000;

export class FleetIngest {
  #stopExpiry: () => void = () => undefined;

  readonly #greeting: DeviceGreeting;
  readonly #announcements: AnnouncementAnswers;
  /** See LiveFleet. */
  readonly lineLeases: LineLeases;

  static async start(parts: FleetIngestParts): Promise<FleetIngest> {
    const services = await composeIngest(parts);
    services.confirmations.resume();
    const ingest = new FleetIngest(parts, services);
    ingest.#expireLater();
    return ingest;
  }

  private constructor(
    private readonly parts: FleetIngestParts,
    private readonly services: IngestServices,
  ) {
    this.#greeting = new DeviceGreeting(parts, services);
    this.lineLeases = new LineLeases(parts.clock);
    this.#announcements = new AnnouncementAnswers(parts, services);
  }

  get admission(): Admission {
    return this.services.admission;
  }
  isOnline(device: string): boolean {
    return this.services.sessions.get(device) !== undefined;
  }
  /** Returns why a device does not believe this server; undefined if it has not reported that. */
  doubtOf(device: string): DeviceDoubt | undefined {
    return this.services.doubts.get(device);
  }
  /** See LiveFleet. */
  refusalsOf(device: string): readonly CountedRefusals[] {
    return this.services.refusals.of(device);
  }
  /** The refused connections by reason. */
  get refusedConnections(): ReadonlyMap<ErrorCode, number> {
    return this.services.refusals.counts;
  }
  /** A connection in the name of a device was refused. */
  refused(device: string, refusal: ConnectionRefusal): void {
    const { repository, clock, events } = this.parts;
    const isDevice = repository.device(device) !== undefined;
    const count = this.services.refusals.add(device, refusal, { isDevice, nowMs: clock.now() });
    if (count !== undefined)
      events.emit({ event: "connection-refused", fleet: repository.fleet, device, ...refusal, count });
  }
  /** See LiveFleet. */
  seenAtMs(device: string): number | undefined {
    return this.services.sessions.seenAtMs(device, this.parts.clock.now());
  }
  /** The devices that have a session. */
  get online(): readonly string[] {
    return this.services.sessions.all().map(([device]) => device);
  }
  get onlineCount(): number {
    return this.services.sessions.count;
  }
  get figures(): IngestFigures {
    const { scheduler, confirmations, spools } = this.services;
    return {
      receptions: scheduler.active,
      parked: scheduler.parked,
      confirming: confirmations.waiting,
      spoolBytes: spools.bytes,
      facts: this.parts.repository.journal.head().length,
      devices: () => countedBy(this.parts.repository.devices(), ({ state }) => state),
      rollouts: () => countedBy(this.parts.repository.rollouts(), ({ phase }) => phase),
    };
  }

  /** Versions that retention leaves alone for now, each with the reason. */
  underWay(): ReadonlyMap<Hash, string> {
    const bases = new Map(this.services.scheduler.basesUnderWay());
    for (const { record, ended } of this.parts.repository.claims())
      if (ended === undefined)
        for (const base of record.bases)
          bases.set(base, `a claim of ${record.device}/${record.line} needs it`);
    return bases;
  }

  /** The broker's handler: resolves when the next message of this device may come. */
  async handle({ identity: { device }, topic, payload }: DeviceMessage): Promise<void> {
    const online = this.services.sessions.get(device);
    if (online === undefined) return;
    const isBlock = topic.kind === "block-up";
    let envelope: Envelope;
    try {
      envelope = decodeEnvelope(payload, {
        maxBytes: isBlock ? maxBlockBytes + blockOverheadBytes : maxMessageBytes,
      });
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      await this.#announcements.refuse(device, { code: error.code, message: error.message });
      return;
    }
    // A message of a session that is over (such as a late will) has no meaning in this one.
    if (envelope.session !== online.session) return;
    if (topic.kind === "block-up") {
      if (envelope.body.type === "block")
        this.services.scheduler.onBlock(device, topic.transfer, envelope.body);
      return;
    }
    await this.#handleMessage(device, online, envelope.body, envelope.correlation);
  }

  /** A connection of an admitted session is up. */
  connected(device: string): void {
    if (this.services.sessions.connected(device)?.isTakeOver === true) this.#interrupt(device);
  }

  /** A connection is gone. With the device's last connection, everything that needs one pauses. */
  disconnected(device: string): void {
    if (!this.services.sessions.disconnected(device, this.parts.clock.now())) return;
    this.#interrupt(device);
    this.parts.events.emit({ event: "device-disconnected", fleet: this.parts.repository.fleet, device });
    this.services.downloads.end(device);
    this.services.offers.ended(device);
  }

  /** See LiveFleet. */
  async forgetUploads(device: string): Promise<void> {
    await this.services.spools.forget(device);
  }

  /** Ends a device's connection immediately (revoked, quarantined). */
  async cutOff(device: string): Promise<void> {
    await this.parts.broker.disconnect({ fleet: this.parts.repository.fleet, device });
  }

  /**
   * Offers what was newly assigned to a device. A device that is not connected gets the offer with its next
   * birth.
   */
  async assigned(device: string, allowed?: string): Promise<void> {
    if (this.isOnline(device)) await this.services.offers.offerAll(device, allowed);
  }
  /** See LiveFleet. */
  fetching(versionId: Hash): ReadonlySet<string> {
    return this.services.downloads.fetching(versionId);
  }
  /** See LiveFleet. */
  settingsChanged(device: string): void {
    if (this.isOnline(device)) this.#greeting.bringSettings(device);
  }
  /** See LiveFleet. */
  get sendBytesPerSecond(): number | null {
    return this.parts.limits.sendBytesPerSecond;
  }
  /** See LiveFleet. */
  predict(
    summary: VersionSummary,
    line: string,
    devices: readonly string[],
  ): Promise<ReadonlyMap<string, PredictedBytes>> {
    return this.services.predictor.predict(summary, line, devices);
  }
  /** See LiveFleet. */
  releasePolicyOf(device: string): string | undefined {
    return this.services.sessions.get(device)?.birth?.releasePolicy;
  }
  /** Connected devices get the owner's releases, and again what is assigned to them. */
  releasesChanged(): Promise<void> {
    return this.#greeting.releasesChanged();
  }
  /** See LiveFleet. */
  restoreApproved(): Promise<void> {
    return this.#greeting.restoreApproved();
  }
  /** See LiveFleet. */
  cosigned(): Promise<void> {
    return this.#greeting.cosigned();
  }
  /** See LiveFleet. */
  timeStated(): Promise<void> {
    return this.#greeting.timeStated();
  }
  /** A recipe of the fleet's own was approved, or its approval revoked: connected devices are told. */
  recipesChanged(): void {
    this.#greeting.recipesChanged();
  }
  command(
    device: string,
    command: CommandToSend,
    timeoutMs: number,
  ): Promise<{ readonly code: string; readonly result: unknown }> {
    return this.services.commands.send(device, command, timeoutMs);
  }
  /**
   * The server itself saved a version: it is read back like any other, and parked children may wait for it.
   */
  saved(versionId: Hash): void {
    const { confirmations, scheduler } = this.services;
    confirmations.add(versionId);
    scheduler.baseIsKnown(versionId);
  }
  /** The replay of a claim ended: it is a version now, or the device is asked for the tensors. */
  async claimEnded(versionId: Hash): Promise<void> {
    const { repository } = this.parts;
    const summary = repository.get(versionId);
    if (summary !== undefined) {
      this.saved(versionId);
      await storeNamedEngine(repository, summary.record.uses?.engine).catch((error: unknown) => {
        this.parts.log.warn("engine-not-stored", { versionId, message: messageOf(error) });
      });
      await this.services.receipts.issue(summary, "recorded");
      return;
    }
    const claim = repository.claim(versionId);
    if (claim?.ended !== undefined && !claim.isDeviceGone) await this.#want(claim);
  }

  /** Asks a device for the tensors of its claims; their replays go on meanwhile. */
  async wantClaims(device: string): Promise<void> {
    for (const claim of this.parts.repository.claims())
      if (claim.record.device === device && !claim.isDeviceGone) await this.#want(claim);
  }

  /** A device that is not connected announces it again when it is. */
  async #want(claim: ClaimSummary): Promise<void> {
    const { claims, scheduler } = this.services;
    const { device } = claim.record;
    if (this.isOnline(device)) await scheduler.announced(device, await claims.wanted(claim));
  }

  /** A backup is complete: what it covers may be released. */
  backedUp(): void {
    this.services.confirmations.backedUp();
  }

  async close(): Promise<void> {
    const { commands, offers, downloads, codedDownloads, scheduler, confirmations, sessions } = this.services;
    this.#stopExpiry();
    offers.close();
    commands.end();
    downloads.end();
    await codedDownloads.close();
    await scheduler.close();
    await confirmations.close();
    sessions.clear();
  }

  #interrupt(device: string): void {
    this.services.scheduler.interrupt(device);
    this.services.commands.end(device);
  }

  async #handleMessage(device: string, online: OnlineDevice, body: Body, correlation: string): Promise<void> {
    const { scheduler, downloads, commands, sender, activations, doubts, offers } = this.services;
    doubts.heard(device, body, this.parts.clock.now());
    switch (body.type) {
      case "birth":
        return this.#greeting.born(device, online, body, correlation);
      case "announce":
        return this.#announcements.answer(device, body, correlation);
      case "manifest":
        scheduler.onManifest(device, body);
        return;
      case "activated": {
        const refusal = await activations.report(device, online.session, body);
        if (refusal !== undefined) return sender.refuse(device, refusal);
        offers.activated(device, body);
        // Agents that do not number their activations do not know the answer.
        if (body.number !== undefined)
          await sender.send(device, { type: "activationReceipt", line: body.line, number: body.number });
        return;
      }
      case "refusal":
        if (body.versionId !== undefined) scheduler.refusedByDevice(device, body.versionId, body.code);
        return;
      case "fetch":
        offers.answered(device, body.versionId);
        return downloads.fetch(device, body, correlation);
      case "blockRequest":
        downloads.onBlockRequest(device, body);
        return;
      case "transferDone":
        return downloads.endTransfer(device, body.transfer);
      case "commandResult":
        commands.onResult(device, correlation, body);
        return;
      case "event": {
        const { line, name, text, versionId } = body;
        const about = { fleet: this.parts.repository.fleet, device, line };
        const named = versionId === undefined ? {} : { versionId };
        if (versionId !== undefined) offers.answered(device, versionId);
        this.parts.events.emit({ event: "device-event", ...about, name, text, ...named });
        return;
      }
      // `state` is for the retained topic; messages that only a server sends have no meaning from a device.
      default:
        return;
    }
  }

  #expireLater(): void {
    const { scheduler, spools } = this.services;
    this.#stopExpiry = this.parts.clock.after(expiryCheckMs, () => {
      scheduler.expire();
      spools.expire().catch((error: unknown) => {
        this.parts.log.warn("spool-expiry-failed", { message: messageOf(error) });
      });
      this.#expireLater();
    });
  }
}

function countedBy<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const item of items) counts[keyOf(item)] = (counts[keyOf(item)] ?? 0) + 1;
  return counts;
}
