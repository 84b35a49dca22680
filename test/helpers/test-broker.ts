/** A broker on a free port that knows the devices v1, v2 …, and raw or mqtt.js clients for it. */
import { once } from "node:events";
import { connect as connectSocket, type Socket } from "node:net";
import { after } from "node:test";
import mqtt, { type IClientOptions, type MqttClient } from "mqtt";
import { nodeClock, silentLog } from "../../shared/adapters/node-ports.js";
import { clientIdOf } from "../../shared/wire/topics.js";
import type { BrokerLimits } from "../../server/access/broker/broker-limits.js";
import type { Authenticate, BrokerEvent, DeviceMessage } from "../../server/access/broker/broker-port.js";
import { awaiting } from "./awaiting.js";
import {
  startBroker,
  type BrokerOptions,
  type EmbeddedBroker,
} from "../../server/access/broker/start-broker.js";

export const root = "stemma";
export const fleet = "fleet1";
export const topicOf = (device: string, tail: string): string => `${root}/v1/${fleet}/${device}/${tail}`;

/** Devices v1 … are known by the password "secret". */
export const knowsSecret: Authenticate = ({ username, password }) =>
  Promise.resolve(
    /^v\d+$/.test(username) && Buffer.from(password).toString() === "secret"
      ? { fleet, device: username }
      : ({ refused: "wrong token", code: "TOKEN_INVALID" } as const),
  );

export interface TestBroker {
  readonly broker: EmbeddedBroker;
  readonly events: BrokerEvent[];
  /** The first event of this type, about this device where one is named; it may have happened already. */
  nextEvent(type: BrokerEvent["type"], device?: string): Promise<BrokerEvent>;
  /** Connects with mqtt.js. Rejects when the broker refuses the device. */
  client(device: string, options?: IClientOptions): Promise<MqttClient>;
  /** Connects a socket and sends nothing. */
  raw(): Promise<Socket>;
  close(): Promise<void>;
}

export async function startTestBroker(
  limits: Partial<BrokerLimits> = {},
  options: Partial<BrokerOptions> = {},
): Promise<TestBroker> {
  const broker = await startBroker({
    root,
    authenticate: knowsSecret,
    clock: nodeClock(),
    log: silentLog(),
    limits,
    ...options,
  });
  const events: BrokerEvent[] = [];
  const listeners = new Set<() => void>();
  broker.onEvent((event) => {
    events.push(event);
    for (const listener of [...listeners]) listener();
  });
  const nextEvent = (type: BrokerEvent["type"], device?: string): Promise<BrokerEvent> => {
    const isMeant = (event: BrokerEvent): boolean =>
      event.type === type &&
      (device === undefined || ("identity" in event && event.identity?.device === device));
    const seen = new Promise<BrokerEvent>((resolve) => {
      const look = (): void => {
        const found = events.find(isMeant);
        if (found === undefined) return;
        listeners.delete(look);
        resolve(found);
      };
      listeners.add(look);
      look();
    });
    return awaiting(() => `the broker's event ${type} of ${device ?? "any connection"}`, seen);
  };
  const clients: MqttClient[] = [];
  const sockets: Socket[] = [];
  return {
    broker,
    events,
    nextEvent,
    client: async (device, more = {}) => {
      const client = mqtt.connect(broker.url, {
        clientId: clientIdOf(fleet, device),
        username: device,
        password: "secret",
        protocolVersion: 4,
        reconnectPeriod: 0,
        ...more,
      });
      clients.push(client);
      await new Promise<void>((resolve, reject) => {
        client.once("connect", () => {
          resolve();
        });
        client.once("error", reject);
        client.once("close", () => {
          reject(new Error("closed before CONNACK"));
        });
      });
      client.on("error", () => undefined);
      return client;
    },
    raw: async () => {
      const socket = connectSocket(broker.port, "127.0.0.1");
      sockets.push(socket);
      socket.on("error", () => undefined);
      await once(socket, "connect");
      return socket;
    },
    close: async () => {
      for (const client of clients) client.end(true);
      for (const socket of sockets) socket.destroy();
      await broker.close();
    },
  };
}

/** Returns `startTestBroker` for the tests of one file; closes the brokers after the last of them. */
export function testBrokers(): typeof startTestBroker {
  const started: TestBroker[] = [];
  after(async () => {
    for (const broker of started) await broker.close();
  });
  return async (...options) => {
    const broker = await startTestBroker(...options);
    started.push(broker);
    return broker;
  };
}

/** The next `count` messages that devices send. */
export function nextMessages({ broker }: TestBroker, count: number): Promise<DeviceMessage[]> {
  const messages: DeviceMessage[] = [];
  return new Promise((resolve) => {
    broker.onMessage((message) => {
      messages.push(message);
      if (messages.length === count) resolve(messages);
      return Promise.resolve();
    });
  });
}

/** Resolves when it closes, whatever error comes first. */
export function closing(emitter: { once(event: "close", listener: () => void): unknown }): Promise<void> {
  return new Promise((resolve) => {
    emitter.once("close", () => {
      resolve();
    });
  });
}

/** The next message that the client receives. */
export function nextMessage(client: MqttClient): Promise<readonly [topic: string, payload: Buffer]> {
  return new Promise((resolve) => {
    client.once("message", (topic, payload) => {
      resolve([topic, payload]);
    });
  });
}

/** A CONNECT packet of MQTT 3.1.1 for a known device. */
export function connectPacket(device: string, { password = "secret", keepalive = 60 } = {}): Buffer {
  const text = (value: string): Buffer => {
    const bytes = Buffer.from(value);
    const length = Buffer.alloc(2);
    length.writeUInt16BE(bytes.length);
    return Buffer.concat([length, bytes]);
  };
  const body = Buffer.concat([
    text("MQTT"),
    Buffer.of(4, 0xc2, keepalive >> 8, keepalive & 255),
    text(clientIdOf(fleet, device)),
    text(device),
    text(password),
  ]);
  return Buffer.concat([Buffer.of(0x10), remainingLength(body.length), body]);
}
export function remainingLength(length: number): Buffer {
  const bytes: number[] = [];
  do {
    bytes.push((length % 128) + (length >= 128 ? 128 : 0));
    length = Math.floor(length / 128);
  } while (length > 0);
  return Buffer.from(bytes);
}
