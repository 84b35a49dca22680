/**
 * One session with the server: sends birth and announcements, answers wants, verifies and stores receipts.
 * Every message of the server may be lost, duplicated or late; server-messages.ts has checked who sent it. Knows
 * the outbox, and the link as a function; no files, no sockets.
 */
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { defined } from "../../shared/defined.js";
import { stackOf } from "../../shared/error-text.js";
import { isErrorCode, isStemmaError, StemmaError } from "../../shared/errors.js";
import { readProvenFact } from "../../shared/journal/proven-fact.js";
import type { Clock } from "../../shared/ports.js";
import { requestOfCorrelation } from "../../shared/request-id.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { verifyReceipt } from "../../shared/trust/signatures.js";
import type {
  BodyOf,
  Body,
  Command,
  Offer,
  Receipt,
  Refusal,
  Welcome,
  Birth,
  LineHead,
} from "../../shared/wire/messages.js";
import type { AgentFact } from "../outbox/agent-fact.js";
import type { Answer, Attempt } from "../outbox/announcer.js";
import { activeVersion, unreleased } from "../outbox/outbox-state.js";
import { Announcements } from "./announcements.js";
import { describeWrongClock } from "./clock-error.js";
import type { ConversationHandlers, ConversationOptions } from "./conversation-parts.js";
import { logCommand, refuseCommand, refuseStale, runCommand } from "./run-command.js";
import type { ServerMessage } from "./server-messages.js";
import { isNotAdmitted, ServerTrust, type BirthHistory } from "./server-trust.js";
import { movingMs, WantAnswers } from "./want-answers.js";

/**
 * Milliseconds after a welcome in which an offer may be older than what this device reported of its versions.
 */
const echoMs = 60_000;
/** Milliseconds after which a birth is repeated until the first welcome of a session. */
const welcomeMs = 30_000;
/** Milliseconds from a birth to the next: after a lost message, and where the server was refused. */
const birthPauseMs = 5000;
const refusedPauseMs = 10 * 60_000;
/**
 * Milliseconds from a birth to the next in a session that lasts: the server answers with what a lost message left out,
 * such as a revocation, an order or settings.
 */
