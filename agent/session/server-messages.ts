/**
 * Accepts from this device's topics only messages that its server signed for this device, this enrolment,
 * this session and the newest birth, each once. Who can write to the topics, or replays what was sent before,
 * reaches nothing. Orders (offers and commands) must also be newer than the one before and not expired, by
 * the server's own time. Knows no outbox and no topics. (docs/protocol.md, "Signed messages")
 */
import type { Clock, Log, Random } from "../../shared/ports.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { messageSignatureBytes, openServerMessage } from "../../shared/trust/server-message.js";
import { decodeEnvelope } from "../../shared/wire/codec.js";
import { maxMessageBytes } from "../../shared/wire/limits.js";
import type { Body, Envelope } from "../../shared/wire/messages.js";
import { isNotAdmitted } from "./server-trust.js";
import { TrustedTime, type ClockReading } from "./trusted-time.js";

export interface ServerMessagesOptions {
  readonly enrolment: Pick<Enrolment, "fleet" | "device" | "generation" | "serverPublicKey" | "identity">;
  readonly clock: Pick<Clock, "now" | "monotonic">;
  readonly random: Random;
  readonly log: Pick<Log, "warn">;
}

/** A message that the server signed. */
export interface ServerMessage {
  readonly envelope: Envelope;
  /** The reason why it is not acted on; the server is asked again by a birth. Undefined: it is. */
  readonly stale?: string | undefined;
}

/** The messages that answer one birth. */
interface Answers {
  readonly challenge: string;
  readonly asked: ClockReading;
  readonly window: ReplayWindow;
  /** Number of the newest order that was acted on. */
  newestOrder: number;
}

const challengeBytes = 16;
const maxSignedBytes = maxMessageBytes + messageSignatureBytes;

export class ServerMessages {
  #session = 0;
  /** The answers to the newest birth that was answered, and to one that was not answered yet. */
  #current: Answers | undefined;
  #awaited: Answers | undefined;
  #time = new TrustedTime();
  #hasSeenOtherKey = false;
  constructor(private readonly options: ServerMessagesOptions) {}

  /** A session starts: nothing of an earlier one counts. */
  opened(session: number): void {
    this.#session = session;
    this.#current = undefined;
    this.#awaited = undefined;
    this.#time = new TrustedTime();
  }

  /** A birth is sent now: its correlation, for which the server signs what follows. */
  challenge(): string {
    const challenge = Buffer.from(this.options.random.bytes(challengeBytes)).toString("hex");
    this.#awaited = { challenge, asked: this.#now(), window: new ReplayWindow(), newestOrder: 0 };
    return challenge;
  }

  /**
   * The message in a payload; undefined: it came already, or belongs to another session.
   * @throws SIGNATURE_INVALID, ENVELOPE_MALFORMED, ENVELOPE_TOO_LARGE, PROTOCOL_VERSION_UNSUPPORTED
   */
  read(payload: Uint8Array): ServerMessage | undefined {
    for (const answers of [this.#current, this.#awaited]) {
      const bytes = answers && this.#open(payload, answers.challenge);
      if (bytes !== undefined && answers !== undefined) return this.#answer(answers, decodeEnvelope(bytes));
    }
    // A server that does not admit this device says so before it answers a birth, and nothing else.
    const bytes = this.#open(payload, "");
    const envelope = bytes && decodeEnvelope(bytes);
    if (envelope === undefined || !isNotAdmitted(envelope.body)) {
      this.#noteOtherKey(payload);
      throw notSigned();
    }
    return envelope.session === this.#session ? { envelope } : undefined;
  }

  #open(payload: Uint8Array, challenge: string): Uint8Array | undefined {
    if (payload.length > maxSignedBytes) return undefined;
    const { fleet, device, generation, serverPublicKey } = this.options.enrolment;
    return openServerMessage(serverPublicKey, { fleet, device, generation, challenge }, payload);
  }

