/**
 * A broker without sockets, behind the server's port: identities, takeovers, subscriptions and the order of messages as
 * the embedded one has them. It lives as long as the server's process.
 */
import { DeviceQueues } from "../../server/access/broker/device-queues.js";
import type {
  Authenticate,
  BrokerPort,
  BrokerStats,
  ConnectAttempt,
  Delivery,
  DeviceIdentity,
  EventHandler,
  MessageHandler,
  PublishOptions,
  Refused,
} from "../../server/access/broker/broker-port.js";
import { messageOf, messageWithCode } from "../../shared/error-text.js";
import { defaultRoot, parseTopic } from "../../shared/wire/topics.js";
import type { Process } from "./machine.js";
import type { Connection } from "./network.js";

/** The other end of a connection. */
export interface BrokerClient {
  readonly connection: Connection;
  accepted(): void;
  /** CONNACK 3 or 5. */
  refused(code: number): void;
  message(topic: string, payload: Uint8Array): void;
}

interface Accepted {
  readonly client: BrokerClient;
  readonly identity: DeviceIdentity;
  isSubscribed: boolean;
}

const maxQueuedBytes = 2 ** 20;
const keyOf = ({ fleet, device }: DeviceIdentity): string => `${fleet}/${device}`;

export class MemoryBroker implements BrokerPort {
  readonly #accepted = new Map<string, Accepted>();
  readonly #queues = new DeviceQueues(maxQueuedBytes);
  readonly #messageHandlers: MessageHandler[] = [];
  readonly #eventHandlers: EventHandler[] = [];

  constructor(
    private readonly process: Process,
    private readonly authenticate: Authenticate,
  ) {}

  /** A CONNECT has arrived. */
  async connect(attempt: ConnectAttempt, client: BrokerClient): Promise<void> {
    const { connection } = client;
    const answer = await this.authenticate(attempt).catch((error: unknown): Refused => {
      this.process.log.error("broker-authenticate-failed", { text: messageWithCode(error) });
      return { refused: "it could not be judged", code: "INTERNAL", isForNow: true };
    });
    if (!this.process.isRunning || !connection.isOpenAt("broker")) return;
    if (!("device" in answer)) {
      const code = "refused" in answer && answer.isForNow === true ? 3 : 5;
      if ("refused" in answer) {
        const { clientId, address } = attempt;
        const event = {
          type: "refused" as const,
          clientId,
          address,
          reason: answer.refused,
          code: answer.code,
        };
        for (const handler of this.#eventHandlers) handler(event);
      }
      connection.down.ordered(() => {
        if (connection.reaches("client")) client.refused(code);
      });
      return;
    }
    const key = keyOf(answer);
    this.#accepted.get(key)?.client.connection.end("broker");
    const accepted: Accepted = { client, identity: answer, isSubscribed: false };
    this.#accepted.set(key, accepted);
    connection.onClosed.broker = () => {
      this.#gone(key, accepted);
    };
    this.#emit("connected", answer);
    connection.down.ordered(() => {
      if (connection.reaches("client")) client.accepted();
    });
  }

  subscribe(client: BrokerClient): void {
    for (const accepted of this.#accepted.values())
      if (accepted.client === client) accepted.isSubscribed = true;
  }

  /** A message of a client has arrived. */
  receive(client: BrokerClient, topicText: string, payload: Uint8Array, qos: 0 | 1): void {
    const topic = parseTopic(defaultRoot, topicText);
    const accepted = topic && this.#accepted.get(keyOf(topic));
    if (topic === undefined || accepted?.client !== client || !this.process.isRunning) return;
    const { identity } = accepted;
    this.#queues.push(keyOf(identity), {
      payloadBytes: payload.length,
      run: async () => {
        for (const handler of this.#messageHandlers) await handler({ identity, topic, payload, qos });
      },
      onError: (error) => {
        this.process.log.error("message-handler-failed", {
          device: identity.device,
          message: messageOf(error),
        });
      },
      onReady: () => undefined,
    });
  }

  async publish(topicText: string, payload: Uint8Array, { qos = 0 }: PublishOptions = {}): Promise<Delivery> {
    const topic = parseTopic(defaultRoot, topicText);
    const accepted = topic && this.#accepted.get(keyOf(topic));
    if (!this.process.isRunning || accepted === undefined || !accepted.isSubscribed) return "offline";
    const { client } = accepted;
    const { down } = client.connection;
    const bytes = payload.slice();
    const deliver = (): void => {
      if (client.connection.reaches("client")) client.message(topicText, bytes);
    };
    if (qos === 0) down.unordered(deliver);
    else down.droppable(deliver);
    return "sent";
  }

  onMessage(handler: MessageHandler): void {
    this.#messageHandlers.push(handler);
  }
  onEvent(handler: EventHandler): void {
    this.#eventHandlers.push(handler);
  }
  async disconnect(identity: DeviceIdentity): Promise<void> {
    this.#accepted.get(keyOf(identity))?.client.connection.end("broker");
  }
  async serve(): Promise<void> {
    // Every fleet is served from the start.
  }
  stats(): BrokerStats {
    const devices = this.#accepted.size;
    return {
      connections: devices,
      devices,
      retainedBytes: 0,
      queuedBytes: this.#queues.bytes,
      received: 0,
      sent: 0,
      dropped: 0,
    };
  }
  async close(): Promise<void> {
    for (const { client } of [...this.#accepted.values()]) client.connection.end("broker");
    await this.#queues.idle();
  }

  /** The server's process is gone. @param isSilent its machine lost its power, so that nobody tells the devices */
  die(isSilent: boolean): void {
    for (const { client } of [...this.#accepted.values()])
      if (isSilent) client.connection.failSilently();
      else client.connection.end("broker");
  }

  #gone(key: string, accepted: Accepted): void {
    if (this.#accepted.get(key) === accepted) this.#accepted.delete(key);
    this.#emit("disconnected", accepted.identity);
  }

  #emit(type: "connected" | "disconnected", identity: DeviceIdentity): void {
    if (!this.process.isRunning) return;
    for (const handler of this.#eventHandlers) handler({ type, identity, address: "simulated" });
  }
}