const freshMs = 15 * 60_000;
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
  #unreported: ReadonlyMap<string, ReadonlySet<Hash>> = new Map();
  #welcomedAtMs = 0;
  #bornAtMs = 0;
  #nextBirthMs = 0;
  /** The time when a stale message may make the device ask the server again, and whether one waits for that. */
  #askAgainMs = 0;
  #isAskingAgain = false;
  /** Messages are handled serially, so that journal writes keep their order. */
  readonly #queue = new SerialQueue();

  constructor(
    private readonly options: ConversationOptions,
    private readonly handlers: ConversationHandlers,
  ) {
    const { enrolment, deviceKey, outbox, clock, log } = options;
    this.#timer = new WakeTimer(clock, () => {
      this.#enqueue(() => this.#wake());
    });
    this.#announcements = new Announcements({
      enrolment,
      deviceKey,
      outbox,
      clock,
      log,
      isClaim: (entry) => options.isClaim(entry),
      send: (body) => options.send(body),
      wakeAt: (atMs) => {
        this.#wakeAt(atMs);
      },
      onEvent: (name, text, line, versionId) => {
        handlers.onEvent(name, text, line, versionId);
      },
    });
    this.#trust = new ServerTrust({
      enrolment,
      outbox,
      clock,
      restoreOwner: () => options.restoreOwner(),
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
      onEvent: (name, text, line, versionId) => {
        handlers.onEvent(name, text, line, versionId);
      },
    });
  }

  get isWelcomed(): boolean {
    return this.#open && this.#welcomed;
  }
  /** Returns the state of a version's announcement in this session. */
  attempt(versionId: Hash): Attempt | undefined {
    return this.#announcements.attempt(versionId);
  }

  onOpen(session: number): void {
    this.#session = session;
    this.#open = true;
    this.#welcomed = false;
    this.#isAskingAgain = false;
    this.options.messages.opened(session);
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

  receive(message: ServerMessage): void {
    this.#enqueue(() => this.#handle(message));
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

  async #handle({ envelope: { body, correlation, session }, stale }: ServerMessage): Promise<void> {
    if (!this.#open || session !== this.#session) return;
    if (stale !== undefined) {
      this.#onStale(body, correlation, stale);
      return;
    }
    if (body.type === "welcome") return this.#welcome(body);
    if (!this.#welcomed && !isNotAdmitted(body)) return this.#beforeWelcome(body, correlation);
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
      case "activationReceipt":
        this.#announcements.activationRecorded(body.line, body.number);
        return;
      case "releasePart":
        await this.handlers.onReleasePart(body);
        return;
      case "ownerTime":
        return this.#ownerTime(body.statement);
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
    const correlation = this.options.messages.challenge();
    this.options.send(birthOf(this.options, this.#trust.birth()), { correlation });
    this.#bornAgain(this.#welcomed ? freshMs : welcomeMs);
  }

  /** Sends the next birth so long after the last one, unless the server is believed by then. */
  #bornAgain(afterMs: number): void {
    this.#nextBirthMs = this.#bornAtMs + afterMs;
    this.#wakeAt(this.#nextBirthMs);
  }

  /** The server signed the message, but not for now: what still holds comes again after another birth. */
  #onStale({ type }: Body, correlation: string, why: string): void {
    const { clock, log } = this.options;
    const level = this.#isAskingAgain ? "debug" : "warn";
    log[level]("stale-message", { type, text: `a ${type} of the server is not acted on: ${why}` });
    if (type === "command") this.options.send(refuseStale(why), { correlation });
    const nowMs = clock.monotonic();
    if (nowMs < this.#askAgainMs) {
      this.#isAskingAgain = true;
      this.#wakeAt(this.#askAgainMs);
    } else this.#askAgain(nowMs);
  }

  /** Asks again by at most one birth in a while, however many stale messages somebody sends. */
  #askAgain(nowMs: number): void {
    this.#isAskingAgain = false;
    this.#askAgainMs = nowMs + birthPauseMs;
    this.#sendBirth();
  }

  /**
   * Handles a message before the welcome: nothing that a server says is believed before it has proven its history. What
   * the fleet's owner signed proves itself; it may bring the key by which the owner signed a restore.
   */
  async #beforeWelcome(body: Body, correlation: string): Promise<void> {
    if (body.type === "ownerTime") return this.#ownerTime(body.statement);
    if (body.type === "releasePart" && this.#trust.waitsForOwner) {
      if (await this.handlers.onReleasePart(body)) this.#sendBirth();
      return;
    }
    this.options.log.debug("not-believed", { type: body.type });
    if (body.type === "command") this.options.send(refuseCommand(this.#trust.doubt), { correlation });
  }

  /** Takes the owner's time; the server sends what was refused by the time before again after another birth. */
  async #ownerTime(statement: string): Promise<void> {
    if (await this.handlers.onOwnerTime(statement)) this.#sendBirth();
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
      const wrong = describeWrongClock(clockError.aheadMs, clock.now());
      if (wrong !== undefined)
        log.warn("clock-wrong", { aheadMs: Math.round(clockError.aheadMs ?? 0), text: wrong });
      this.handlers.onWelcomed(welcome.clockMs);
    }
    this.#welcomedAtMs = clock.monotonic();
    this.#bornAgain(freshMs);
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
      (this.#unreported.get(line)?.has(versionId) === true &&
        // Once the server has recorded that, an offer of this version is a new one: of an undo, for example.
        this.#announcements.isUnrecorded(line, versionId) &&
        clock.monotonic() - this.#welcomedAtMs < echoMs)
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
        versionId,
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
      this.options.log.warn("server-refused", { code, versionId, text: message });
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
      entry.versionId,
    );
    await this.#announceDue();
  }

  async #command(command: Command, correlation: string): Promise<void> {
    const request = requestOfCorrelation(correlation);
    const startedMs = this.options.clock.monotonic();
    const result = await runCommand((one) => this.handlers.onCommand(one, request), command);
    const ms = Math.round(this.options.clock.monotonic() - startedMs);
    logCommand(this.options.log, command, { request, code: result.code, ms });
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
    const nowMs = this.options.clock.monotonic();
    if (this.#isAskingAgain) {
      if (nowMs < this.#askAgainMs) this.#wakeAt(this.#askAgainMs);
      else this.#askAgain(nowMs);
    }
    if (this.#welcomed) await this.#announceDue();
    if (nowMs < this.#nextBirthMs) this.#wakeAt(this.#nextBirthMs);
    else this.#sendBirth();
  }
}

/**
 * The first message of a session: which device and software this is, and the state of its models.
 * @param history what the device has seen of the server's journal
 */
function birthOf(
  {
    enrolment,
    outbox,
    clock,
    clockError,
    birth,
  }: Pick<ConversationOptions, "enrolment" | "outbox" | "clock" | "clockError" | "birth">,
  history: BirthHistory,
): Birth {
  const { state } = outbox;
  const heads = enrolment.lines.map((line): LineHead => ({
    line,
    sequence: state.lines.get(line)?.sequence ?? 0,
    versionId: outbox.newest(line)?.versionId,
    activeVersionId: activeVersion(state, line),
    activeNumber: state.lines.get(line)?.activations.at(-1)?.number,
  }));
  return {
    type: "birth",
    ...birth(),
    heads,
    ...history,
    unreleased: unreleased(state).length,
    clockMs: Math.round(clock.now()),
    clockErrorMs: clockError.errorMs(clock.now(), clock.monotonic()),
    generation: enrolment.generation,
  };
}

/** Makes the outbox's fact of a receipt whose signature and proofs were verified. */
function receiptFact(receipt: Receipt, atMs: number): AgentFact {
  const { kind, versionId, position, backedUpTo, name, version, head, fact } = receipt;
  const content = fact === undefined ? undefined : readProvenFact(fact.entry);
  return {
    type: "receipt",
    atMs,
    kind,
    versionId,
    position,
    backedUpTo,
    name,
    version,
    ...(content?.type === "recorded" && content.isClaim ? { claim: true } : {}),
    ...defined({ head: head && { length: head.length, chain: head.chain, root: head.root } }),
  };
}

/** One alarm at a time: an earlier time replaces a later one. */
class WakeTimer {
  #atMs = Infinity;
  #cancel: (() => void) | undefined;

  constructor(
    private readonly clock: Pick<Clock, "after" | "monotonic">,
    private readonly wake: () => void,
  ) {}

  /** Wakes at monotonic time `atMs`, unless an earlier alarm is set already. */
  set(atMs: number): void {
    const nowMs = this.clock.monotonic();
    if (atMs >= this.#atMs && this.#atMs > nowMs) return;
    this.#cancel?.();
    this.#atMs = atMs;
    this.#cancel = this.clock.after(Math.max(0, atMs - nowMs), () => {
      this.#atMs = Infinity;
      this.wake();
    });
  }

  clear(): void {
    this.#cancel?.();
    this.#atMs = Infinity;
  }
}
