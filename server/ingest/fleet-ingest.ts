/**
 * The ingest of one fleet: decodes its devices' messages and passes each to the part that answers it. The
 * messages of one device are handled in order; long work runs concurrently. All state that matters is in the
 * repository and the spool, so the process may be killed at any moment.
 */
import { historyWarning } from "./history-warning.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import { partsOf } from "../../shared/trust/releases/release-set.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { decodeEnvelope } from "../../shared/wire/codec.js";
import {
  blockOverheadBytes,
  maxBlockBytes,
  maxMessageBytes,
  protocolVersion,
} from "../../shared/wire/limits.js";
import type { Announce, Birth, Body, Envelope, LineHead, Welcome } from "../../shared/wire/messages.js";
import type { ClaimSummary } from "../repository/claim.js";
import type { VersionSummary } from "../repository/answers/version-answers.js";
import type { CommandToSend, PredictedBytes } from "../context/operations-context.js";
import { storeNamedEngine } from "../context/own-engine.js";
import type { DeviceMessage } from "../broker/broker-port.js";
import type { Admission } from "./admission.js";
import { judgeAnnouncement, type Accepted } from "./announcement.js";
import {
  answerRecorded,
  composeIngest,
  type FleetIngestParts,
  type IngestServices,
} from "./compose-ingest.js";
import type { DeviceDoubt } from "./device-doubts.js";
import type { RefusalDetails } from "./device-sender.js";
import { diskFull, overFactQuota } from "./device-quota.js";
import type { OnlineDevice } from "./device-sessions.js";
import { refusalOfRecipe } from "./recipe-sync.js";

export interface IngestFigures {
  readonly receptions: number;
  readonly parked: number;
  readonly confirming: number;
  readonly spoolBytes: number;
  /** Length of the journal. */
  readonly facts: number;
  /** How many, by state; states that no device has are absent. Looks at every device. */
  devices(): Readonly<Record<string, number>>;
  /** How many, by phase; phases that no rollout is in are absent. */
  rollouts(): Readonly<Record<string, number>>;
}

/** Milliseconds between two checks for parked announcements and spools that have expired. */
const expiryCheckMs = 60_000;

export class FleetIngest {
  #stopExpiry: () => void = () => undefined;

  static async start(parts: FleetIngestParts): Promise<FleetIngest> {
    const services = await composeIngest(parts);
    // Versions that were recorded before a crash and not read back yet.
    for (const summary of parts.repository.versions())
      if (summary.state === "recorded" || summary.state === "stored")
        services.confirmations.add(summary.versionId);
    const ingest = new FleetIngest(parts, services);
    ingest.#expireLater();
    return ingest;
  }

  private constructor(
    private readonly parts: FleetIngestParts,
    private readonly services: IngestServices,
  ) {}

  get admission(): Admission {
    return this.services.admission;
  }
  isOnline(device: string): boolean {
    return this.services.sessions.get(device) !== undefined;
  }
  /** Why a device does not believe this server; undefined: it has not reported that. */
  doubtOf(device: string): DeviceDoubt | undefined {
    return this.services.doubts.get(device);
  }
  /** See LiveFleet. */
  seenAtMs(device: string): number | undefined {
    return this.services.sessions.seenAtMs(device, this.parts.clock.now());
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
      await this.#refuse(device, { code: error.code, message: error.message });
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
  settingsChanged(device: string): void {
    if (this.isOnline(device)) this.#bringSettings(device);
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
  /** Sends the owner's releases to connected devices, and offers again what is assigned to them. */
  async releasesChanged(): Promise<void> {
    for (const [device, online] of this.services.sessions.all()) {
      if (online.birth === undefined) continue;
      await this.#sendReleases(device, online.birth);
      await this.services.offers.offerAll(device);
      this.#bringRecipes(device);
    }
  }
  /** See LiveFleet. Answers their last birth again, with the signature. */
  async restoreApproved(): Promise<void> {
    for (const [device, online] of this.services.sessions.all())
      if (online.birth !== undefined && online.isUnproven === true)
        await this.#born(device, online, online.birth, online.challenge ?? "");
  }
  /** A recipe of the fleet's own was approved, or its approval revoked: connected devices are told. */
  recipesChanged(): void {
    for (const [device, online] of this.services.sessions.all())
      if (online.birth !== undefined) this.#bringRecipes(device);
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
    const { lines, confirmations, scheduler } = this.services;
    const summary = this.parts.repository.get(versionId);
    if (summary !== undefined) lines.add(summary);
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
    const { commands, downloads, codedDownloads, scheduler, confirmations, sessions } = this.services;
    this.#stopExpiry();
    commands.end();
    downloads.end();
    await codedDownloads.idle();
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
        return this.#born(device, online, body, correlation);
      case "announce":
        return this.#announced(device, body, correlation);
      case "manifest":
        scheduler.onManifest(device, body);
        return;
      case "activated": {
        const refusal = await activations.report(device, online.session, body);
        if (refusal !== undefined) await sender.refuse(device, refusal);
        else offers.activated(device, body);
        return;
      }
      case "refusal":
        if (body.versionId !== undefined) scheduler.refusedByDevice(device, body.versionId, body.code);
        return;
      case "fetch":
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
        this.parts.events.emit({ event: "device-event", ...about, name, text, ...named });
        return;
      }
      // `state` is for the retained topic; messages that only a server sends have no meaning from a device.
      default:
        return;
    }
  }

