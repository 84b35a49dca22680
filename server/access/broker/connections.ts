/**
 * The sockets of a broker, from accept to close: quotas, deadlines, and the device of each one. Knows
 * sockets and clocks, no MQTT beyond the frame meter. With TLS a connection arrives as a plain socket and is
 * opened as another one after the handshake.
 */
import type { Socket } from "node:net";
import type { Clock } from "../../../shared/ports.js";
import type { BrokerLimits } from "./broker-limits.js";
import type { BrokerEvent, DeviceIdentity } from "./broker-port.js";
import { FrameMeter, type FrameLimits, type FrameViolation } from "./frame-meter.js";
import { UnknownConnections, type UnknownConnection } from "./unknown-connections.js";

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

/** A socket from its arrival on; with TLS its connection is opened after the handshake. */
interface Arrival extends UnknownConnection {
  connection?: Connection;
}

/** Max milliseconds between two checks of the deadlines. */
const maxSweepMs = 1_000;

export class Connections {
  readonly #limits: BrokerLimits;
  readonly #clock: Clock;
  readonly #emit: (event: BrokerEvent) => void;
  readonly #open = new Map<Socket, Connection>();
  /** Sockets that arrived and are not closed, by the peer's address and port. */
  readonly #arrivals = new Map<string, Arrival>();
  readonly #perAddress = new Map<string, number>();
  readonly #unknown: UnknownConnections;
  readonly #sweepMs: number;
  #cancelSweep: () => void;

  constructor(limits: BrokerLimits, clock: Clock, emit: (event: BrokerEvent) => void) {
    this.#limits = limits;
    this.#clock = clock;
    this.#emit = emit;
    this.#unknown = new UnknownConnections(limits);
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

  /** Takes a new socket if the quotas allow it; otherwise closes it and returns false. */
  arrive(socket: Socket): boolean {
    const address = socket.remoteAddress ?? "unknown";
    const arrival: Arrival = {
      address,
      progress: () => {
        if (arrival.connection?.meter.hasConnect === true) return "complete";
        return socket.bytesRead > 0 ? "partial" : "silent";
      },
      evict: () => {
        this.#refuse(socket, address, "it had sent no CONNECT, and another connection needed its place");
      },
    };
    const reason = this.#whyNot(address) ?? this.#unknown.admit(arrival);
    if (reason !== undefined) {
      this.#refuse(socket, address, reason);
      return false;
    }
    socket.on("error", () => undefined);
    const peer = peerOf(socket);
    this.#arrivals.set(peer, arrival);
    this.#perAddress.set(address, (this.#perAddress.get(address) ?? 0) + 1);
    socket.once("close", () => {
      this.#remove(peer, arrival);
    });
    return true;
  }

  #refuse(socket: Socket, address: string, reason: string): void {
    this.#emit({ type: "connection-refused", address, reason, code: "QUOTA_EXCEEDED" });
    socket.destroy();
  }

  #whyNot(address: string): string | undefined {
    const { maxConnections, maxConnectionsPerAddress } = this.#limits;
    if (this.#arrivals.size >= maxConnections) return `${maxConnections} connections are open`;
    if ((this.#perAddress.get(address) ?? 0) >= maxConnectionsPerAddress)
      return `${maxConnectionsPerAddress} connections come from this address`;
    return undefined;
  }

  #remove(peer: string, arrival: Arrival): void {
    this.#unknown.remove(arrival);
    if (this.#arrivals.get(peer) === arrival) this.#arrivals.delete(peer);
    const left = (this.#perAddress.get(arrival.address) ?? 1) - 1;
    if (left > 0) this.#perAddress.set(arrival.address, left);
    else this.#perAddress.delete(arrival.address);
  }

  /**
   * Opens the connection of a peer that has arrived, on its socket or, with TLS, on the socket that decrypts it.
   * Guards its frames. Returns undefined where the peer has left meanwhile.
   */
  open(socket: Socket): Connection | undefined {
    const arrival = this.#arrivals.get(peerOf(socket));
    if (arrival === undefined) {
      socket.destroy();
      return undefined;
    }
    const { address } = arrival;
    socket.setNoDelay(true);
    socket.on("error", () => undefined);
    const meter = guardFrames(socket, this.#limits, {
      monotonic: () => this.#clock.monotonic(),
      onViolation: ({ reason: why, bytes }) => {
        this.#emit({ type: "frame-refused", identity: connection.identity, address, reason: why, bytes });
      },
    });
    const connection: Connection = { socket, address, meter, sinceMs: this.#clock.monotonic(), refusals: 0 };
    arrival.connection = connection;
    this.#open.set(socket, connection);
    socket.once("close", () => {
      this.#open.delete(socket);
    });
    return connection;
  }

  /** The connection's CONNECT was accepted. */
  identify(connection: Connection, identity: DeviceIdentity): void {
    if (connection.identity !== undefined || !this.#open.has(connection.socket)) return;
    connection.identity = identity;
    connection.meter.accept();
    const arrival = this.#arrivals.get(peerOf(connection.socket));
    if (arrival !== undefined) this.#unknown.remove(arrival);
    this.#unknown.recognise(connection.address);
    connection.socket.setTimeout(this.#limits.maxSilenceMs, () => {
      connection.socket.destroy();
    });
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

/** The peer's address and port. A TLS socket has those of the socket that it decrypts. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress ?? "unknown"} ${remotePort ?? 0}`;
}

/** The clock of a frame guard, and what it calls where a frame breaks a limit. */
interface GuardPorts {
  readonly monotonic: () => number;
  readonly onViolation: (violation: FrameViolation) => void;
}

/**
 * Measures the MQTT frames of a socket as each chunk is pushed into its read buffer: a frame that is too long closes
 * the connection before any reader can buffer it. Call before anything reads from the socket.
 */
function guardFrames(socket: Socket, limits: FrameLimits, ports: GuardPorts): FrameMeter {
  const meter = new FrameMeter(limits);
  const push = socket.push.bind(socket);
  let isClosed = false;
  socket.push = (chunk: unknown, encoding?: BufferEncoding): boolean => {
    if (isClosed && chunk !== null) return false;
    if (chunk instanceof Uint8Array) {
      const violation = meter.feed(chunk, ports.monotonic());
      if (violation !== undefined) {
        isClosed = true;
        ports.onViolation(violation);
        socket.destroy();
        return false;
      }
    }
    return push(chunk, encoding);
  };
  return meter;
}