  /**
   * A server that answers this device's birth and has another key: the one whose key was changed, or somebody who is
   * in between. The device cannot tell them apart, so a person has to, and is told once. Where the
   * server itself is reached over TLS, its certificate shows a change before this.
   */
  #noteOtherKey(payload: Uint8Array): void {
    const { enrolment, log } = this.options;
    const challenge = this.#awaited?.challenge;
    if (this.#hasSeenOtherKey || challenge === undefined || payload.length > maxSignedBytes) return;
    const key = keyInWelcome(payload);
    if (key === undefined || key === enrolment.serverPublicKey) return;
    const { fleet, device, generation, identity } = enrolment;
    if (openServerMessage(key, { fleet, device, generation, challenge }, payload) === undefined) return;
    this.#hasSeenOtherKey = true;
    const remedy =
      identity === undefined
        ? `write this device's file again there (stemma device enroll ${device} --readdress FILE) and start the agent with it`
        : "stop this agent, renew its certificate (stemma agent renew) and start it";
    log.warn("server-key-other", {
      text:
        `a server with another key (${key.slice(0, 16)}…) answers than the one that this device knows ` +
        `(${enrolment.serverPublicKey.slice(0, 16)}…): nothing of it is believed. Where the server's key was ` +
        `changed (stemma server-key show, on its machine), ${remedy}; else somebody is in between.`,
    });
  }

  #answer(answers: Answers, envelope: Envelope): ServerMessage | undefined {
    const { body, sequence, session } = envelope;
    if (session !== this.#session) return undefined;
    const isNew = answers.window.take(sequence);
    if (body.type === "welcome") {
      // A server that starts again answers the birth once more and counts from 1: a new birth tells it from a replay.
      if (!isNew) return { envelope, stale: "it repeats an answer that came already" };
      this.#current = answers;
      if (this.#awaited === answers) this.#awaited = undefined;
      this.#time.answered(body.clockMs, answers.asked);
      return { envelope };
    }
    if (!isNew) return undefined;
    return { envelope, stale: isOrder(body) ? this.#whyNotActedOn(answers, envelope) : undefined };
  }

  #whyNotActedOn(answers: Answers, { sequence, issuedMs = 0, expiresMs }: Envelope): string | undefined {
    if (sequence <= answers.newestOrder) return "a newer order came before it";
    const why = this.#time.whyNotNow(this.#now(), issuedMs, expiresMs);
    if (why === undefined) answers.newestOrder = sequence;
    return why;
  }

  #now(): ClockReading {
    const { clock } = this.options;
    return { monotonicMs: clock.monotonic(), wallMs: clock.now() };
  }
}

/** The key that the head of a welcome names, which proves nothing; undefined: it is something else. */
function keyInWelcome(payload: Uint8Array): string | undefined {
  try {
    const { body } = decodeEnvelope(payload.subarray(0, -messageSignatureBytes));
    return body.type === "welcome" ? body.head?.publicKey : undefined;
  } catch (error) {
    if (isStemmaError(error)) return undefined;
    throw error;
  }
}

function isOrder({ type }: Body): boolean {
  return type === "offer" || type === "command";
}

function notSigned(): StemmaError {
  return new StemmaError(
    "SIGNATURE_INVALID",
    "A message on this device's topics was not signed by its server for this session. It was altered, sent again, or comes from somebody else; it is ignored. Look who may write to the device's topics at the broker.",
  );
}

const windowLength = 4096;

/**
 * Numbers of messages that came already: each is taken once, in any order within a window (RFC 4303, section 3.4.3).
 * Its memory is bounded by the window.
 */
class ReplayWindow {
  #highest = 0;
  readonly #came = new Set<number>();

  /** True if the number is new; it is not from then on. Numbers before the window count as having come. */
  take(number: number): boolean {
    if (number <= this.#highest - windowLength || this.#came.has(number)) return false;
    this.#came.add(number);
    this.#highest = Math.max(this.#highest, number);
    if (this.#came.size > 2 * windowLength) this.#forgetBeforeWindow();
    return true;
  }

  #forgetBeforeWindow(): void {
    for (const number of this.#came) if (number <= this.#highest - windowLength) this.#came.delete(number);
  }
}
