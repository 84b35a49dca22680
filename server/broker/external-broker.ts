/**
 * Any MQTT 3.1.1 broker or cluster behind the same port as the embedded one: this side is a client
 * that subscribes to its fleets' topics. That broker binds clients to their topics by its own access
 * rules; identities here are those of the topics. Knows no envelope's meaning.
 */
import mqtt, { type MqttClient } from "mqtt";
import { StemmaError } from "../../shared/errors.js";
import type { Log } from "../../shared/ports.js";
import { fleetSubscriptions, parseTopic } from "../../shared/wire/topics.js";
import { defaultBrokerLimits } from "./broker-limits.js";
import type { BrokerPort, BrokerStats, Delivery, MessageHandler, PublishOptions } from "./broker-port.js";
import { DeviceQueues } from "./device-queues.js";

export interface ExternalBrokerOptions {
  /** mqtt:// or mqtts:// */
  readonly url: string;
  readonly root: string;
  /** The fleets this process owns. */
  readonly fleets: readonly string[];
  readonly clientId: string;
  readonly username?: string;
  readonly password?: string;
  /** PEM of the authority that signs the broker's certificate. */
  readonly ca?: string;
  readonly log: Log;
  /** Frames beyond this are ignored; the broker's own limit should be the same. Bytes. */
  readonly maxFrameBytes?: number;
  /** How long a first connection may take. Rides out the failover of a cluster. */
  readonly connectTimeoutMs?: number;
  readonly reconnectMs?: number;
}

/** Connects and subscribes. @throws SERVER_UNREACHABLE */
export async function connectBroker(options: ExternalBrokerOptions): Promise<BrokerPort> {
  const { url, clientId, username, password, ca, connectTimeoutMs = 30_000, reconnectMs = 1000 } = options;
  const client = mqtt.connect(url, {
    protocolVersion: 4,
    clean: true,
    clientId,
    connectTimeout: connectTimeoutMs,
    reconnectPeriod: reconnectMs,
    resubscribe: true,
    queueQoSZero: false,
    keepalive: 30,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(ca !== undefined && { ca }),
  });
  const broker = new ExternalBroker(client, options);
  try {
    await firstConnection(client);
    await broker.subscribe();
  } catch (cause) {
    client.end(true);
    if (cause instanceof StemmaError) throw cause;
    throw new StemmaError(
      "SERVER_UNREACHABLE",
      `The MQTT broker ${url} did not let this server in (${cause instanceof Error ? cause.message : String(cause)}). Check its address, its certificate and the credentials.`,
      { cause, url },
    );
  }
  client.on("close", () => {
    options.log.warn("broker-link-closed", {});
  });
  return broker;
}

function firstConnection(client: MqttClient): Promise<void> {
  return new Promise((resolve, reject) => {
    const closed = (): void => {
      reject(new Error("the connection was closed"));
    };
    // stays for later errors too: those of a link that comes back by itself end nothing
    client.on("error", reject);
    client.once("close", closed);
    client.once("connect", () => {
      client.removeListener("close", closed);
      resolve();
    });
  });
}

class ExternalBroker implements BrokerPort {
  readonly #client: MqttClient;
  readonly #options: ExternalBrokerOptions;
  readonly #queues = new DeviceQueues(defaultBrokerLimits.maxQueuedBytes);
  readonly #handlers: MessageHandler[] = [];
  readonly #devices = new Set<string>();
  readonly #counts = { received: 0, sent: 0, dropped: 0 };

  constructor(client: MqttClient, options: ExternalBrokerOptions) {
    this.#client = client;
    this.#options = options;
    // aedes' own port closes the socket of who sends too much; here the message is all there is to refuse
    client.handleMessage = (packet, done) => {
      this.#receive(packet.topic, packet.payload, packet.qos, done);
    };
  }

  async subscribe(): Promise<void> {
    const filters = this.#options.fleets.flatMap((fleet) => fleetSubscriptions(this.#options.root, fleet));
    const granted = await this.#client.subscribeAsync(filters, { qos: 1 });
    const refused = granted.filter(({ qos }) => qos > 2);
    if (refused.length > 0)
      throw new StemmaError(
        "NOT_ALLOWED",
        `The MQTT broker refuses the subscription to ${refused.map(({ topic }) => topic).join(", ")}. Allow it to this server's user.`,
        { url: this.#options.url },
      );
  }

  /** `done` lets the next packet in: a full queue of one device holds the link, as a slow disk should. */
  #receive(text: string, payload: string | Buffer, qos: 0 | 1 | 2, done: () => void): void {
    const topic = parseTopic(this.#options.root, text);
    const bytes = typeof payload === "string" ? Buffer.from(payload) : payload;
    const most = this.#options.maxFrameBytes ?? defaultBrokerLimits.maxFrameBytes;
    if (topic === undefined || bytes.length > most || !this.#options.fleets.includes(topic.fleet)) {
      this.#counts.dropped++;
      this.#options.log.warn("broker-message-ignored", { topic: text.slice(0, 200), bytes: bytes.length });
      done();
      return;
    }
    this.#counts.received++;
    const key = `${topic.fleet}/${topic.device}`;
    this.#devices.add(key);
    this.#queues.push(
      key,
      bytes.length,
      async () => {
        for (const handler of this.#handlers)
          await handler({
            identity: { fleet: topic.fleet, device: topic.device },
            topic,
            payload: bytes,
            qos,
          });
      },
      (error) => {
        this.#options.log.error("message-handler-failed", {
          device: key,
          topic: text,
          message: error instanceof Error ? error.message : String(error),
        });
      },
      done,
    );
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
      this.#client.publish(topic, bytes, { qos, retain }, (error) => {
        resolve(error === undefined || error === null ? "sent" : "offline");
      });
    });
  }
  onMessage(handler: MessageHandler): void {
    this.#handlers.push(handler);
  }
  /** A client of another broker sees no connections. */
  onEvent(): void {
    return;
  }
  /** MQTT 3.1.1 has no word for it: the broker's own administration ends connections. */
  async disconnect(identity: { readonly fleet: string; readonly device: string }): Promise<void> {
    this.#options.log.warn("broker-cannot-disconnect", { ...identity });
  }
  stats(): BrokerStats {
    return {
      connections: this.#client.connected ? 1 : 0,
      devices: this.#devices.size,
      retainedBytes: 0,
      queuedBytes: this.#queues.bytes,
      ...this.#counts,
    };
  }
  async close(): Promise<void> {
    await this.#client.endAsync(true);
    await this.#queues.idle();
  }
}
