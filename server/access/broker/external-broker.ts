/**
 * Uses any other MQTT 3.1.1 broker or cluster through the same interface as the embedded one. This server is
 * a client that subscribes to its fleets' topics. That broker authenticates devices and binds them to their
 * topics by its own access rules (docs/reference/server-json.md lists what it has to do). The sender of a
 * message is the device that its topic names.
 */
import { LRUCache } from "lru-cache";
import mqtt, { ErrorWithSubackPacket, type MqttClient } from "mqtt";
import { connectionProblem } from "../../../shared/connection-error.js";
import { defined } from "../../../shared/defined.js";
import { messageOf } from "../../../shared/error-text.js";
import type { Log } from "../../../shared/ports.js";
import type { Signer } from "../../../shared/trust/keys.js";
import { signServerMessage } from "../../../shared/trust/server-message.js";
import { encodeEnvelope } from "../../../shared/wire/codec.js";
import { protocolVersion } from "../../../shared/wire/limits.js";
import { keepNoMqttNumbers } from "../../../shared/wire/mqtt-numbers.js";
import { buildTopic, fleetSubscriptions, parseTopic, type Topic } from "../../../shared/wire/topics.js";
import { brokerRefused, subscriptionRefused } from "./broker-errors.js";
import type { BrokerLimits } from "./broker-limits.js";
import type {
  BrokerEvent,
  BrokerStats,
  Delivery,
  DeviceIdentity,
  DeviceMessage,
  EventHandler,
  MessageHandler,
  PublishOptions,
  RunningBroker,
} from "./broker-port.js";
import { DeviceQueues } from "./device-queues.js";
import { ExternalSessions, type AdmitSession, type OpenSession } from "./external-sessions.js";
import { PeerLog } from "./peer-log.js";

export interface ExternalBrokerOptions {
  /** The URL, with mqtt:// or mqtts://. */
  readonly url: string;
  readonly root: string;
  readonly clientId: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** PEM of the authority that signs the broker's certificate. */
  readonly ca?: string | undefined;
  readonly admit: AdmitSession;
  /** The server's key, with which devices that are not served are asked to leave; absent: none is asked. */
  readonly signer?: Signer;
  readonly log: Log;
  readonly limits: Pick<BrokerLimits, "maxFrameBytes" | "maxQueuedBytes">;
  /** The time that the first connection may take, in milliseconds. The default rides out the failover of a cluster. */
  readonly connectTimeoutMs?: number;
  readonly reconnectMs?: number;
}

/** Bytes of birth messages that are kept until their session is known. */
const maxHeldBirthBytes = 16 * 1024 * 1024;
/** Highest QoS that a broker can grant. It answers a refused subscription with 128. */
const maxGrantedQos = 2;

/** Connects; `serve` then subscribes to a fleet's topics. @throws SERVER_UNREACHABLE */
export async function connectBroker(options: ExternalBrokerOptions): Promise<RunningBroker> {
  const { url, clientId, username, password, ca } = options;
  const { connectTimeoutMs = 30_000, reconnectMs = 1000 } = options;
  keepNoMqttNumbers();
  const client = mqtt.connect(url, {
    protocolVersion: 4,
    clean: true,
    clientId,
    connectTimeout: connectTimeoutMs,
    reconnectPeriod: reconnectMs,
    resubscribe: true,
    queueQoSZero: false,
    keepalive: 30,
    ...defined({ username, password, ca }),
  });
  const broker = new ExternalBroker(client, options);
  try {
    await firstConnection(client);
  } catch (cause) {
    client.end(true);
    const { why, next } = connectionProblem(cause, "Check its address, its certificate and the credentials.");
    throw brokerRefused(url, why, next, cause);
  }
  return broker;
}

function firstConnection(client: MqttClient): Promise<void> {
  return new Promise((resolve, reject) => {
    const closed = (): void => {
      reject(Object.assign(new Error("the connection was closed"), { code: "ECONNRESET" }));
    };
    // Stays for later errors: the link reconnects by itself, and an error without a listener would end the
    // process.
    client.on("error", reject);
    client.once("close", closed);
    client.once("connect", () => {
      client.removeListener("close", closed);
      resolve();
    });
  });
}

