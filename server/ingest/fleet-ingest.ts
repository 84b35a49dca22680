/**
 * The ingest of one fleet: takes what its devices say apart and answers it. Words come one by one for
 * each device; what takes long runs beside. State that matters is in the repository and the spool, so
 * that this may be killed at any moment.
 */
import { isStemmaError, type StemmaError } from "../../shared/errors.js";
import type { Clock, Files, Log, Random } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { decodeEnvelope } from "../../shared/wire/codec.js";
import {
  blockOverheadBytes,
  maxBlockBytes,
  maxMessageBytes,
  protocolVersion,
} from "../../shared/wire/limits.js";
import type {
  Activated,
  Announce,
  Birth,
  Body,
  Envelope,
  LineHead,
  ReceiptKind,
} from "../../shared/wire/messages.js";
import { WindowBudget } from "../../shared/wire/transfer/window-budget.js";
import type { BrokerPort, DeviceMessage } from "../broker/broker-port.js";
import type { EventHub } from "../events/event-hub.js";
import type { ServerSigner } from "../repository/home.js";
import type { FleetRepository, VersionSummary } from "../repository/fleet-repository.js";
import { Admission } from "./admission.js";
import { judgeAnnouncement, type Accepted } from "./announcement.js";
import { CodedOutflows } from "./coded-outflows.js";
import { CommandRelay } from "./commands.js";
import { startConfirmations, type Confirmations, type ReleasePolicy } from "./confirmations.js";
import type { IngestLimits } from "./limits.js";
import { LineIndex } from "./line-index.js";
import { Offers } from "./offers.js";
import { makeReceipt, receiptKindsOf } from "./receipts.js";
import { UploadScheduler } from "./upload-scheduler.js";
import { openSpoolFolder } from "./spool.js";
import { deviceSender, type SessionPlace, type DeviceSender } from "./device-sender.js";

export interface FleetIngestParts {
  readonly root: string;
  readonly repository: FleetRepository;
  readonly signer: ServerSigner;
  readonly broker: Pick<BrokerPort, "publish" | "disconnect">;
  readonly clock: Clock;
  readonly random: Random;
  readonly files: Files;
  readonly log: Log;
  readonly events: EventHub;
  readonly limits: IngestLimits;
  /** One for all fleets of the process. */
  readonly budget: WindowBudget;
  readonly spoolFolder: string;
  readonly releasePolicy: ReleasePolicy;
  readonly serverVersion: string;
  /** The journal refuses further facts: nothing may be acknowledged until it is reopened. */
  onFatal(error: StemmaError): void;
}

/** What this process knows of a device that is connected. */
interface Online extends SessionPlace {
  birth: Birth | undefined;
}

export class FleetIngest {
  readonly admission: Admission;
  readonly #online = new Map<string, Online>();
  /** Sessions that were admitted and whose connection is not up yet. */
  readonly #admitted = new Map<string, number>();
  /** Connections of a device: for a moment two, when one takes over. */
  readonly #connections = new Map<string, number>();
  readonly #voice: DeviceSender;
  readonly #desk: UploadScheduler;
  readonly #confirmations: Confirmations;
  readonly #offers: Offers;
  readonly #commands: CommandRelay;
  readonly #lines: LineIndex;
  #stopExpiry: () => void = () => undefined;

  static async start(parts: FleetIngestParts): Promise<FleetIngest> {
    const spools = await openSpoolFolder(parts, parts.spoolFolder, parts.limits);
    const { repository, files, log, limits } = parts;
    const coded = await CodedOutflows.open({
      repository,
      files,
      log,
      limits,
      folder: `${parts.spoolFolder}-out`,
    });
    const ingest = new FleetIngest(parts, spools, coded);
    // What was recorded before a crash and not read back yet.
    for (const summary of parts.repository.versions())
      if (summary.state === "recorded" || summary.state === "stored")
        ingest.#confirmations.add(summary.versionId);
    ingest.#expireLater();
    return ingest;
  }

