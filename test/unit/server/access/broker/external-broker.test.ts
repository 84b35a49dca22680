/** An ordinary MQTT broker behind the server's broker interface, and what happens when the link to it breaks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import mqtt from "mqtt";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import { encodeEnvelope } from "../../../../../shared/wire/codec.js";
import { protocolVersion } from "../../../../../shared/wire/limits.js";
import { deviceSubscriptions, fleetSubscriptions } from "../../../../../shared/wire/topics.js";
import { defaultBrokerLimits } from "../../../../../server/access/broker/broker-limits.js";
import type { Delivery, DeviceMessage } from "../../../../../server/access/broker/broker-port.js";
import { connectBroker } from "../../../../../server/access/broker/external-broker.js";
import { plainBroker, type PlainBroker } from "../../../../helpers/plain-broker.js";
import { nextMessage, topicOf, fleet, root } from "../../../../helpers/test-broker.js";

/** The server's side of a plain broker, which admits every device. */
const connectTo = (
  { url }: PlainBroker,
  more: Partial<Parameters<typeof connectBroker>[0]> = {},
): ReturnType<typeof connectBroker> =>
  connectBroker({
    url,
    root,
    clientId: "server",
    admit: () => Promise.resolve(undefined),
    log: silentLog(),
    limits: defaultBrokerLimits,
    ...more,
  });

test("a plain broker behind the same interface: messages in both directions, also after the link broke", async () => {
  const plain = await plainBroker();
  const broker = await connectTo(plain, { reconnectMs: 10 });
  await broker.serve(fleet);
  const device = mqtt.connect(plain.url, { clientId: "v1", reconnectPeriod: 10 });
  try {
    const seen: DeviceMessage[] = [];
    let wake: () => void = () => undefined;
    broker.onMessage((message) => {
      seen.push(message);
      wake();
      return Promise.resolve();
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
    // The device repeats it until it arrives: either side may be the first to reconnect.
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

test("closes while the broker has not acknowledged what was published", { timeout: 30_000 }, async () => {
  const plain = await plainBroker();
  const broker = await connectTo(plain);
  try {
    await broker.serve(fleet);
    // As a handler that answers a device: closing waits for handlers, this one for its answer.
    let delivery: Promise<Delivery> | undefined;
    const isHandled = new Promise<void>((resolve) => {
      broker.onMessage(async () => {
        for (const socket of plain.sockets) socket.pause();
        delivery = broker.publish(topicOf("v1", "down/words"), Buffer.from("answer"), { qos: 1 });
        resolve();
        await delivery;
      });
    });
    const device = mqtt.connect(plain.url, { clientId: "v1" });
    device.publish(topicOf("v1", "up/words"), "word", { qos: 0 });
    await isHandled;
    await broker.close();
    assert.equal(await delivery, "offline");
    device.end(true);
  } finally {
    await broker.close();
    await plain.close();
  }
});

test("devices are online only while the broker is: the link's end ends their sessions, their retained states begin them again", async () => {
  const plain = await plainBroker();
  const logged: string[] = [];
  const note = (event: string): void => {
    if (event.startsWith("broker-link")) logged.push(event);
  };
  const broker = await connectTo(plain, {
    log: { ...silentLog(), warn: note, info: note },
    reconnectMs: 10,
  });
  const [link] = plain.sockets;
  const device = await mqtt.connectAsync(plain.url, { clientId: "v1" });
  try {
    await broker.serve(fleet);
    const seen: string[] = [];
    const connectedTimes = (times: number): Promise<void> =>
      new Promise((resolve) => {
        broker.onEvent(({ type }) => {
          seen.push(`${type} ${broker.stats().devices}`);
          if (seen.filter((one) => one === "connected 1").length === times) resolve();
        });
      });
    const back = connectedTimes(2);
    const state = encodeEnvelope({
      protocol: protocolVersion,
      session: 1,
      sequence: 0,
      correlation: "",
      expiresMs: 0,
      body: { type: "state", online: true, previousSession: 0, generation: 1 },
    });
    const begun = new Promise<void>((resolve) => {
      broker.onEvent(() => {
        resolve();
      });
    });
    await device.publishAsync(topicOf("v1", "state"), Buffer.from(state), { qos: 1, retain: true });
    await begun;
    link?.destroy();
    await back;
    assert.deepEqual(seen, ["connected 1", "disconnected 0", "connected 1"]);
    assert.deepEqual(logged, ["broker-link-open", "broker-link-closed", "broker-link-open"]);
  } finally {
    device.end(true);
    await broker.close();
    await plain.close();
  }
});

test("a subscription that the broker refuses is named", async () => {
  const refused = [...fleetSubscriptions(root, fleet)][1] as string;
  const plain = await plainBroker(true, refused);
  const broker = await connectTo(plain);
  try {
    await assert.rejects(broker.serve(fleet), (error) => {
      assert.ok(isStemmaError(error, "NOT_ALLOWED"));
      assert.match(error.message, new RegExp(`subscription to ${refused.replaceAll("+", "\\+")}\\. Allow`));
      return true;
    });
  } finally {
    await broker.close();
    await plain.close();
  }
});

test("a broker that refuses or is not reachable gives a typed error", async () => {
  const plain = await plainBroker(false);
  const options = {
    url: plain.url,
    root,
    clientId: "server",
    admit: () => Promise.resolve(undefined),
    log: silentLog(),
    limits: defaultBrokerLimits,
  };
  await assert.rejects(connectBroker(options), (error) => isStemmaError(error, "SERVER_UNREACHABLE"));
  await plain.close();
  await assert.rejects(connectBroker(options), (error) => isStemmaError(error, "SERVER_UNREACHABLE"));
});
