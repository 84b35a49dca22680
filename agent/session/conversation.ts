/**
 * What is said in a session: birth, then everything the server does not know, its wants answered, its
 * receipts verified and kept. Every word of the server's may be lost, doubled or late. Knows the
 * outbox, the link as a function, and what to tell the agent; no files, no sockets.
 */
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { isErrorCode, isStemmaError, StemmaError } from "../../shared/errors.js";
import type { Clock, Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { keyOfSeed, type Signer } from "../../shared/trust/keys.js";
import { verifyHead, verifyReceipt } from "../../shared/trust/signatures.js";
import type {
  BodyOf,
  Body,
  Birth,
  Command,
  CommandResult,
  Envelope,
  LineHead,
  Offer,
  Receipt,
  Refusal,
  Want,
  Welcome,
} from "../../shared/wire/messages.js";
import type { ClockError } from "./clock-error.js";
import { activationsToReport } from "../lines/activation.js";
import { announcementOf } from "../outbox/announcement.js";
import {
  afterAnnouncing,
  afterAnswer,
  decideAnnouncements,
  type Answer,
  type Attempt,
  type Attempts,
} from "../outbox/announcer.js";
import type { Outbox } from "../outbox/outbox.js";
import { activeVersion, lostByRestore, unreleased } from "../outbox/outbox-state.js";
import type { Uploads } from "../outbox/uploads.js";
import { judgeHistory } from "./server-history.js";
import { WantParts } from "./want-parts.js";

export interface ConversationOptions {
  readonly enrolment: Enrolment;
  readonly outbox: Outbox;
  readonly uploads: Uploads;
  readonly clock: Clock;
  readonly clockError: ClockError;
  readonly log: Log;
  /** The parts of a birth that the outbox does not know. */
  readonly birth: () => Pick<Birth, "agentVersion" | "profile" | "runtime" | "oldestProtocol">;
  send(body: Body, options?: { readonly correlation?: string }): boolean;
  /** The server will not have this device for now. */
  onNotAdmitted(why: string): void;
}

export interface ConversationHandlers {
  /** A receipt of one of this line's versions is kept. */
  onReceipt(line: string, receipt: Receipt): void;
  /**
   * `isEcho`: the server does not know yet that the line ran this version already; no order to go back to it.
   */
  onOffer(offer: Offer, isEcho: boolean): void;
  onManifest(part: BodyOf<"manifest">): void;
  /** The server will not serve a transfer. Returns whether it was one of ours. */
  onTransferRefused(transfer: string, error: StemmaError): boolean;
  onCommand(command: Command): Promise<CommandResult>;
  /** Something to tell a person and the server: refused, lost, distrusted. */
  onEvent(name: string, text: string, line: string): void;
}

/** For so long after a welcome an offer may have been made before the server heard what this device ran. */
const echoMs = 60_000;
/** A birth without a welcome is repeated after this long. */
const welcomeMs = 30_000;
/** A version whose blocks move is left alone for this long after the last request. */
const movingMs = 60_000;
/** After a receipt: when to ask again for the next one. */
const nextReceiptMs = 120_000;

export class Conversation {
  readonly #device: Signer;
  readonly #wants = new WantParts();
  #session = 0;
  #open = false;
  #welcomed = false;
  #distrusted = false;
  #attempts: Attempts = new Map();
  #known = new Map<string, LineHead>();
  /** Activations of each line that this session has told or need not tell. */
  readonly #reported = new Map<string, number>();
  /** What lines had run at the welcome and the server did not know of. */
  #untold: ReadonlySet<Hash> = new Set();
  #welcomedAtMs = 0;
  #bornAtMs = 0;
  #wakeAtMs = Infinity;
  #cancelWake: (() => void) | undefined;
  /** Words are handled one after the other; a journal write in between keeps its order. */
  readonly #queue = new SerialQueue();

  constructor(
    private readonly options: ConversationOptions,
    private readonly handlers: ConversationHandlers,
  ) {
    this.#device = keyOfSeed(options.enrolment.deviceSeed);
  }

  get isWelcomed(): boolean {
    return this.#open && this.#welcomed;
  }
  /** What became of a version's announcement in this session. */
  attempt(versionId: Hash): Attempt | undefined {
    return this.#attempts.get(versionId);
  }

  onOpen(session: number): void {
    this.#session = session;
    this.#open = true;
    this.#welcomed = false;
    this.#distrusted = false;
    this.#attempts = new Map();
    this.#known = new Map();
    this.#reported.clear();
    this.#wants.clear();
    this.options.uploads.reconnected();
    this.#sayBirth();
  }

  onClosed(): void {
    this.#open = false;
    this.#welcomed = false;
    this.#cancelWake?.();
    this.#wakeAtMs = Infinity;
  }

  /** Something changed in the outbox: whatever is due is said. */
  onOutboxChange(): void {
    this.#enqueue(() => this.#announceDue());
  }

  receive(envelope: Envelope): void {
    this.#enqueue(() => this.#hear(envelope));
  }

  /** Resolves when all that was heard has been handled. */
  async idle(): Promise<void> {
    await this.#queue.idle();
  }

  #enqueue(action: () => Promise<void>): void {
    this.#queue.run(action).catch((error: unknown) => {
      if (isStemmaError(error))
        this.options.log.warn("word-not-handled", { code: error.code, text: error.message });
      else this.options.log.error("word-not-handled", { text: (error as Error).stack ?? String(error) });
    });
  }

  async #hear({ body, correlation, session }: Envelope): Promise<void> {
    if (!this.#open || session !== this.#session) return;
    switch (body.type) {
      case "welcome":
        return this.#welcome(body);
      case "want":
        return this.#want(body, correlation);
      case "blockRequest":
        this.#blocksAsked(body);
        return;
      case "receipt":
        return this.#receipt(body);
      case "refusal":
        return this.#refusal(body);
      case "parked":
        this.#answered(body.versionId, { phase: "parked", retryInMs: Math.max(body.expiresMs, 1000) });
        return this.#announceDue();
      case "transferDone":
        return this.options.uploads.end(body.transfer);
      case "manifest":
        this.handlers.onManifest(body);
        return;
      case "offer":
        this.handlers.onOffer(body, this.#isEcho(body));
        return;
      case "command":
        this.#command(body, correlation);
        return;
      // What only a device says means nothing here.
      default:
        return;
    }
  }

  #sayBirth(): void {
    const { outbox, clock, clockError, birth } = this.options;
    const { state } = outbox;
    this.#bornAtMs = clock.monotonic();
    const heads = this.options.enrolment.lines.map((line): LineHead => ({
      line,
      sequence: state.lines.get(line)?.sequence ?? 0,
      versionId: outbox.newest(line)?.versionId,
      activeVersionId: activeVersion(state, line),
    }));
    const waiting = unreleased(state).length;
    this.options.send({
      type: "birth",
      ...birth(),
      heads,
      seenJournalLength: state.seen?.length ?? 0,
      seenJournalChain: state.seen?.chain,
      unreleased: waiting,
      clockMs: Math.round(clock.now()),
      clockErrorMs: clockError.errorMs(clock.monotonic()),
    });
    this.#wakeAt(this.#bornAtMs + welcomeMs);
  }

  async #welcome(welcome: Welcome): Promise<void> {
    const { outbox, clock, clockError, enrolment, log } = this.options;
    if (welcome.head !== undefined) verifyHead(enrolment.serverPublicKey, welcome.head);
    clockError.compare(welcome.clockMs, this.#bornAtMs, clock.now(), clock.monotonic());
    const history = judgeHistory(outbox.state, welcome);
    this.#distrusted = history.verdict === "rewritten";
    if (history.verdict === "rewritten") {
      this.handlers.onEvent("server-history-rewritten", history.text, "");
      return;
    }
    if (history.verdict === "restored") await this.#serverWasRestored(history.position);
    if (welcome.head !== undefined && welcome.head.length !== outbox.state.seen?.length)
      await outbox.append({
        type: "seen",
        atMs: Math.round(clock.now()),
        length: welcome.head.length,
        chain: welcome.head.chain,
      });
    this.#known = new Map(welcome.known.map((head) => [head.line, head]));
    if (!this.#welcomed)
      log.info("welcomed", {
        session: this.#session,
        text: `the server ${welcome.serverVersion} answers in session ${this.#session}`,
      });
    this.#welcomed = true;
    this.#welcomedAtMs = clock.monotonic();
    this.#untold = new Set(
      enrolment.lines.flatMap((line) =>
        activationsToReport(outbox.state, line, this.#known.get(line)?.activeVersionId).map(
          ({ versionId }) => versionId,
        ),
      ),
    );
    this.#reported.clear();
    await this.#announceDue();
  }

  async #serverWasRestored(position: number): Promise<void> {
    const { outbox, clock } = this.options;
    const lost = lostByRestore(outbox.state, position);
    await outbox.append({ type: "restored", atMs: Math.round(clock.now()), position });
    this.handlers.onEvent(
      "server-restored",
      `the server was restored to position ${position}; everything it recorded after that is announced again`,
      "",
    );
    for (const entry of lost)
      this.handlers.onEvent(
        "model-lost",
        `the model ${entry.name}:${entry.version ?? "?"} (${entry.versionId}) was released, is deleted here, and is after the state the server was restored to`,
        entry.line,
      );
  }

  /** Announces what is due, tells activations, sets the alarm. */
  async #announceDue(): Promise<void> {
    const { outbox, clock } = this.options;
    if (!this.isWelcomed || this.#distrusted) return;
    this.#reportActivations();
    const { now } = decideAnnouncements(outbox.state, this.#attempts, clock.monotonic());
    for (const versionId of now) await this.#announce(versionId);
    const { wakeAtMs } = decideAnnouncements(outbox.state, this.#attempts, clock.monotonic());
    if (wakeAtMs !== undefined) this.#wakeAt(wakeAtMs);
  }

  async #announce(versionId: Hash): Promise<void> {
    const { outbox, clock, log } = this.options;
    const entry = outbox.entry(versionId);
    this.#attempts = afterAnnouncing(this.#attempts, versionId, clock.monotonic());
    try {
      const announce = await announcementOf(outbox.objects, versionId, this.#device);
      if (this.options.send(announce) && entry?.standing === "pending")
        log.info("announced", {
          line: entry.line,
          version: versionId,
          sequence: entry.sequence,
          bytes: announce.tensorBytes,
          text: `${entry.line} announces model ${entry.sequence} (${versionId.slice(0, 12)})`,
        });
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      this.#attempts = afterAnswer(this.#attempts, versionId, { phase: "refused" }, clock.monotonic());
      this.handlers.onEvent(
        "model-damaged",
        `the model ${versionId} cannot be announced: ${error.message}`,
        entry?.line ?? "",
      );
    }
  }

  #reportActivations(): void {
    const { outbox, enrolment } = this.options;
    for (const line of enrolment.lines) {
      const due = activationsToReport(outbox.state, line, this.#known.get(line)?.activeVersionId);
      for (const { versionId, atMs, clockErrorMs } of due.slice(this.#reported.get(line) ?? 0))
        this.options.send({ type: "activated", versionId, line, atMs, clockErrorMs });
      this.#reported.set(line, due.length);
    }
  }

  #isEcho({ line, versionId }: Offer): boolean {
    const { outbox, clock } = this.options;
    return (
      activeVersion(outbox.state, line) === versionId ||
      (this.#untold.has(versionId) && clock.monotonic() - this.#welcomedAtMs < echoMs)
    );
  }

  async #want(part: Want, correlation: string): Promise<void> {
    const want = this.#wants.join(part);
    if (want === undefined) return;
    const { outbox, uploads, log } = this.options;
    const entry = outbox.entry(want.versionId);
    if (entry === undefined || entry.forgotten) {
      this.#refuse("MODEL_NOT_FOUND", `This device has no version ${want.versionId}.`, want, correlation);
      return;
    }
    if (want.reason === "base") return this.#wantBase(want, correlation);
    try {
      await uploads.begin(want);
      this.#answered(want.versionId, { phase: "moving", retryInMs: movingMs });
      log.debug("wanted", {
        line: entry.line,
        version: want.versionId,
        reason: want.reason,
        transfer: want.transfer,
      });
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      this.#refuse(error.code, error.message, want, correlation);
      this.handlers.onEvent(
        "model-damaged",
        `the server wants the model ${want.versionId}, and it cannot be read here: ${error.message}`,
        entry.line,
      );
    }
  }

  /**
   * The server lacks bases: those that are here and not on their way are announced; of the others it is told,
   * and takes the child whole.
   */
  async #wantBase(want: Want, correlation: string): Promise<void> {
    const { outbox } = this.options;
    this.#answered(want.versionId, { phase: "parked" });
    for (const base of want.bases) {
      const entry = outbox.entry(base);
      if (entry?.origin === "trained" && !entry.forgotten) {
        if (entry.standing !== "pending" || this.#attempts.get(base) === undefined)
          await this.#announce(base);
      } else
        this.#refuse(
          "BASE_MISSING",
          `The base ${base} is not on this device any more, or was never its own.`,
          want,
          correlation,
        );
    }
  }

  #blocksAsked(request: BodyOf<"blockRequest">): void {
    const { uploads } = this.options;
    if (!uploads.onRequest(request)) return;
    const moving = uploads.progress().find(({ transfer }) => transfer === request.transfer);
    if (moving !== undefined) this.#answered(moving.versionId, { phase: "moving", retryInMs: movingMs });
  }

  async #receipt(receipt: Receipt): Promise<void> {
    const { outbox, enrolment, clock, uploads, log } = this.options;
    if (this.#distrusted) return;
    verifyReceipt(
      {
        serverPublicKey: enrolment.serverPublicKey,
        fleet: enrolment.fleet,
        device: enrolment.device,
        session: this.#session,
      },
      receipt,
    );
    if (receipt.head !== undefined) verifyHead(enrolment.serverPublicKey, receipt.head);
    const entry = outbox.entry(receipt.versionId);
    if (entry === undefined) return;
    this.#answered(receipt.versionId, { phase: "announced", retryInMs: nextReceiptMs });
    const { type: _, kind, versionId, position, backedUpTo, name, version } = receipt;
    const before = entry.standing;
    await outbox.append({
      type: "receipt",
      atMs: Math.round(clock.now()),
      kind,
      versionId,
      position,
      backedUpTo,
      name,
      version,
    });
    const after = outbox.entry(versionId)?.standing;
    if (after !== before)
      log.info(kind, {
        line: entry.line,
        version: versionId,
        name: `${name}:${version}`,
        text: `${name}:${version} is ${kind}`,
      });
    await uploads.endVersion(versionId);
    this.handlers.onReceipt(entry.line, receipt);
    await this.#announceDue();
  }

  async #refusal(refusal: Refusal): Promise<void> {
    const { outbox, clock, uploads } = this.options;
    const { code, message, versionId, transfer, retry, retryAfterMs } = refusal;
    if (code === "DEVICE_QUARANTINED" || code === "DEVICE_REVOKED") {
      this.handlers.onEvent("not-admitted", message, "");
      this.options.onNotAdmitted(message);
      return;
    }
    if (
      transfer !== "" &&
      this.handlers.onTransferRefused(
        transfer,
        new StemmaError(isErrorCode(code) ? code : "TRANSFER_UNKNOWN", message),
      )
    )
      return;
    if (transfer !== "") await uploads.end(transfer);
    const entry = versionId === undefined ? undefined : outbox.entry(versionId);
    if (entry === undefined || entry.standing !== "pending") {
      this.options.log.warn("server-refused", { code, version: versionId, text: message });
      return;
    }
    if (retry) {
      this.#answered(entry.versionId, { phase: "announced", retryInMs: retryAfterMs });
      return this.#announceDue();
    }
    // The data stays; a later session (another server version, another enrolment) may take it.
    this.#answered(entry.versionId, { phase: "refused" });
    if (entry.refusal?.code !== code || entry.refusal.message !== message)
      await outbox.append({
        type: "refused",
        atMs: Math.round(clock.now()),
        versionId: entry.versionId,
        code,
        message,
      });
    this.handlers.onEvent(
      "model-refused",
      `the server refuses model ${entry.sequence} (${entry.versionId}): ${message} [${code}] It stays in the outbox.`,
      entry.line,
    );
    await this.#announceDue();
  }

  #command(command: Command, correlation: string): void {
    // Not in the queue: a training takes long, and the server waits for the word that it has begun.
    this.handlers.onCommand(command).then(
      (result) => {
        this.options.send(result, { correlation });
      },
      (error: unknown) => {
        this.options.send(
          {
            type: "commandResult",
            code: isStemmaError(error) ? error.code : "INTERNAL",
            json: JSON.stringify({ message: (error as Error).message }),
          },
          { correlation },
        );
      },
    );
  }

  #refuse(code: string, message: string, want: Want, correlation: string): void {
    this.options.send(
      {
        type: "refusal",
        code,
        message,
        versionId: want.versionId,
        transfer: want.transfer,
        retry: false,
        retryAfterMs: 0,
      },
      { correlation },
    );
  }

  #answered(versionId: Hash, answer: Answer): void {
    const { clock } = this.options;
    this.#attempts = afterAnswer(this.#attempts, versionId, answer, clock.monotonic());
    this.#wakeAt(this.#attempts.get(versionId)?.retryAtMs ?? clock.monotonic());
  }

  #wakeAt(atMs: number): void {
    const { clock } = this.options;
    if (!this.#open || (atMs >= this.#wakeAtMs && this.#wakeAtMs > clock.monotonic())) return;
    this.#cancelWake?.();
    this.#wakeAtMs = atMs;
    this.#cancelWake = clock.after(Math.max(0, atMs - clock.monotonic()), () => {
      this.#wakeAtMs = Infinity;
      this.#enqueue(() => this.#wake());
    });
  }

  async #wake(): Promise<void> {
    if (!this.#open) return;
    if (this.#welcomed || this.#distrusted) return this.#announceDue();
    this.#sayBirth();
  }
}
