/**
 * aedes with its hooks: which clients may connect, publish and subscribe, and where messages go. A publish
 * is never refused by an error, because a client would send it again forever: a publish that is not allowed
 * is accepted, dropped and answered. No message of a device is routed to another client.
 */
import { defined } from "../../../shared/defined.js";
import { messageOf } from "../../../shared/error-text.js";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { Aedes, type AuthenticateError, type Client, type PublishPacket, type Subscription } from "aedes";
import type { Clock, Log } from "../../../shared/ports.js";
import { peerChain } from "../../../shared/trust/certificates/peer-chain.js";
import { encodeEnvelope } from "../../../shared/wire/codec.js";
import { protocolVersion } from "../../../shared/wire/limits.js";
import { keepNoMqttNumbers } from "../../../shared/wire/mqtt-numbers.js";
import { buildTopic, clientIdOf, parseTopic, type Topic } from "../../../shared/wire/topics.js";
import { aedesSettings, keepNoSession } from "./aedes-settings.js";
import { maySubscribe, mayRetain, publishable, subscribedFilter } from "./access.js";
import type { BrokerLimits } from "./broker-limits.js";
import type {
  AnswerOnly,
  Authenticate,
  BrokerEvent,
  BrokerPort,
  BrokerStats,
  Delivery,
  DeviceIdentity,
  EventHandler,
  MessageHandler,
  PublishOptions,
  Refused,
} from "./broker-port.js";
import type { Connection, Connections } from "./connections.js";
import { DeviceQueues } from "./device-queues.js";
import { RetainedQuota } from "./retained-quota.js";

export interface AedesBrokerOptions {
  readonly root: string;
  readonly authenticate: Authenticate;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: BrokerLimits;
  readonly connections: Connections;
  readonly emit: (event: BrokerEvent) => void;
  readonly onEvent: (handler: EventHandler) => void;
}

/** Properties that aedes documents but leaves out of its types. */
interface ConnectPacket {
  clientId: string;
  clean: boolean;
  keepalive: number;
  will?: { topic: string; payload?: Uint8Array | string };
}
type KnownClient = Client & {
  conn: Socket;
  subscriptions: Readonly<Record<string, { readonly qos: number } | undefined>>;
};

/** Topic of handled messages inside aedes; no client may subscribe to it. */
const handledTopic = "$stemma/handled";
/** Min milliseconds between two refusals that a connection gets for using topics that are not its own. */
const refusalIntervalMs = 10_000;
/** Max events about refused topics per interval: of a flood, only the first ones are reported. */
const maxRefusalEvents = 20;
const keyOf = ({ fleet, device }: DeviceIdentity): string => `${fleet}/${device}`;

export class AedesBroker {
  readonly #options: AedesBrokerOptions;
  readonly #clients = new Map<string, KnownClient>();
  readonly #wills = new WeakMap<Client, { readonly topic: string; readonly payload: Uint8Array }>();
  readonly #identities = new WeakMap<Client, DeviceIdentity>();
  /** The answers to clients that are disconnected right after; they have no identity. */
  readonly #answers = new WeakMap<Client, AnswerOnly["answer"]>();
  /** Bytes passed to aedes for a client and not yet acknowledged. */
  readonly #unwritten = new WeakMap<Client, number>();
  /** Clients whose last message was dropped: one event is emitted for a series of dropped messages. */
  readonly #frozen = new WeakSet<Client>();
  readonly #queues: DeviceQueues;
  readonly #retained: RetainedQuota;
  readonly #messageHandlers: MessageHandler[] = [];
  readonly #counts = { received: 0, sent: 0, dropped: 0 };
  #aedes: Aedes | undefined;

  private constructor(options: AedesBrokerOptions) {
    this.#options = options;
    this.#queues = new DeviceQueues(options.limits.maxQueuedBytes);
    this.#retained = new RetainedQuota(options.limits);
  }

