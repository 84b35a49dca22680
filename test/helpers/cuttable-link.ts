/** A TCP proxy on loopback whose connections can be cut, and are refused until it is restored. */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

export interface CuttableLink {
  readonly port: number;
  /** Ends all connections and every new one at once. */
  cut(): void;
  restore(): void;
  close(): Promise<void>;
}

export async function startCuttableLink(targetPort: number): Promise<CuttableLink> {
  const sockets = new Set<Socket>();
  let isCut = false;
  const server = createServer((from) => {
    if (isCut) {
      from.destroy();
      return;
    }
    const to = connect(targetPort, "127.0.0.1");
    for (const [socket, other] of [
      [from, to],
      [to, from],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => socket.destroy());
      socket.on("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const destroyAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: typeof address === "object" ? (address?.port ?? 0) : 0,
    cut() {
      isCut = true;
      destroyAll();
    },
    restore() {
      isCut = false;
    },
    async close() {
      destroyAll();
      server.close();
      await once(server, "close");
    },
  };
}
