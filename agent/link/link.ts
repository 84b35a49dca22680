/**
 * The MQTT connection of a device: one session after another, each with its own number, will and
 * backoff. Carries messages; does not know what they mean or who sent them.
 */
import type { Duplex } from "node:stream";
import mqtt, { MqttClient, type IClientOptions } from "mqtt";
import { connectionProblem } from "../../shared/connection-error.js";
import { defined } from "../../shared/defined.js";
import { messageOf, messageWithCode } from "../../shared/error-text.js";
import { isStemmaError, type StemmaError } from "../../shared/errors.js";
import { isReported } from "../../shared/growing-distances.js";
import type { Clock, Log, Random } from "../../shared/ports.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import type { DeviceKey } from "../../shared/trust/keys.js";
import { signSession } from "../../shared/trust/signatures.js";
import { decodeEnvelope, encodeEnvelope } from "../../shared/wire/codec.js";
import { blockOverheadBytes, maxBlockBytes, protocolVersion } from "../../shared/wire/limits.js";
import type { Block, Body, BodyOf, Envelope } from "../../shared/wire/messages.js";
import { keepNoMqttNumbers } from "../../shared/wire/mqtt-numbers.js";
import { buildTopic, clientIdOf, deviceSubscriptions, parseTopic } from "../../shared/wire/topics.js";
import { jitteredBackoffMs, connectBackoff, refusedBackoff } from "../resources/backoff.js";
import type { SessionCounter } from "./session-counter.js";

export interface LinkHandlers {
  /** A session is open and subscribed. */
  onOpen(session: number): void;
  onClosed(session: number, why: string): void;
  /** Takes a message that came on the topic of the server's messages; whose it is, is not known. @throws StemmaError */
  onMessage(payload: Uint8Array): void;
  onBlock(transfer: string, block: Block): void;
}

export interface LinkOptions {
  readonly enrolment: Enrolment;
  readonly deviceKey: DeviceKey;
  readonly counter: SessionCounter;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly mqtt: IClientOptions;
  readonly identity: LinkIdentity;
}

/** The part of an MQTT client that the link uses. */
export type LinkClient = Pick<
  MqttClient,
  "on" | "once" | "end" | "endAsync" | "subscribeAsync" | "publish" | "publishAsync"
>;

/** The identity of this device for the link, which also judges whom it talks to. */
export interface LinkIdentity {
  /** True if connections to this address are made by `dial`. */
  judges(address: string): boolean;
  /** @throws CERTIFICATE_REFUSED where it is not the server */
  dial(address: string): Promise<Duplex>;
  /** The certificate and key, PEM, for an address that is not judged; undefined: none. */
  present?(): Promise<{ readonly certificate: string; readonly key: string } | undefined>;
  /**
   * Renews the certificate before a connection, if it is due.
   * @param wasRefused whether the server did not admit the device last
   * @returns whether the device has another certificate now
   */
  renewIfDue(wasRefused: boolean): Promise<boolean>;
  /** The reason for a refusal that this device knows itself: its certificate has ended. */
  readonly ended?: StemmaError | undefined;
  /** A client of another network than this machine's, which needs no sockets; absent: `judges` and `dial` decide. */
  connect?(address: string, options: IClientOptions): LinkClient;
}

export interface SendOptions {
  readonly correlation?: string;
  readonly expiresMs?: number;
}
type Phase = "stopped" | "waiting" | "connecting" | "open";

export class Link {
  #phase: Phase = "stopped";
  #client: LinkClient | undefined;
  #session = 0;
  #previousSession = 0;
  /** The state messages of this session, signed before it begins: a key that is elsewhere may take its time. */
  #states: Readonly<Record<"online" | "offline", BodyOf<"state">>> | undefined;
  #sequence = 0;
  /** Attempts in a row that reached no server. */
  #failures = 0;
  /** Attempts that the server refused since it admitted this device last; those that did not reach it do not count. */
  #refusals = 0;
  /** Messages that were ignored since the agent started. */
  #ignored = 0;
  #addressAt = 0;
  #lastError = "";
  #cancelWait: (() => void) | undefined;
  /** The server refused the present attempt or session. */
  #isRefused = false;
  /** The broker refused the present attempt without a reason, which an ended certificate may be. */
  #isUnexplained = false;
  /** The certificate was renewed after the last refusal: the next attempt is made with that one. */
  #hasRenewed = false;
  /** The reason why the present attempt or session ends; empty: not known yet. */
  #why = "";