  async #born(device: string, online: OnlineDevice, birth: Birth, challenge: string): Promise<void> {
    const { repository, clock, limits, serverVersion, events } = this.parts;
    const { sender, offers, proofs } = this.services;
    // A birth that an earlier enrolment left at an external broker.
    const { generation = repository.device(device)?.generation } = birth;
    if (generation !== repository.device(device)?.generation) return;
    const isFirst = online.birth === undefined;
    online.birth = birth;
    if (isFirst)
      events.emit({
        event: "device-connected",
        fleet: repository.fleet,
        device,
        session: online.session,
        profile: birth.profile,
      });
    const history = await proofs.welcome(birth);
    // Another connection may have taken over meanwhile.
    if (this.services.sessions.get(device) !== online) return;
    offers.born(device, birth.heads);
    online.provenLength = history.head?.length;
    online.challenge = challenge;
    online.isUnproven = history.start === undefined;
    if (isFirst && history.start === undefined) this.#noteOtherHistory(device, birth);
    const restored = repository.restores().at(-1);
    const welcome: Welcome = {
      type: "welcome",
      serverVersion,
      protocol: protocolVersion,
      ...history,
      clockMs: clock.now(),
      restored: restored !== undefined,
      restoredPosition: restored?.position ?? 0,
      known: this.#headsOf(device),
      blockBytes: limits.blockBytes,
      window: limits.window,
    };
    await sender.send(device, welcome, challenge);
    await this.#sendReleases(device, birth);
    await offers.offerAll(device);
    this.#bringSettings(device);
    this.#bringRecipes(device);
  }

  /** Not awaited: the answer comes behind other messages of the device. */
  #bringSettings(device: string): void {
    this.services.settings.bring(device).catch((error: unknown) => {
      this.parts.log.error("settings-failed", { device, message: messageOf(error) });
    });
  }

  /** Not awaited, as settings. */
  #bringRecipes(device: string): void {
    this.services.recipes.bring(device).catch((error: unknown) => {
      this.parts.log.error("recipes-failed", { device, message: messageOf(error) });
    });
  }

  /** The metadata of releases, before offers that need it. A device that looks at none is sent none. */
  async #sendReleases(device: string, { releasePolicy, releaseSet }: Birth): Promise<void> {
    if (releasePolicy === undefined) return;
    const releases = await this.parts.repository.releases();
    const parts = releases === undefined ? [] : partsOf(releases.set);
    if (parts[0]?.set === releaseSet) return;
    for (const part of parts) await this.services.sender.send(device, part);
  }

  /** The device believes this server only if a restore explains it, which it has not seen yet. */
  #noteOtherHistory(device: string, birth: Birth): void {
    const { repository, log } = this.parts;
    const { level, name, text } = historyWarning(device, birth, repository.restores());
    log[level](name, {
      device,
      seen: birth.seenJournalLength,
      length: repository.journal.head().length,
      text,
    });
  }

  #headsOf(device: string): readonly LineHead[] {
    const known = this.parts.repository.device(device);
    return (known?.lines ?? []).flatMap((line) => {
      const head = this.services.lines.head(device, line, known?.generation);
      const activeVersionId = known?.active[line]?.versionId;
      if (head === undefined && activeVersionId === undefined) return [];
      return [{ line, sequence: head?.sequence ?? 0, versionId: head?.versionId, activeVersionId }];
    });
  }

  async #announced(device: string, announce: Announce, correlation: string): Promise<void> {
    const { repository, limits } = this.parts;
    const known = repository.device(device);
    if (known === undefined) return;
    const versionAt = (line: string, sequence: number): Hash | undefined => {
      const version = this.services.lines.find(device, line, sequence);
      return version?.generation === known.generation ? version.versionId : undefined;
    };
    const judged = judgeAnnouncement(
      announce,
      {
        fleet: repository.fleet,
        device,
        generation: known.generation,
        publicKey: known.publicKey,
        lines: known.lines,
        versionAt,
      },
      limits,
    );
    if (judged.verdict === "refused") {
      await this.#refuse(device, judged, correlation);
      return;
    }
    const summary = repository.get(judged.versionId);
    if (summary !== undefined) return answerRecorded(this.services, device, summary);
    const claim = repository.claim(judged.versionId);
    // Announced without a claim, or after its replay gave no proof: the tensors are wanted.
    if (claim !== undefined && judged.isClaim && claim.ended === undefined)
      return this.services.receipts.claimed(claim);
    const refusal = refusalOfRecipe(repository, device, judged.record);
    if (refusal !== undefined)
      return this.#refuse(device, { ...refusal, versionId: judged.versionId }, correlation);
    if (!(await this.parts.hasDiskSpace())) {
      await this.#refuse(device, diskFull(judged.versionId), correlation);
      return;
    }
    const retryAfterMs = this.services.quota.waitMs(device);
    if (retryAfterMs > 0)
      return this.services.sender.refuse(
        device,
        { ...overFactQuota(retryAfterMs), versionId: judged.versionId },
        correlation,
      );
    this.#emitAnnounced(device, judged);
    await this.services.scheduler.announced(device, {
      ...judged,
      isClaim: judged.isClaim && claim === undefined,
    });
  }
  #emitAnnounced(device: string, { versionId, record, declared }: Accepted): void {
    this.parts.events.emit({
      event: "announced",
      fleet: this.parts.repository.fleet,
      device,
      line: record.line,
      name: record.name,
      versionId,
      tensorBytes: declared.tensorBytes,
    });
  }

  async #refuse(device: string, refusal: RefusalDetails, correlation?: string): Promise<void> {
    const { fleet } = this.parts.repository;
    const { code, message, versionId = null } = refusal;
    this.parts.events.emit({ event: "refused", fleet, device, versionId, code, message });
    await this.services.sender.refuse(device, refusal, correlation);
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
