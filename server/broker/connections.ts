/**
 * The sockets of a broker, from accept to close: quotas, deadlines, and the device of each one. Knows
 * sockets and clocks, no MQTT beyond the frame meter.
 */
import type { Socket } from "node:net";
import type { Clock } from "../../shared/ports.js";
import type { BrokerLimits } from "./broker-limits.js";
import type { BrokerEvent, DeviceIdentity } from "./broker-port.js";
import { guardFrames } from "./frame-guard.js";
import type { FrameMeter } from "./frame-meter.js";

export interface Connection {
  readonly socket: Socket;
  readonly address: string;
  readonly meter: FrameMeter;
  readonly sinceMs: number;
  identity?: DeviceIdentity;
  /** Monotonic time of the last refusal sent to this connection for a topic that is not its own. */
  refusedAtMs?: number;
  /** Topics refused since then. */
  refusals: number;
}

/** Max milliseconds between two checks of the deadlines. */
const maxSweepMs = 1_000;

export class Connections {
  readonly #limits: BrokerLimits;
  readonly #clock: Clock;
  readonly #emit: (event: BrokerEvent) => void;
  readonly #open = new Map<Socket, Connection>();
  readonly #perAddress = new Map<string, number>();
  readonly #sweepMs: number;
  #unknown = 0;
  #cancelSweep: () => void;

  constructor(limits: BrokerLimits, clock: Clock, emit: (event: BrokerEvent) => void) {
    this.#limits = limits;
    this.#clock = clock;
    this.#emit = emit;
    this.#sweepMs = Math.min(maxSweepMs, limits.connectDeadlineMs / 2, limits.frameDeadlineMs / 2);
    this.#cancelSweep = clock.after(this.#sweepMs, () => {
      this.#sweep();
    });
  }

  get size(): number {
    return this.#open.size;
  }
  of(socket: unknown): Connection | undefined {
    return this.#open.get(socket as Socket);
  }

  /**
   * Accepts a new socket if the quotas allow it, and guards its frames. Otherwise closes it and returns
   * undefined.
   */
  admit(socket: Socket): Connection | undefined {
    const address = socket.remoteAddress ?? "unknown";
    const reason = this.#whyNot(address);
    if (reason !== undefined) {
      this.#emit({ type: "connection-refused", address, reason });
      socket.destroy();
      return undefined;
    }
    socket.setNoDelay(true);
    socket.on("error", () => undefined);
    const meter = guardFrames(socket, this.#limits, {
      monotonic: () => this.#clock.monotonic(),
      onViolation: ({ reason: why, bytes }) => {
        this.#emit({ type: "frame-refused", identity: connection.identity, address, reason: why, bytes });
      },
    });
    const connection: Connection = { socket, address, meter, sinceMs: this.#clock.monotonic(), refusals: 0 };
    this.#open.set(socket, connection);
    this.#unknown++;
    this.#perAddress.set(address, (this.#perAddress.get(address) ?? 0) + 1);
    socket.once("close", () => {
      this.#closed(connection);
    });
    return connection;
  }

  #whyNot(address: string): string | undefined {
    const { maxConnections, maxUnknownConnections, maxConnectionsPerAddress } = this.#limits;
    if (this.#open.size >= maxConnections) return `${maxConnections} connections are open`;
    if (this.#unknown >= maxUnknownConnections)
      return `${maxUnknownConnections} connections have not identified themselves yet`;
    if ((this.#perAddress.get(address) ?? 0) >= maxConnectionsPerAddress)
      return `${maxConnectionsPerAddress} connections come from this address`;
    return undefined;
  }

  /** The connection's CONNECT was accepted. */
  identify(connection: Connection, identity: DeviceIdentity): void {
    if (connection.identity !== undefined || !this.#open.has(connection.socket)) return;
    connection.identity = identity;
    connection.meter.accept();
    this.#unknown--;
    connection.socket.setTimeout(this.#limits.maxSilenceMs, () => {
      connection.socket.destroy();
    });
  }

  #closed(connection: Connection): void {
    if (!this.#open.delete(connection.socket)) return;
    if (connection.identity === undefined) this.#unknown--;
    const left = (this.#perAddress.get(connection.address) ?? 1) - 1;
    if (left > 0) this.#perAddress.set(connection.address, left);
    else this.#perAddress.delete(connection.address);
  }

  /** Closes connections that did not finish a CONNECT or a frame in time. */
  #sweep(): void {
    const nowMs = this.#clock.monotonic();
    for (const { identity, sinceMs, meter, socket, address } of this.#open.values()) {
      const isLateConnect = identity === undefined && nowMs - sinceMs > this.#limits.connectDeadlineMs;
      const isLateFrame =
        meter.frameSinceMs !== undefined && nowMs - meter.frameSinceMs > this.#limits.frameDeadlineMs;
      if (!isLateConnect && !isLateFrame) continue;
      this.#emit({
        type: "frame-refused",
        identity,
        address,
        reason: isLateConnect ? "no CONNECT in time" : "a frame that did not end in time",
        bytes: 0,
      });
      socket.destroy();
    }
    this.#cancelSweep = this.#clock.after(this.#sweepMs, () => {
      this.#sweep();
    });
  }

  close(): void {
    this.#cancelSweep();
    for (const { socket } of this.#open.values()) socket.destroy();
  }
}