  constructor(
    private readonly options: LinkOptions,
    private readonly handlers: LinkHandlers,
  ) {}

  get phase(): Phase {
    return this.#phase;
  }
  get session(): number {
    return this.#session;
  }
  /** The reason why the last session or attempt ended; empty while all is well. */
  get lastError(): string {
    return this.#lastError;
  }

  /** Connects, and reconnects until `stop`. */
  start(): void {
    if (this.#phase !== "stopped") return;
    this.#phase = "waiting";
    this.#wait(0);
  }

  /** Reports the device as offline, then closes for good. */
  async stop(): Promise<void> {
    this.#cancelWait?.();
    const client = this.#client;
    const wasOpen = this.#phase === "open";
    this.#phase = "stopped";
    if (client === undefined) return;
    if (wasOpen && this.#states !== undefined)
      await this.#publish(client, { kind: "state" }, this.#states.offline, { retain: true }).catch(
        () => undefined,
      );
    await client.endAsync(!wasOpen).catch(() => undefined);
  }

  /** Ends the session because the server does not admit this device for now; the next attempt waits long. */
  refuse(why: string): void {
    this.#isRefused = true;
    this.#why = why;
    this.#client?.end(true);
  }

  /**
   * Sends a message at QoS 1. False when no session is open: nothing is queued here, because the device
   * reports its state when it reconnects.
   */
  send(body: Body, options: SendOptions = {}): boolean {
    const client = this.#client;
    if (this.#phase !== "open" || client === undefined) return false;
    const birth = body.type === "birth";
    this.#publish(client, { kind: birth ? "birth" : "up" }, body, { ...options, retain: birth }).catch(
      (error: unknown) => {
        this.options.log.warn("send-failed", { body: body.type, text: messageOf(error) });
      },
    );
    return true;
  }

  /**
   * Sends a block at QoS 0; resolves when it has been passed to the socket (backpressure), false when no
   * session is open.
   */
  async sendBlock(transfer: string, block: Block): Promise<boolean> {
    const client = this.#client;
    if (this.#phase !== "open" || client === undefined) return false;
    const payload = encodeEnvelope(this.#envelope(block, {}));
    const topic = this.#topic({ kind: "block-up", transfer });
    return new Promise((resolve) => {
      client.publish(
        topic,
        Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength),
        { qos: 0 },
        (error) => {
          resolve(error === undefined || error === null);
        },
      );
    });
  }

  #wait(delayMs: number): void {
    this.#cancelWait = this.options.clock.after(delayMs, () => {
      this.#connect().catch((error: unknown) => {
        this.#ended(`could not begin a session: ${messageOf(error)}`);
      });
    });
  }

  async #connect(): Promise<void> {
    if (this.#phase !== "waiting") return;
    this.#phase = "connecting";
    this.#isRefused = false;
    this.#isUnexplained = false;
    this.#why = "";
    const { enrolment, counter } = this.options;
    // After an attempt whose end is not known (a lost CONNACK, a kill) the server may have accepted a session
    // that this device does not know of. It then reports "unknown": otherwise honest devices on bad links
    // would look like clones.
    this.#previousSession = counter.session === counter.accepted ? counter.accepted : 0;
    await this.options.identity.renewIfDue(this.#refusals > 0 && !this.#hasRenewed);
    this.#hasRenewed = false;
    const session = await counter.next();
    if ((this.#phase as Phase) !== "connecting") return;
    this.#session = session;
    this.#sequence = 0;
    const states = { online: await this.#state(true), offline: await this.#state(false) };
    if ((this.#phase as Phase) !== "connecting") return;
    this.#states = states;
    const address = enrolment.mqtt[this.#addressAt++ % enrolment.mqtt.length] as string;
    const client = await this.#dial(address, this.#mqttOptions(session, states.offline));
    if ((this.#phase as Phase) !== "connecting") {
      client.end(true);
      return;
    }
    this.#client = client;
    client.on("error", (error) => {
      // CONNACK 4 and 5: the broker does not accept this identity.
      const code = (error as { code?: unknown }).code;
      this.#isUnexplained ||= code === 4 || code === 5;
      this.#isRefused ||= this.#isUnexplained;
      this.#why = this.#isRefused
        ? notAdmittedText(error.message, enrolment, this.options.identity.ended)
        : this.#phase === "open" || typeof code === "number"
          ? error.message
          : failureText(address, error);
    });
    client.on("message", (topic, payload) => {
      this.#receive(topic, payload);
    });
    client.on("connect", () => {
      this.#opened(client, session).catch((error: unknown) => {
        this.#why = messageOf(error);
        client.end(true);
      });
    });
    client.once("close", () => {
      client.end(true);
      if (this.#client !== client) return;
      this.#client = undefined;
      if (this.#why === "")
        this.#why =
          this.#phase === "open"
            ? "the connection was closed"
            : failureText(address, Object.assign(new Error(), { code: "ECONNRESET" }));
      this.#ended(this.#why);
    });
  }

  /** The client sends its CONNECT into a connection whose server was judged already. */
  async #dial(address: string, options: IClientOptions): Promise<LinkClient> {
    keepNoMqttNumbers();
    const { identity } = this.options;
    if (identity.connect !== undefined) return identity.connect(address, options);
    if (!identity.judges(address)) {
      const pair = await identity.present?.();
      return mqtt.connect(address, { ...options, ...defined({ cert: pair?.certificate, key: pair?.key }) });
    }
    const socket = await identity.dial(address);
    return new MqttClient(() => socket, options);
  }

  /** @throws SIGNER_FAILED */
  async #state(online: boolean): Promise<BodyOf<"state">> {
    const { fleet, device, generation } = this.options.enrolment;
    const previousSession = this.#previousSession;
    const subject = { fleet, device, generation, session: this.#session, previousSession, online };
    const signature = await signSession(this.options.deviceKey, subject);
    return { type: "state", online, previousSession, generation, signature };
  }

  #mqttOptions(session: number, will: BodyOf<"state">): IClientOptions {
    const { enrolment } = this.options;
    return {
      ...this.options.mqtt,
      clientId: clientIdOf(enrolment.fleet, enrolment.device),
      username: enrolment.device,
      ...defined({ password: enrolment.token, ca: enrolment.ca }),
      // The will carries its session, so that a late will is not taken for the end of a newer session.
      will: {
        topic: this.#topic({ kind: "state" }),
        qos: 1,
        retain: true,
        payload: Buffer.from(
          encodeEnvelope({
            protocol: protocolVersion,
            session,
            sequence: 0,
            correlation: "",
            expiresMs: 0,
            body: will,
          }),
        ),
      },
    };
  }

  async #opened(client: LinkClient, session: number): Promise<void> {
    const { enrolment, counter } = this.options;
    const online = this.#states?.online;
    if (online === undefined) return;
    await counter.accept(session);
    await client.subscribeAsync([...deviceSubscriptions(enrolment.root, enrolment.fleet, enrolment.device)], {
      qos: 1,
    });
    if (this.#client !== client || this.#phase !== "connecting") return;
    this.#phase = "open";
    this.#failures = 0;
    this.#refusals = 0;
    this.#lastError = "";
    await this.#publish(client, { kind: "state" }, online, { retain: true });
    this.handlers.onOpen(session);
  }

  /** The advice for a person at a device whose server is not reached. */
  #whileAway(): string {
    return `What this device trains is kept, and it tries again by itself. If the server has another address now, \`stemma device enroll ${this.options.enrolment.device} --readdress FILE\` there writes this device's enrolment again.`;
  }

  #ended(why: string): void {
    if (this.#phase === "stopped") return;
    const wasOpen = this.#phase === "open";
    this.#phase = "waiting";
    if (wasOpen) this.handlers.onClosed(this.#session, why);
    this.#lastError = why;
    // Each waits by its own count: a network that was gone for a day does not make the first refusal last.
    if (this.#isRefused) {
      this.#refusals++;
      this.#failures = 0;
    } else this.#failures++;
    // Once for a row of refusals: what a new certificate does not change, a person has to.
    if (this.#isUnexplained && this.#refusals === 1) void this.#renew(why);
    else this.#waitAgain(why, wasOpen);
  }

  /** Asks for another certificate, and tries again soon where there is one. */
  async #renew(why: string): Promise<void> {
    this.#hasRenewed = await this.options.identity.renewIfDue(true);
    if (this.#phase === "waiting") this.#waitAgain(why, false);
  }

  #waitAgain(why: string, wasOpen: boolean): void {
    const attempt = this.#isRefused ? this.#refusals : this.#failures;
    const isFirst = !wasOpen && !this.#isRefused && attempt === 1;
    const delayMs = jitteredBackoffMs(
      this.#isRefused && !this.#hasRenewed ? refusedBackoff : connectBackoff,
      attempt,
      this.options.random.bytes(1)[0] ?? 0,
    );
    this.options.log[wasOpen || isReported(attempt) ? "warn" : "debug"](
      this.#isRefused ? "not-admitted" : "disconnected",
      {
        session: this.#session,
        attempt,
        retryMs: delayMs,
        text: isFirst ? `${why} ${this.#whileAway()}` : why,
      },
    );
    this.#wait(delayMs);
  }

  #receive(topic: string, payload: Buffer): void {
    const { enrolment, log } = this.options;
    const parsed = parseTopic(enrolment.root, topic);
    if (parsed === undefined || parsed.fleet !== enrolment.fleet || parsed.device !== enrolment.device)
      return;
    try {
      if (parsed.kind === "down") this.handlers.onMessage(payload);
      else if (parsed.kind === "block-down") {
        const { body } = decodeEnvelope(payload, { maxBytes: maxBlockBytes + blockOverheadBytes });
        if (body.type === "block") this.handlers.onBlock(parsed.transfer, body);
      }
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      // Somebody who floods the topics must not flood the log.
      if (isReported(++this.#ignored))
        log.warn("message-ignored", { code: error.code, ignored: this.#ignored, text: error.message });
    }
  }

  #envelope(body: Body, { correlation = "", expiresMs = 0 }: SendOptions): Envelope {
    return {
      protocol: protocolVersion,
      session: this.#session,
      sequence: this.#sequence++,
      correlation,
      expiresMs,
      body,
    };
  }

  #topic(channel: { kind: "state" | "birth" | "up" } | { kind: "block-up"; transfer: string }): string {
    const { root, fleet, device } = this.options.enrolment;
    return buildTopic({ root, fleet, device, ...channel });
  }

  async #publish(
    client: LinkClient,
    channel: { kind: "state" | "birth" | "up" },
    body: Body,
    { retain = false, ...options }: SendOptions & { readonly retain?: boolean },
  ): Promise<void> {
    const payload = encodeEnvelope(this.#envelope(body, options));
    await client.publishAsync(
      this.#topic(channel),
      Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength),
      { qos: 1, retain },
    );
  }
}

function failureText(address: string, error: Error): string {
  const { why, next } = connectionProblem(error);
  return `the server at ${address} is not reached: ${why}. ${next}`;
}

/** The broker gives no reason, so that nobody learns from it which devices there are; these are all that it can be. */
function notAdmittedText(
  answer: string,
  { ownerCertificate }: Pick<Enrolment, "ownerCertificate">,
  ended: StemmaError | undefined,
): string {
  if (ended !== undefined) return messageWithCode(ended);
  const ofOwner =
    ownerCertificate === undefined
      ? ""
      : `, or its certificate of ${ownerCertificate.authority} has expired or is on a revocation list, or the server does not trust ${ownerCertificate.authority} any more`;
  return `the server does not admit this device (${answer}): it was revoked, enrolled again, or is quarantined: by a person, or because two copies of its enrolment were in use${ofOwner}. Ask who runs the server, or enrol it again with \`stemma device enroll\`; everything is kept until then`;
}
