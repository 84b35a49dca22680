/** Bounds the connections of the HTTP port whose peers have not sent the token yet. */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { UnknownConnections, type UnknownConnection } from "../../access/broker/unknown-connections.js";
import type { HttpLimits } from "./http-limits.js";

export class ConnectionGuard {
  readonly #unknown: UnknownConnections;
  /** The connections by the peer's address and port, which a TLS socket has in common with the one that it decrypts. */
  readonly #connections = new Map<string, UnknownConnection>();

  constructor(server: Server, limits: HttpLimits) {
    this.#unknown = new UnknownConnections(limits);
    server.on("connection", (socket: Socket) => {
      this.#arrive(socket);
    });
  }

  /** The connection has sent a request with the token. */
  recognise(socket: Socket): void {
    const peer = peerOf(socket);
    const connection = this.#connections.get(peer);
    if (connection === undefined) return;
    this.#connections.delete(peer);
    this.#unknown.remove(connection);
    this.#unknown.recognise(connection.address);
  }

  #arrive(socket: Socket): void {
    const connection: UnknownConnection = {
      address: socket.remoteAddress ?? "unknown",
      progress: () => (socket.bytesRead > 0 ? "partial" : "silent"),
      evict: () => {
        socket.destroy();
      },
    };
    if (this.#unknown.admit(connection) !== undefined) {
      socket.destroy();
      return;
    }
    const peer = peerOf(socket);
    this.#connections.set(peer, connection);
    socket.once("close", () => {
      if (this.#connections.get(peer) === connection) this.#connections.delete(peer);
      this.#unknown.remove(connection);
    });
  }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress ?? "unknown"} ${remotePort ?? 0}`;
}
