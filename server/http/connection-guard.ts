/** Bounds the connections of the HTTP port whose peers have not sent the token yet. */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { UnknownConnections, type UnknownConnection } from "../broker/unknown-connections.js";
import type { HttpLimits } from "./http-limits.js";

export class ConnectionGuard {
  readonly #unknown: UnknownConnections;
  readonly #connections = new WeakMap<Socket, UnknownConnection>();

  constructor(server: Server, limits: HttpLimits) {
    this.#unknown = new UnknownConnections(limits);
    server.on("connection", (socket: Socket) => {
      this.#arrive(socket);
    });
  }

  /** The connection has sent a request with the token. */
  recognise(socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined) return;
    this.#connections.delete(socket);
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
    this.#connections.set(socket, connection);
    socket.once("close", () => {
      this.#unknown.remove(connection);
    });
  }
}
