/**
 * The embedded broker with its guards open: the same aedes with the same settings behind the same admission and frame
 * meter, and whoever comes may publish and subscribe to all. A server has no such broker: there no message of a device
 * goes to another (docs/protocol.md, "Topics").
 */
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { Aedes } from "aedes";
import { aedesSettings, keepNoSession } from "../../../server/access/broker/aedes-settings.js";
import { defaultBrokerLimits } from "../../../server/access/broker/broker-limits.js";
import { Connections } from "../../../server/access/broker/connections.js";
import { nodeClock } from "../../../shared/adapters/node-ports.js";
import { keepNoMqttNumbers } from "../../../shared/wire/mqtt-numbers.js";

export interface OpenBroker {
  readonly port: number;
  close(): Promise<void>;
}

/** @param forbidden the topic filter to which nobody may subscribe */
export async function openBroker(forbidden: string): Promise<OpenBroker> {
  keepNoMqttNumbers();
  const connections = new Connections(defaultBrokerLimits, nodeClock(), () => undefined);
  const aedes = await Aedes.createBroker({
    ...aedesSettings(defaultBrokerLimits),
    preConnect: (_client, packet, done) => {
      keepNoSession(packet);
      done(null, true);
    },
    authenticate: (client, _username, _password, done) => {
      const connection = connections.of(client.conn);
      if (connection !== undefined)
        connections.identify(connection, { fleet: "suite", device: client.id || "unnamed" });
      done(null, connection !== undefined);
    },
    authorizeSubscribe: (_client, subscription, done) => {
      done(null, subscription.topic === forbidden ? null : subscription);
    },
  });
  aedes.on("clientError", () => undefined);
  aedes.on("connectionError", () => undefined);
  const server = createServer((socket) => {
    if (connections.arrive(socket) && connections.open(socket) !== undefined) aedes.handle(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      server.close();
      await new Promise<void>((resolve) => {
        aedes.close(resolve);
      });
      connections.close();
    },
  };
}