  static async start(options: AedesBrokerOptions): Promise<AedesBroker> {
    keepNoMqttNumbers();
    const broker = new AedesBroker(options);
    const aedes = await Aedes.createBroker({
      ...aedesSettings(options.limits),
      preConnect: (client, packet, done) => {
        broker.#preConnect(client, packet as unknown as ConnectPacket);
        done(null, true);
      },
      authenticate: (client, username, password, done) => {
        broker.#authenticate(client as KnownClient, username ?? "", password ?? new Uint8Array(0)).then(
          (refused) => {
            if (refused === undefined) done(null, true);
            else done(refusalOf(refused), false);
          },
          (error: unknown) => {
            const text = `a device could not be judged: ${messageOf(error)}; it tries again`;
            options.log.error("broker-authenticate-failed", { text });
            done(refusalOf({ isForNow: true }), false);
          },
        );
      },
      authorizePublish: (client, packet, done) => {
        broker.#receive(client as KnownClient | null, packet, done);
      },
      authorizeSubscribe: (client, subscription, done) => {
        done(null, broker.#judgeSubscription(client as KnownClient, subscription));
      },
    });
    broker.#aedes = aedes;
    aedes.on("clientReady", (client) => {
      broker.#ready(client as KnownClient);
    });
    aedes.on("clientDisconnect", (client) => {
      broker.#gone(client as KnownClient);
    });
    aedes.on("clientError", () => undefined);
    aedes.on("connectionError", () => undefined);
    return broker;
  }

  handle(socket: Socket): void {
    this.#aedes?.handle(socket);
  }

  port(): BrokerPort {
    return {
      publish: (topic, payload, options) => this.#publish(topic, payload, options),
      onMessage: (handler) => {
        this.#messageHandlers.push(handler);
      },
      onEvent: this.#options.onEvent,
      disconnect: (identity) => this.#disconnect(identity),
      serve: () => Promise.resolve(),
      stats: () => this.#stats(),
      close: () => this.close(),
    };
  }

