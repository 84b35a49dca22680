import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { test } from "node:test";
import { Aedes } from "aedes";
import mqtt from "mqtt";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { deviceSubscriptions } from "../../../../shared/wire/topics.js";
import type { DeviceMessage } from "../../../../server/broker/broker-port.js";
import { connectBroker } from "../../../../server/broker/external-broker.js";
import { nextMessage, topicOf, fleet, root } from "./broker-bench.js";

/** A plain broker as anybody runs it. */
async function plainBroker(
  authorize = true,
): Promise<{ readonly url: string; readonly sockets: Set<Socket>; close(): Promise<void> }> {
  const aedes = await Aedes.createBroker({
    authenticate: (_client, _user, _password, done) => {
      done(null, authorize);
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

test("a plain broker behind the same port: words both ways, and again after the link broke", async () => {
  const plain = await plainBroker();
  const broker = await connectBroker({
    url: plain.url,
    root,
    fleets: [fleet],
    clientId: "server",
    log: silentLog(),
    reconnectMs: 10,
  });
  const device = mqtt.connect(plain.url, { clientId: "v1", reconnectPeriod: 10 });
  try {
    const seen: DeviceMessage[] = [];
    let wake: () => void = () => undefined;
    broker.onMessage(async (message) => {
      seen.push(message);
      wake();
    });
    const arrived = (): Promise<void> =>
      new Promise((resolve) => {
        wake = resolve;
      });
    await device.subscribeAsync([...deviceSubscriptions(root, fleet, "v1")], { qos: 1 });
    let next = arrived();
    device.publish(topicOf("v1", "up/words"), "word", { qos: 1 });
    await next;
    assert.deepEqual(
      seen.map(({ identity, topic, payload }) => [
        identity.device,
        topic.kind,
        Buffer.from(payload).toString(),
      ]),
      [["v1", "up", "word"]],
    );
    const down = nextMessage(device);
    assert.equal(
      await broker.publish(topicOf("v1", "down/words"), Buffer.from("answer"), { qos: 1 }),
      "sent",
    );
    assert.equal((await down)[1].toString(), "answer");
    for (const socket of plain.sockets) socket.destroy();
    // the device says it until it is heard: either side may be the first to be back
    next = arrived();
    const repeat = (): void => {
      device.publish(topicOf("v1", "up/words"), "again", { qos: 1 }, () => {
        if (seen.length < 2) setImmediate(repeat);
      });
    };
    repeat();
    await next;
    assert.equal(Buffer.from(seen[1]?.payload ?? []).toString(), "again");
  } finally {
    device.end(true);
    await broker.close();
    await plain.close();
  }
});

test("a broker that refuses, or is not there, is a typed error", async () => {
  const plain = await plainBroker(false);
  await assert.rejects(
    connectBroker({ url: plain.url, root, fleets: [fleet], clientId: "server", log: silentLog() }),
    (error) => isStemmaError(error, "SERVER_UNREACHABLE"),
  );
  await plain.close();
  await assert.rejects(
    connectBroker({ url: plain.url, root, fleets: [fleet], clientId: "server", log: silentLog() }),
    (error) => isStemmaError(error, "SERVER_UNREACHABLE"),
  );
});
