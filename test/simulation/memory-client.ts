/**
 * What an agent's link uses of an MQTT client, without sockets and on the virtual clock. The real client keeps its
 * keep-alive and its time-outs by the clock of Node, which a simulation cannot pass.
 */
import { EventEmitter } from "node:events";
import type { IClientOptions } from "mqtt";
import type { LinkClient } from "../../agent/link/link.js";
import type { BrokerClient, MemoryBroker } from "./memory-broker.js";
import type { Process } from "./machine.js";
import type { Connection } from "./network.js";

/** How long a client waits for a server that does not answer. */
const connectTimeoutMs = 30_000;

export interface Dialled {
  /** Undefined: there is no network now. */
  readonly connection: Connection | undefined;
  /** The broker that listens when something arrives. */
  readonly broker: () => MemoryBroker | undefined;
  readonly process: Process;
}

export class MemoryClient extends EventEmitter implements BrokerClient {
  readonly #pending = new Set<(error: Error) => void>();
  #isClosed = false;

  constructor(
    private readonly dialled: Dialled,
    private readonly options: IClientOptions,
  ) {
    super();
    const { connection, process } = dialled;
    process.clock.after(connectTimeoutMs, () => {
      if (!this.#isAccepted) this.end();
    });
    if (connection === undefined) return;
    connection.onClosed.client = () => {
      this.#closed();
    };
    connection.up.ordered(() => {
      this.#arrive();
    });
  }
  #isAccepted = false;

  get connection(): Connection {
    if (this.dialled.connection === undefined) throw new Error("there is no connection");
    return this.dialled.connection;
  }

  /** The CONNECT is at the server's machine. */
  #arrive(): void {
    const { connection } = this;
    if (!connection.reaches("broker")) return;
    const broker = this.dialled.broker();
    if (broker === undefined) {
      connection.end("broker");
      return;
    }
    const { clientId = "", username = "", password = "", will } = this.options;
    void broker.connect(
      {
        clientId,
        username,
        password: Buffer.from(password),
        address: "simulated",
        ...(will === undefined ? {} : { will: { topic: will.topic, payload: Buffer.from(will.payload) } }),
      },
      this,
    );
  }

  accepted(): void {
    this.#tell(() => {
      this.#isAccepted = true;
      this.emit("connect");
    });
  }
  refused(code: number): void {
    this.#tell(() => {
      this.emit("error", Object.assign(new Error(`Connection refused: ${code}`), { code }));
      this.end();
    });
  }
  message(topic: string, payload: Uint8Array): void {
    this.#tell(() => {
      this.emit("message", topic, Buffer.from(payload));
    });
  }

  publish(topic: string, payload: Buffer, _options: unknown, done: (error?: Error) => void): void {
    if (this.#isClosed) {
      done(new Error("client disconnecting"));
      return;
    }
    const bytes = new Uint8Array(payload);
    this.connection.up.unordered(() => {
      if (this.connection.reaches("broker")) this.dialled.broker()?.receive(this, topic, bytes, 0);
    });
    done();
  }

  publishAsync(topic: string, payload: Buffer): Promise<void> {
    const bytes = new Uint8Array(payload);
    return this.#request((broker) => {
      broker.receive(this, topic, bytes, 1);
    });
  }
  subscribeAsync(): Promise<void> {
    return this.#request((broker) => {
      broker.subscribe(this);
    });
  }

  /** Resolves once the broker has acknowledged it. */
  #request(action: (broker: MemoryBroker) => void): Promise<void> {
    if (this.#isClosed) return Promise.reject(new Error("client disconnecting"));
    return new Promise((resolve, reject) => {
      const { connection } = this;
      this.#pending.add(reject);
      connection.up.repeatable(() => {
        const broker = this.dialled.broker();
        if (!connection.reaches("broker") || broker === undefined) return;
        action(broker);
        connection.down.ordered(() => {
          if (!connection.reaches("client")) return;
          this.#pending.delete(reject);
          resolve();
        });
      });
    });
  }

  end(): void {
    if (this.#isClosed) return;
    if (this.dialled.connection === undefined) this.#closed();
    else this.connection.end("client");
  }
  async endAsync(): Promise<void> {
    this.end();
  }

  #closed(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const reject of this.#pending) reject(new Error("Connection closed"));
    this.#pending.clear();
    this.dialled.process.clock.after(0, () => {
      this.emit("close");
    });
  }

  #tell(action: () => void): void {
    if (this.dialled.process.isRunning && !this.#isClosed) action();
  }

  /** As the link's port, whose type is that of the whole client. */
  get port(): LinkClient {
    return this as unknown as LinkClient;
  }
}