  #preConnect(client: Client, packet: ConnectPacket): void {
    keepNoSession(packet);
    const { will } = packet;
    if (will !== undefined)
      this.#wills.set(client, {
        topic: will.topic,
        payload:
          typeof will.payload === "string" ? Buffer.from(will.payload) : (will.payload ?? new Uint8Array(0)),
      });
  }

  /** Returns why the client may not connect; undefined where it may. */
  async #authenticate(
    client: KnownClient,
    username: string,
    password: Uint8Array,
  ): Promise<Refused | undefined> {
    const connection = this.#options.connections.of(client.conn);
    if (connection === undefined) return { refused: "its socket is closed", code: "SERVER_UNREACHABLE" };
    const will = this.#wills.get(client);
    const answer = await this.#options.authenticate({
      clientId: client.id,
      username,
      password,
      address: connection.address,
      chain: client.conn instanceof TLSSocket ? peerChain(client.conn) : [],
      ...defined({ will }),
    });
    if ("answer" in answer) {
      this.#answers.set(client, answer.answer);
      return undefined;
    }
    const judged =
      "refused" in answer || client.id === clientIdOf(answer.fleet, answer.device)
        ? answer
        : ({ refused: "its client id is not that of its credentials", code: "IDENTITY_FOREIGN" } as const);
    if ("refused" in judged) {
      this.#options.emit({
        type: "refused",
        clientId: client.id.slice(0, 200),
        address: connection.address,
        reason: judged.refused,
        code: judged.code,
      });
      return judged;
    }
    this.#identities.set(client, judged);
    this.#options.connections.identify(connection, judged);
    return undefined;
  }

  #ready(client: KnownClient): void {
    const answer = this.#answers.get(client);
    if (answer !== undefined) {
      const payload = Buffer.from(answer.payload);
      client.publish(
        { cmd: "publish", topic: answer.topic, payload, qos: 0, retain: false, dup: false },
        () => {
          client.close();
        },
      );
    }
    const identity = this.#identities.get(client);
    if (identity === undefined || client.closed) return;
    this.#clients.set(keyOf(identity), client);
    this.#options.emit({ type: "connected", identity, address: this.#connectionOf(client)?.address ?? "" });
  }
  #gone(client: KnownClient): void {
    const identity = this.#identities.get(client);
    if (identity === undefined || this.#clients.get(keyOf(identity)) !== client) return;
    this.#clients.delete(keyOf(identity));
    this.#options.emit({
      type: "disconnected",
      identity,
      address: this.#connectionOf(client)?.address ?? "",
    });
  }
  #connectionOf(client: KnownClient): Connection | undefined {
    return this.#options.connections.of(client.conn);
  }

  /**
   * Takes over a device's message (or will) from aedes. `done` is called when the device may send more, never
   * with an error.
   */
  #receive(client: KnownClient | null, packet: PublishPacket, done: (error?: Error | null) => void): void {
    const identity = client === null ? undefined : this.#identities.get(client);
    const { topic: text, payload: raw, qos } = packet;
    const payload = typeof raw === "string" ? Buffer.from(raw) : raw;
    const topic = identity && publishable(this.#options.root, identity, text);
    const isRetained =
      packet.retain &&
      identity !== undefined &&
      topic !== undefined &&
      this.#mayRetain(identity, topic, text, payload.length);
    if (!isRetained) {
      packet.topic = handledTopic;
      packet.payload = Buffer.alloc(0);
      packet.retain = false;
    }
    if (identity === undefined) {
      done();
      return;
    }
    if (topic === undefined) {
      this.#refuseTopic(client as KnownClient, identity, text, "publish");
      done();
      return;
    }
    this.#counts.received++;
    this.#queues.push(keyOf(identity), {
      payloadBytes: payload.length,
      run: async () => {
        for (const handler of this.#messageHandlers) await handler({ identity, topic, payload, qos });
      },
      onError: (error) => {
        this.#options.log.error("message-handler-failed", {
          device: keyOf(identity),
          topic: text,
          message: messageOf(error),
        });
      },
      onReady: () => {
        done();
      },
    });
  }
  #mayRetain(identity: DeviceIdentity, topic: Topic, text: string, bytes: number): boolean {
    if (mayRetain(topic) && this.#retained.replace(keyOf(identity), text, bytes)) return true;
    this.#options.emit({ type: "topic-refused", identity, topic: text.slice(0, 200), what: "retain" });
    return false;
  }

  #judgeSubscription(client: KnownClient, subscription: Subscription): Subscription | null {
    const identity = this.#identities.get(client);
    if (identity === undefined) return null;
    const isNew = client.subscriptions[subscription.topic] === undefined;
    const isFull = isNew && Object.keys(client.subscriptions).length >= this.#options.limits.maxSubscriptions;
    if (!isFull && maySubscribe(this.#options.root, identity, subscription.topic)) return subscription;
    this.#refuseTopic(client, identity, subscription.topic, "subscribe");
    return null;
  }

  #refuseTopic(
    client: KnownClient,
    identity: DeviceIdentity,
    topic: string,
    what: "publish" | "subscribe",
  ): void {
    const connection = this.#connectionOf(client);
    if (connection === undefined) return;
    const nowMs = this.#options.clock.monotonic();
    const isRefusalDue =
      connection.refusedAtMs === undefined || nowMs - connection.refusedAtMs >= refusalIntervalMs;
    if (isRefusalDue) {
      connection.refusedAtMs = nowMs;
      connection.refusals = 0;
    }
    if (++connection.refusals <= maxRefusalEvents)
      this.#options.emit({ type: "topic-refused", identity, topic: topic.slice(0, 200), what });
    if (!isRefusalDue) return;
    const message = `The topic ${JSON.stringify(topic.slice(0, 200))} is not one that this device may ${what === "publish" ? "publish on" : "subscribe to"}; nothing was stored. Use the topics of ${identity.fleet}/${identity.device}.`;
    const answer = encodeEnvelope({
      protocol: protocolVersion,
      session: 0,
      sequence: 0,
      correlation: "",
      expiresMs: 0,
      body: {
        type: "refusal",
        code: "TOPIC_FORBIDDEN",
        message,
        transfer: "",
        retry: false,
        retryAfterMs: 0,
      },
    });
    void this.#publish(buildTopic({ root: this.#options.root, ...identity, kind: "down" }), answer, {
      qos: 1,
    });
  }

  async #publish(
    text: string,
    payload: Uint8Array,
    { qos = 0, retain = false, unused }: PublishOptions = {},
  ): Promise<Delivery> {
    const bytes = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
    if (retain) await this.#retain(text, bytes, qos);
    const topic = parseTopic(this.#options.root, text);
    const client = topic && this.#clients.get(keyOf(topic));
    const filter = topic && client && subscribedFilter(this.#options.root, topic, client.subscriptions, text);
    if (client === undefined || filter === undefined || client.closed) return "offline";
    // `writableLength` does not include the bytes that aedes has not written yet.
    const backlog = (this.#unwritten.get(client) ?? 0) + client.conn.writableLength;
    if (backlog + bytes.length > this.#options.limits.maxBacklogBytes) {
      this.#counts.dropped++;
      if (!this.#frozen.has(client))
        this.#options.emit({ type: "frozen", identity: topic as DeviceIdentity, bytes: backlog });
      this.#frozen.add(client);
      return "dropped";
    }
    this.#frozen.delete(client);
    this.#unwritten.set(client, (this.#unwritten.get(client) ?? 0) + bytes.length);
    const granted = Math.min(qos, client.subscriptions[filter]?.qos ?? 0) as 0 | 1;
    this.#counts.sent++;
    return await new Promise<Delivery>((resolve) => {
      client.publish(
        { cmd: "publish", topic: text, payload: bytes, qos: granted, retain: false, dup: false },
        () => {
          this.#unwritten.set(client, (this.#unwritten.get(client) ?? 0) - bytes.length);
          // Else some of it may wait in the socket. With QoS 1 aedes keeps it until it is acknowledged.
          if (granted === 0 && !retain && !client.closed && client.conn.writableLength === 0) unused?.();
          resolve(client.closed ? "offline" : "sent");
        },
      );
    });
  }
  #retain(topic: string, payload: Buffer, qos: 0 | 1): Promise<void> {
    return new Promise((resolve) => {
      this.#aedes?.publish({ cmd: "publish", topic, payload, qos, retain: true, dup: false }, () => {
        resolve();
      });
    });
  }

  async #disconnect(identity: DeviceIdentity): Promise<void> {
    const client = this.#clients.get(keyOf(identity));
    if (client !== undefined)
      await new Promise<void>((resolve) => {
        client.close(() => {
          resolve();
        });
      });
  }

  #stats(): BrokerStats {
    return {
      connections: this.#options.connections.size,
      devices: this.#clients.size,
      retainedBytes: this.#retained.bytes,
      queuedBytes: this.#queues.bytes,
      ...this.#counts,
    };
  }

  /** Closes clients, then waits until what they sent has been handled. */
  async close(): Promise<void> {
    const aedes = this.#aedes;
    if (aedes !== undefined)
      await new Promise<void>((resolve) => {
        aedes.close(() => {
          resolve();
        });
      });
    await this.#queues.idle();
  }
}

/** The error for CONNACK 5, "not authorised", or for 3, "server unavailable". The client gets no other reason. */
function refusalOf({ isForNow = false }: Pick<Refused, "isForNow">): AuthenticateError {
  return isForNow
    ? Object.assign(new Error("server unavailable"), { returnCode: 3 })
    : Object.assign(new Error("not authorised"), { returnCode: 5 });
}
