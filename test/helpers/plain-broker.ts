/** An ordinary MQTT broker on loopback (aedes), without Stemma's admission and limits. */
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { Aedes } from "aedes";

export interface PlainBroker {
  readonly url: string;
  readonly sockets: Set<Socket>;
  close(): Promise<void>;
}

/**
 * @param isOpen whether it accepts every client, or none
 * @param refusedTopic the subscription that it refuses
 */
export async function plainBroker(isOpen = true, refusedTopic?: string): Promise<PlainBroker> {
  const aedes = await Aedes.createBroker({
    authenticate: (_client, _user, _password, done) => {
      done(null, isOpen);
    },
    authorizeSubscribe: (_client, subscription, done) => {
      done(null, subscription.topic === refusedTopic ? null : subscription);
    },
  });
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    aedes.handle(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sockets,
    close: async () => {
      server.close();
      await new Promise<void>((resolve) => {
        aedes.close(resolve);
      });
      for (const socket of sockets) socket.destroy();
    },
  };
}
