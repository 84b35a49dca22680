/**
 * One session with the server: sends birth and announcements, answers wants, verifies and stores receipts.
 * Every message of the server may be lost, duplicated or late. Knows the outbox, and the link as a function;
 * no files, no sockets.
 */
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { stackOf } from "../../shared/error-text.js";
import { isErrorCode, isStemmaError, StemmaError } from "../../shared/errors.js";
import type { Clock, Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { verifyReceipt } from "../../shared/trust/signatures.js";
import type {
  BodyOf,
  Body,
  Birth,
  Command,
  CommandResult,
  Envelope,
  Offer,
  Receipt,
  Refusal,
  Welcome,
} from "../../shared/wire/messages.js";
import type { ClockError } from "./clock-error.js";
import type { Answer, Attempt } from "../outbox/announcer.js";
import type { Outbox } from "../outbox/outbox.js";
import { activeVersion, type OutboxEntry } from "../outbox/outbox-state.js";
import type { Uploads } from "../outbox/uploads.js";
import { Announcements } from "./announcements.js";
import { birthOf } from "./birth.js";
import { receiptFact } from "./receipt-fact.js";
import { refuseCommand, runCommand } from "./run-command.js";
import { isNotAdmitted, ServerTrust } from "./server-trust.js";
import { WakeTimer } from "./wake-timer.js";
import { movingMs, WantAnswers } from "./want-answers.js";

export interface ConversationOptions {
  readonly enrolment: Enrolment;
  readonly outbox: Outbox;
  readonly uploads: Uploads;
  readonly clock: Clock;
  readonly clockError: ClockError;
  readonly log: Log;
  /** The parts of a birth that the outbox does not know. */
  readonly birth: () => Pick<Birth, "agentVersion" | "profile" | "runtime" | "oldestProtocol">;
  /** Whether a version is announced as a claim (agent/outbox/claim-choice.ts). */
  isClaim(entry: OutboxEntry): Promise<boolean>;
  send(body: Body, options?: { readonly correlation?: string }): boolean;
  /** The server does not admit this device for now. */
  onNotAdmitted(reason: string): void;
}

export interface ConversationHandlers {
  /** The server has proven its history in this session, and is believed. */
  onWelcomed(): void;
  /** A receipt of one of this line's versions is kept. */
  onReceipt(line: string, receipt: Receipt): void;
  /**
   * `isEcho`: the server does not know yet that the line has run this version, so it does not ask the line to
   * go back to it.
   */
  onOffer(offer: Offer, isEcho: boolean): void;
  onManifest(part: BodyOf<"manifest">): void;
  /** The server refuses to serve a transfer. Returns whether it was a download of this device. */
  onTransferRefused(transfer: string, error: StemmaError): boolean;
  onCommand(command: Command): Promise<CommandResult>;
  /** Something that a person and the server should know: refused, lost, distrusted. */
  onEvent(name: string, text: string, line: string): void;
}

/**
 * Milliseconds after a welcome in which an offer may be older than what this device reported of its versions.
 */
const echoMs = 60_000;
/** Milliseconds after which a birth without a welcome is repeated. */
const welcomeMs = 30_000;
/** Milliseconds from a birth to the next: after a lost message, and where the server was refused. */
const birthPauseMs = 5000;
const refusedPauseMs = 10 * 60_000;
/** Refusals after which an activation is reported again. */
const reportCodes = new Set(["QUOTA_EXCEEDED", "DISK_FULL"]);
/** Milliseconds after a receipt until the version is announced again, in case the next receipt was lost. */
const nextReceiptMs = 120_000;

export class Conversation {
  readonly #wants: WantAnswers;
  readonly #announcements: Announcements;
  readonly #timer: WakeTimer;
  readonly #trust: ServerTrust;
  #session = 0;
  #open = false;
  #welcomed = false;
  /** Versions that lines had run at the welcome and the server did not know of. */
  #unreported: ReadonlySet<Hash> = new Set();
  #welcomedAtMs = 0;
  #bornAtMs = 0;
  #nextBirthMs = 0;
  /** Messages are handled serially, so that journal writes keep their order. */
  readonly #queue = new SerialQueue();

  constructor(
    private readonly options: ConversationOptions,
    private readonly handlers: ConversationHandlers,
  ) {
    const { enrolment, outbox, clock, log } = options;
    this.#timer = new WakeTimer(clock, () => {
      this.#enqueue(() => this.#wake());
    });
    this.#announcements = new Announcements({
      enrolment,
      outbox,
      clock,
      log,
      isClaim: (entry) => options.isClaim(entry),
      send: (body) => options.send(body),
      wakeAt: (atMs) => {
        this.#wakeAt(atMs);
      },
      onEvent: (name, text, line) => {
        handlers.onEvent(name, text, line);
      },
    });
    this.#trust = new ServerTrust({
      enrolment,
      outbox,
      clock,
      onEvent: (name, text, line) => {
        handlers.onEvent(name, text, line);
      },
    });
    this.#wants = new WantAnswers({
      outbox,
      uploads: options.uploads,
      announcements: this.#announcements,
      log,
      send: (body, sendOptions) => options.send(body, sendOptions),
      onEvent: (name, text, line) => {
        handlers.onEvent(name, text, line);
      },
    });
  }

  get isWelcomed(): boolean {
    return this.#open && this.#welcomed;
  }
  /** What became of a version's announcement in this session. */
  attempt(versionId: Hash): Attempt | undefined {
    return this.#announcements.attempt(versionId);
  }

  onOpen(session: number): void {
    this.#session = session;
    this.#open = true;
    this.#welcomed = false;
    this.#trust.opened();
    this.#announcements.reset();
    this.#wants.clear();
    this.options.uploads.reconnected();
    this.#sendBirth();
  }

  onClosed(): void {
    this.#open = false;
    this.#welcomed = false;
    this.#timer.clear();
  }

  /** The outbox changed: announces what is due. */
  onOutboxChange(): void {
    this.#enqueue(() => this.#announceDue());
  }

  receive(envelope: Envelope): void {
    this.#enqueue(() => this.#handle(envelope));
  }

  /** Resolves when everything received so far has been handled. */
  async idle(): Promise<void> {
    await this.#queue.idle();
  }

  #enqueue(action: () => Promise<void>): void {
    this.#queue.run(action).catch((error: unknown) => {
      if (isStemmaError(error))
        this.options.log.warn("word-not-handled", { code: error.code, text: error.message });
      else this.options.log.error("word-not-handled", { text: stackOf(error) });
    });
  }

  async #handle({ body, correlation, session }: Envelope): Promise<void> {
    if (!this.#open || session !== this.#session) return;
    if (body.type === "welcome") return this.#welcome(body);
    if (!this.#welcomed && !isNotAdmitted(body)) {
      this.#beforeWelcome(body, correlation);
      return;
    }
    switch (body.type) {
      case "want":
        return this.#wants.answer(body, correlation);
      case "blockRequest":
        this.#onBlockRequest(body);
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
        // Not in the queue: a command may take long, and the messages behind it must not wait.
        void this.#command(body, correlation);
        return;
      // Messages that only a device sends have no meaning here.
      default:
        return;
    }
  }

  #sendBirth(): void {
    this.#bornAtMs = this.options.clock.monotonic();
    this.options.send(birthOf(this.options, this.#trust.birth()));
    this.#bornAgain(welcomeMs);
  }

  /** Sends the next birth so long after the last one, unless the server is believed by then. */
  #bornAgain(afterMs: number): void {
    this.#nextBirthMs = this.#bornAtMs + afterMs;
    this.#wakeAt(this.#nextBirthMs);
  }

  /** Nothing that a server says is believed before it has proven its history. */
  #beforeWelcome(body: Body, correlation: string): void {
    this.options.log.debug("not-believed", { type: body.type });
    if (body.type === "command") this.options.send(refuseCommand(this.#trust.doubt), { correlation });
  }

  async #welcome(welcome: Welcome): Promise<void> {
    const { clock, clockError, log } = this.options;
    const belief = await this.#trust.welcome(welcome);
    if (belief === "again") {
      this.#sendBirth();
      return;
    }
    const isFirst = !this.#welcomed;
    this.#welcomed = belief === "believed";
    if (belief === "refused") {
      this.#bornAgain(refusedPauseMs);
      return;
    }
    clockError.compare(welcome.clockMs, this.#bornAtMs, clock.now(), clock.monotonic());
    if (isFirst) {
      log.info("welcomed", {
        session: this.#session,
        text: `the server ${welcome.serverVersion} answers in session ${this.#session}`,
      });
      this.handlers.onWelcomed();
    }
    this.#welcomedAtMs = clock.monotonic();
    this.#unreported = this.#announcements.serverKnows(welcome.known);
    await this.#announceDue();
  }

  async #announceDue(): Promise<void> {
    if (this.isWelcomed) await this.#announcements.announceDue();
  }

  #isEcho({ line, versionId }: Offer): boolean {
    const { outbox, clock } = this.options;
    return (
      activeVersion(outbox.state, line) === versionId ||
      (this.#unreported.has(versionId) && clock.monotonic() - this.#welcomedAtMs < echoMs)
    );
  }

  #onBlockRequest(request: BodyOf<"blockRequest">): void {
    const { uploads } = this.options;
    if (!uploads.onRequest(request)) return;
    const moving = uploads.progress().find(({ transfer }) => transfer === request.transfer);
    if (moving !== undefined) this.#answered(moving.versionId, { phase: "moving", retryInMs: movingMs });
  }

  async #receipt(receipt: Receipt): Promise<void> {
    const { outbox, enrolment, clock, uploads, log } = this.options;
    verifyReceipt(
      {
        serverPublicKey: enrolment.serverPublicKey,
        fleet: enrolment.fleet,
        device: enrolment.device,
        generation: enrolment.generation,
        session: this.#session,
      },
      receipt,
    );
    const history = await this.#trust.receipt(receipt);
    if (history === "older") return;
    if (history !== "continued") {
      this.#welcomed = false;
      // A message with a newer head was lost: the answer to a birth proves what follows the newest one here.
      this.#bornAgain(history === "unanswered" ? birthPauseMs : refusedPauseMs);
      return;
    }
    const entry = outbox.entry(receipt.versionId);
    if (entry === undefined) return;
    this.#answered(receipt.versionId, { phase: "announced", retryInMs: nextReceiptMs });
    const { kind, versionId, name, version } = receipt;
    const before = entry.standing;
    await outbox.append(receiptFact(receipt, Math.round(clock.now())));
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
    if (isNotAdmitted(refusal)) {
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
      const isWait = retry && versionId !== undefined && reportCodes.has(code);
      if (isWait && this.#announcements.reportLater(versionId, retryAfterMs)) return;
      this.options.log.warn("server-refused", { code, version: versionId, text: message });
      return;
    }
    if (retry) {
      this.#answered(entry.versionId, { phase: "announced", retryInMs: retryAfterMs });
      return this.#announceDue();
    }
    // The data stays; a later session (another server version, another enrolment) may accept it.
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

  async #command(command: Command, correlation: string): Promise<void> {
    const result = await runCommand((one) => this.handlers.onCommand(one), command);
    this.options.send(result, { correlation });
  }

  #answered(versionId: Hash, answer: Answer): void {
    this.#announcements.answered(versionId, answer);
  }

  #wakeAt(atMs: number): void {
    if (this.#open) this.#timer.set(atMs);
  }

  async #wake(): Promise<void> {
    if (!this.#open) return;
    if (this.#welcomed) return this.#announceDue();
    if (this.options.clock.monotonic() < this.#nextBirthMs) this.#wakeAt(this.#nextBirthMs);
    else this.#sendBirth();
  }
}