class ExternalBroker implements RunningBroker {
  readonly url: string;
  readonly #client: MqttClient;
  readonly #options: ExternalBrokerOptions;
  readonly #fleets = new Set<string>();
  readonly #queues: DeviceQueues;
  readonly #sessions: ExternalSessions;
  readonly #peerLog: PeerLog;
  /**
   * Births of devices whose session is not open. When this server starts, the broker sends retained births
   * and states in any order, and a device that has been welcomed before does not repeat its birth.
   */
  readonly #heldBirths = new LRUCache<string, DeviceMessage>({
    maxSize: maxHeldBirthBytes,
    sizeCalculation: ({ payload }) => payload.length + 1024,
  });
  readonly #messageHandlers: MessageHandler[] = [];
  readonly #eventHandlers: EventHandler[] = [];
  #isLinked = false;
  readonly #counts = { received: 0, sent: 0, dropped: 0 };
  /** Publications that the broker has not acknowledged. The library forgets them when the client is ended. */
  readonly #unanswered = new Set<(delivery: Delivery) => void>();

  constructor(client: MqttClient, options: ExternalBrokerOptions) {
    this.url = options.url;
    this.#client = client;
    this.#options = options;
    this.#queues = new DeviceQueues(options.limits.maxQueuedBytes);
    this.#peerLog = new PeerLog(options.log);
    this.#sessions = new ExternalSessions({
      address: options.url,
      admit: options.admit,
      emit: (event) => {
        this.#emit(event);
      },
      askToLeave: (identity, session) => this.#askToLeave(identity, session),
      log: this.#peerLog,
    });
    // Emitted again for each attempt to connect that fails.
    client.on("close", () => {
      if (!this.#isLinked) return;
      this.#isLinked = false;
      options.log.warn("broker-link-closed", { url: this.url, devicesOffline: this.#sessions.count });
      this.#sessions.endAll();
    });
    client.on("connect", () => {
      this.#isLinked = true;
      options.log.info("broker-link-open", { url: this.url });
    });
    client.handleMessage = (packet, done) => {
      this.#receive(packet.topic, packet.payload, packet.qos, done);
    };
  }

  /** @throws NOT_ALLOWED where the broker refuses the subscription */
  async serve(fleet: string): Promise<void> {
    this.#fleets.add(fleet);
    const topics = [...fleetSubscriptions(this.#options.root, fleet)];
    let refused: readonly string[];
    try {
      const granted = await this.#client.subscribeAsync(topics, { qos: 1 });
      refused = granted.filter(({ qos }) => qos > maxGrantedQos).map(({ topic }) => topic);
    } catch (error) {
      // The library's error where the broker refuses one; it has the broker's answer.
      if (!(error instanceof ErrorWithSubackPacket)) throw error;
      refused = topics.filter((_, i) => Number(error.packet.granted[i]) > maxGrantedQos);
    }
    if (refused.length > 0) throw subscriptionRefused(this.url, refused);
  }

  /**
   * `done` is called when the next packet may come. While the queue of one device is full, nothing is read
   * from the broker.
   */
  #receive(text: string, raw: string | Buffer, qos: 0 | 1 | 2, done: () => void): void {
    const topic = parseTopic(this.#options.root, text);
    const payload = typeof raw === "string" ? Buffer.from(raw) : raw;
    const isTooLong = payload.length > this.#options.limits.maxFrameBytes;
    if (topic === undefined || isTooLong || !this.#fleets.has(topic.fleet)) {
      this.#counts.dropped++;
      const peer = topic === undefined ? "a topic that is not a device's" : `${topic.fleet}/${topic.device}`;
      this.#peerLog.warn(peer, "broker-message-ignored", {
        topic: text.slice(0, 200),
        bytes: payload.length,
      });
      done();
      return;
    }
    this.#counts.received++;
    const identity = { fleet: topic.fleet, device: topic.device };
    const key = `${topic.fleet}/${topic.device}`;
    this.#queues.push(key, {
      payloadBytes: payload.length,
      run: () => this.#handle({ identity, topic, payload, qos }),
      onError: (error) => {
        this.#options.log.error("message-handler-failed", {
          device: key,
          topic: text,
          message: messageOf(error),
        });
      },
      onReady: done,
    });
  }

  async #handle(message: DeviceMessage): Promise<void> {
    const { identity, topic, payload } = message;
    const key = `${identity.fleet}/${identity.device}`;
    if (topic.kind === "state") {
      // Retained states come again when the link is back.
      if (!this.#isLinked) return;
      await this.#sessions.handleState(identity, payload);
      const birth = this.#heldBirths.get(key);
      if (birth === undefined || !this.#sessions.isOpen(identity)) return;
      this.#heldBirths.delete(key);
      return this.#deliver(birth);
    }
    if (topic.kind === "birth" && !this.#sessions.isOpen(identity)) this.#heldBirths.set(key, message);
    else await this.#deliver(message);
  }

  async #deliver(message: DeviceMessage): Promise<void> {
    for (const handler of this.#messageHandlers) await handler(message);
  }

  #emit(event: BrokerEvent): void {
    this.#options.log.debug(`broker-${event.type}`, { ...event });
    for (const handler of this.#eventHandlers) handler(event);
  }

  async #askToLeave(identity: DeviceIdentity, { session, generation = 0 }: OpenSession): Promise<void> {
    const { root, signer } = this.#options;
    if (signer === undefined) return;
    const topic: Topic = { root, ...identity, kind: "down" };
    const refusal = encodeEnvelope({
      protocol: protocolVersion,
      session,
      sequence: 0,
      correlation: "",
      expiresMs: 0,
      body: {
        type: "refusal",
        code: "DEVICE_REVOKED",
        message:
          "The server does not serve this device: it is unknown, was revoked or enrolled again, or is quarantined because two copies of its enrolment were in use. Ask the fleet's operator.",
        transfer: "",
        retry: false,
        retryAfterMs: 0,
      },
    });
    const signed = signServerMessage(signer, { ...identity, generation, challenge: "" }, refusal);
    await this.publish(buildTopic(topic), signed, { qos: 1 });
  }

  async publish(
    topic: string,
    payload: Uint8Array,
    { qos = 0, retain = false }: PublishOptions = {},
  ): Promise<Delivery> {
    if (!this.#client.connected) return "offline";
    const bytes = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
    this.#counts.sent++;
    return await new Promise<Delivery>((resolve) => {
      this.#unanswered.add(resolve);
      this.#client.publish(topic, bytes, { qos, retain }, (error) => {
        this.#unanswered.delete(resolve);
        resolve(error === undefined || error === null ? "sent" : "offline");
      });
    });
  }

  onMessage(handler: MessageHandler): void {
    this.#messageHandlers.push(handler);
  }
  onEvent(handler: EventHandler): void {
    this.#eventHandlers.push(handler);
  }

  /**
   * Ends the session and asks the device to leave; only the broker's administrator can end its connection.
   */
  async disconnect(identity: DeviceIdentity): Promise<void> {
    this.#options.log.warn("broker-cannot-disconnect", {
      ...identity,
      text: "the device is no longer served, but its connection to the external broker stays open; end it there and withdraw its credentials",
    });
    await this.#sessions.expel(identity);
  }

  stats(): BrokerStats {
    return {
      connections: this.#client.connected ? 1 : 0,
      devices: this.#sessions.count,
      retainedBytes: 0,
      queuedBytes: this.#queues.bytes,
      ...this.#counts,
    };
  }

  async close(): Promise<void> {
    this.#isLinked = false;
    await this.#client.endAsync(true);
    for (const resolve of this.#unanswered) resolve("offline");
    await this.#queues.idle();
  }
}