  private constructor(
    private readonly parts: FleetIngestParts,
    private readonly spools: Awaited<ReturnType<typeof openSpoolFolder>>,
    private readonly coded: CodedOutflows,
  ) {
    const { root, repository, clock, log, random, events, limits, signer, budget } = parts;
    const { fleet } = repository;
    this.#lines = new LineIndex(repository.versions({ includeRetired: true }));
    this.#voice = deviceSender({ root, fleet }, parts.broker, (device) => this.#online.get(device), log);
    this.admission = new Admission({
      root,
      repository,
      clock,
      log,
      admitted: (device, session) => {
        this.#admitted.set(device, session);
      },
      quarantined: (device, because) => {
        events.emit({ event: "device-quarantined", fleet, device, because });
        log.warn("device-quarantined", { device, because });
        void this.cutOff(device);
      },
    });
    this.#commands = new CommandRelay(this.#voice, clock, random);
    this.#offers = new Offers({
      repository,
      signer,
      voice: this.#voice,
      clock,
      limits,
      coded,
      offered: (device, line, versionId) => events.emit({ event: "offered", fleet, device, line, versionId }),
    });
    this.#confirmations = startConfirmations({
      repository,
      log,
      atOnce: limits.confirmations,
      bytesAtOnce: limits.confirmationBytes,
      policyOf: () => parts.releasePolicy,
      stored: (summary) => {
        void this.#receipt(summary, "stored");
      },
      released: (summary) => {
        void this.#receipt(summary, "released");
      },
      damaged: (versionId, error) => {
        const code = isStemmaError(error) ? error.code : "INTERNAL";
        const { device = "", line = "" } = repository.get(versionId)?.record ?? {};
        log.error("model-damaged", { versionId, code, message: messageOf(error) });
        events.emit({ event: "damaged", fleet, device, line, versionId, code, message: messageOf(error) });
      },
    });
    this.#desk = new UploadScheduler({
      repository,
      spools,
      budget,
      voice: this.#voice,
      clock,
      random,
      log,
      limits,
      events,
      recorded: (summary) => {
        this.#lines.note(summary);
        this.#confirmations.add(summary.versionId);
        void this.#receipt(summary, "recorded");
      },
      again: (device, summary) => {
        void this.#answerAgain(device, summary);
      },
      failed: (error) => {
        this.#watch(error);
      },
    });
  }

  isOnline(device: string): boolean {
    return this.#online.has(device);
  }
  get onlineCount(): number {
    return this.#online.size;
  }
  get figures(): {
    readonly receptions: number;
    readonly parked: number;
    readonly confirming: number;
    readonly spoolBytes: number;
  } {
    return {
      receptions: this.#desk.active,
      parked: this.#desk.parked,
      confirming: this.#confirmations.waiting,
      spoolBytes: this.spools.bytes,
    };
  }

  /** Versions that retention leaves alone for now, and why. */
  underWay(): ReadonlyMap<Hash, string> {
    return this.#desk.basesUnderWay();
  }

  /** The broker's handler: resolves when the next message of this device may come. */
  async handle({ identity: { device }, topic, payload }: DeviceMessage): Promise<void> {
    const online = this.#online.get(device);
    if (online === undefined) return;
    const isBlock = topic.kind === "block-up";
    let envelope: Envelope;
    try {
      envelope = decodeEnvelope(payload, {
        maxBytes: isBlock ? maxBlockBytes + blockOverheadBytes : maxMessageBytes,
      });
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      await this.#refuse(device, error);
      return;
    }
    // A word of a session that is over (a late will among them) says nothing about this one.
    if (envelope.session !== online.session) return;
    if (topic.kind === "block-up") {
      if (envelope.body.type === "block") this.#desk.onBlock(device, topic.transfer, envelope.body);
      return;
    }
    await this.#word(device, online, envelope.body, envelope.correlation);
  }

  /** A connection of an admitted session is up. */
  connected(device: string): void {
    const session = this.#admitted.get(device);
    if (session === undefined) return;
    this.#admitted.delete(device);
    this.#connections.set(device, (this.#connections.get(device) ?? 0) + 1);
    if (this.#online.has(device)) this.#end(device);
    this.#online.set(device, { session, sequence: 0, birth: undefined });
  }

  /**
   * A connection is gone: with the last one, everything that needed it pauses. One that was taken over may
   * end after its successor began.
   */
  async disconnected(device: string): Promise<void> {
    const left = (this.#connections.get(device) ?? 0) - 1;
    if (left > 0) {
      this.#connections.set(device, left);
      return;
    }
    this.#connections.delete(device);
    if (!this.#online.delete(device)) return;
    this.#end(device);
    this.parts.events.emit({ event: "device-disconnected", fleet: this.parts.repository.fleet, device });
    await this.#offers.gone(device);
  }

  /** Ends a device's connection at once (revoked, quarantined). */
  async cutOff(device: string): Promise<void> {
    await this.parts.broker.disconnect({ fleet: this.parts.repository.fleet, device });
  }

  /**
   * Offers what was newly assigned to a device that is connected; one that is not gets it with its next
   * birth.
   */
  async assigned(device: string, line: string, versionId: Hash): Promise<void> {
    this.#offers.given(device, line, versionId);
    if (this.isOnline(device)) await this.#offers.offerAll(device);
  }
  command(
    device: string,
    name: string,
    body: unknown,
    timeoutMs: number,
  ): Promise<{ readonly code: string; readonly result: unknown }> {
    return this.#commands.send(device, name, body, timeoutMs);
  }
  /**
   * A version was saved by the server itself: it is read back like any other, and children may wait for it.
   */
  saved(versionId: Hash): void {
    const summary = this.parts.repository.get(versionId);
    if (summary !== undefined) this.#lines.note(summary);
    this.#confirmations.add(versionId);
    this.#desk.baseIsKnown(versionId);
  }
  backedUp(): void {
    this.#confirmations.backedUp();
  }

  async close(): Promise<void> {
    this.#stopExpiry();
    this.#commands.gone();
    await this.#offers.gone();
    await this.coded.idle();
    await this.#desk.close();
    await this.#confirmations.close();
    this.#online.clear();
  }

  #end(device: string): void {
    this.#desk.interrupt(device);
    this.#commands.gone(device);
  }

  async #word(device: string, online: Online, body: Body, correlation: string): Promise<void> {
    switch (body.type) {
      case "birth":
        return this.#born(device, online, body);
      case "announce":
        return this.#announced(device, body, correlation);
      case "manifest":
        this.#desk.onManifest(device, body);
        return;
      case "activated":
        return this.#activated(device, online.session, body);
      case "refusal":
        if (body.versionId !== undefined) this.#desk.refusedByDevice(device, body.versionId, body.code);
        return;
      case "fetch":
        return this.#offers.fetch(device, body, correlation);
      case "blockRequest":
        this.#offers.request(device, body);
        return;
      case "transferDone":
        return this.#offers.done(device, body.transfer);
      case "commandResult":
        this.#commands.result(device, correlation, body);
        return;
      case "event":
        this.parts.events.emit({
          event: "device-event",
          fleet: this.parts.repository.fleet,
          device,
          line: body.line,
          name: body.name,
          text: body.text,
        });
        return;
      // `state` is for the retained topic; what only a server says means nothing from a device.
      default:
        return;
    }
  }

  async #born(device: string, online: Online, birth: Birth): Promise<void> {
    const { repository, clock, limits, serverVersion, events } = this.parts;
    const first = online.birth === undefined;
    online.birth = birth;
    if (first)
      events.emit({
        event: "device-connected",
        fleet: repository.fleet,
        device,
        session: online.session,
        profile: birth.profile,
      });
    const restored = repository.restoredTo();
    await this.#voice.say(device, {
      type: "welcome",
      serverVersion,
      protocol: protocolVersion,
      head: repository.journal.signedHead(),
      clockMs: clock.now(),
      restored: restored !== null,
      restoredPosition: restored?.position ?? 0,
      known: this.#headsOf(device),
      blockBytes: limits.blockBytes,
      window: limits.window,
    });
    await this.#offers.offerAll(
      device,
      birth.heads.flatMap(({ activeVersionId }) => activeVersionId ?? []),
    );
  }

  #headsOf(device: string): readonly LineHead[] {
    const known = this.parts.repository.device(device);
    return (known?.lines ?? []).flatMap((line) => {
      const head = this.#lines.head(device, line);
      return head === undefined
        ? []
        : [
            {
              line,
              sequence: head.sequence,
              versionId: head.versionId,
              activeVersionId: known?.active[line]?.versionId,
            },
          ];
    });
  }

  async #announced(device: string, announce: Announce, correlation: string): Promise<void> {
    const { repository, limits, events } = this.parts;
    const known = repository.device(device);
    if (known === undefined) return;
    const versionAt = (line: string, sequence: number): Hash | undefined => {
      const place = this.#lines.at(device, line, sequence);
      return place !== undefined && place.recordedAtMs >= known.enrolledAtMs ? place.versionId : undefined;
    };
    const judged = judgeAnnouncement(
      announce,
      { fleet: repository.fleet, device, publicKey: known.publicKey, lines: known.lines, versionAt },
      limits,
    );
    if (judged.verdict === "refused") {
      events.emit({
        event: "refused",
        fleet: repository.fleet,
        device,
        versionId: judged.versionId,
        code: judged.code,
        message: judged.message,
      });
      await this.#voice.refuse(device, judged, correlation);
      return;
    }
    const summary = repository.get(judged.versionId);
    if (summary !== undefined) return this.#answerAgain(device, summary);
    this.#emitAnnounced(device, judged);
    await this.#desk.announced(device, judged);
  }
  #emitAnnounced(device: string, { versionId, record, tensorBytes }: Accepted): void {
    this.parts.events.emit({
      event: "announced",
      fleet: this.parts.repository.fleet,
      device,
      line: record.line,
      name: record.name,
      versionId,
      tensorBytes,
    });
  }

  /** The same announcement again: the same receipts. */
  async #answerAgain(device: string, summary: VersionSummary): Promise<void> {
    for (const kind of receiptKindsOf(summary.state)) await this.#sendReceipt(device, summary, kind);
    if (summary.state === "recorded" || summary.state === "stored")
      this.#confirmations.add(summary.versionId);
  }

  /** Tells the device and whoever watches. The desk has told the figures of `recorded` itself. */
  async #receipt(summary: VersionSummary, kind: ReceiptKind): Promise<void> {
    const { record, versionId, name, version, tensorBytes } = summary;
    if (kind !== "recorded")
      this.parts.events.emit({
        event: kind,
        fleet: this.parts.repository.fleet,
        device: record.device,
        line: record.line,
        versionId,
        name,
        version,
        wireBytes: 0,
        tensorBytes,
        tookMs: 0,
      });
    await this.#sendReceipt(record.device, summary, kind);
  }
  async #sendReceipt(device: string, summary: VersionSummary, kind: ReceiptKind): Promise<void> {
    const online = this.#online.get(device);
    if (online !== undefined)
      await this.#voice.say(
        device,
        makeReceipt(this.parts.repository, this.parts.signer, summary, kind, online.session),
      );
  }

  async #activated(
    device: string,
    session: number,
    { versionId, line, atMs, clockErrorMs }: Activated,
  ): Promise<void> {
    const { repository, clock, events } = this.parts;
    const summary = repository.get(versionId);
    const known = repository.device(device);
    const refuse = (
      code: "IDENTITY_FOREIGN" | "MODEL_NOT_FOUND",
      message: string,
      retryAfterMs?: number,
    ): Promise<void> => this.#voice.refuse(device, { code, message, versionId, retryAfterMs });
    if (known === undefined || !known.lines.includes(line))
      return refuse("IDENTITY_FOREIGN", `The device has no line "${line}".`);
    // `after-outbox` activates before the server knows the version: the word comes again after its receipt.
    // After a restore it may speak of one that was lost: kept, so that nobody is told an older version ran
    // then.
    if (summary === undefined && repository.restoredTo() === null)
      return refuse(
        "MODEL_NOT_FOUND",
        `The version ${versionId} is not known here yet. Report its activation again after its receipt.`,
        30_000,
      );
    const foreign =
      summary !== undefined &&
      summary.record.device !== device &&
      repository.assignment(device, line) !== versionId &&
      !this.#wasGiven(device, line, versionId);
    if (foreign)
      return refuse(
        "IDENTITY_FOREIGN",
        `The version ${versionId} is neither of this device nor given to it.`,
      );
    try {
      await repository.append({
        type: "activated",
        atMs: clock.now(),
        versionId,
        device,
        line,
        deviceAtMs: atMs,
        deviceClockErrorMs: clockErrorMs,
        session,
      });
    } catch (error) {
      this.#watch(error);
      throw error;
    }
    this.#offers.activated(device, line, versionId);
    events.emit({ event: "activated", fleet: repository.fleet, device, line, versionId });
  }
  /** Something else was assigned meanwhile, but the device has built on this version or runs it. */
  #wasGiven(device: string, line: string, versionId: Hash): boolean {
    const { repository } = this.parts;
    return (
      repository.device(device)?.active[line]?.versionId === versionId ||
      repository
        .versions({ device, line, includeRetired: true })
        .some(({ record }) => record.bases.includes(versionId))
    );
  }

  async #refuse(device: string, error: StemmaError): Promise<void> {
    this.parts.events.emit({
      event: "refused",
      fleet: this.parts.repository.fleet,
      device,
      versionId: null,
      code: error.code,
      message: error.message,
    });
    await this.#voice.refuse(device, { code: error.code, message: error.message });
  }
  #watch(error: unknown): void {
    if (isStemmaError(error, "JOURNAL_STOPPED")) this.parts.onFatal(error);
  }
  #expireLater(): void {
    this.#stopExpiry = this.parts.clock.after(60_000, () => {
      this.#desk.expire();
      this.spools.expire().catch((error: unknown) => {
        this.parts.log.warn("spool-expiry-failed", { message: messageOf(error) });
      });
      this.#expireLater();
    });
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
