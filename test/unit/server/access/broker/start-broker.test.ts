/** The broker that the server embeds: messages in both directions, takeover, disconnection, TLS, a taken port. */
import assert from "node:assert/strict";
import { test } from "node:test";
import mqtt from "mqtt";
import { makeCertificate } from "../../../../helpers/test-certificate.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import { nodeClock, silentLog } from "../../../../../shared/adapters/node-ports.js";
import { decodeEnvelope, encodeEnvelope } from "../../../../../shared/wire/codec.js";
import { deviceSubscriptions } from "../../../../../shared/wire/topics.js";
import { startBroker } from "../../../../../server/access/broker/start-broker.js";
import {
  closing,
  fleet,
  knowsSecret,
  nextMessage,
  nextMessages,
  root,
  testBrokers,
  topicOf,
} from "../../../../helpers/test-broker.js";

const start = testBrokers();

test("a device's messages arrive with its identity, in order, and the server's messages reach it", async () => {
  const started = await start();
  const client = await started.client("v1");
  await client.subscribeAsync([...deviceSubscriptions(root, fleet, "v1")], { qos: 1 });
  const three = nextMessages(started, 3);
  for (const message of ["a", "b", "c"]) client.publish(topicOf("v1", "up/words"), message, { qos: 1 });
  const seen = await three;
  assert.deepEqual(
    seen.map(({ payload }) => Buffer.from(payload).toString()),
    ["a", "b", "c"],
  );
  assert.deepEqual(seen[0]?.identity, { fleet, device: "v1" });
  assert.equal(seen[0]?.topic.kind, "up");
  const got = nextMessage(client);
  assert.equal(
    await started.broker.publish(topicOf("v1", "down/words"), Buffer.from("hello"), { qos: 1 }),
    "sent",
  );
  const [topic, payload] = await got;
  assert.equal(topic, topicOf("v1", "down/words"));
  assert.equal(payload.toString(), "hello");
  const block = nextMessage(client);
  assert.equal(
    await started.broker.publish(topicOf("v1", "block/down/0123456789abcdef"), Buffer.alloc(300_000, 7)),
    "sent",
  );
  assert.equal((await block)[1].length, 300_000);
  assert.equal(await started.broker.publish(topicOf("v2", "down/words"), Buffer.from("x")), "offline");
});

test("a second connection of a device takes over the first", async () => {
  const started = await start();
  const first = await started.client("v1");
  const closed = closing(first);
  const second = await started.client("v1");
  await closed;
  await second.subscribeAsync(topicOf("v1", "down/words"));
  assert.equal(await started.broker.publish(topicOf("v1", "down/words"), Buffer.from("x")), "sent");
  assert.equal(started.broker.stats().devices, 1);
});

test("whom it cannot judge now is told so, and not that its credentials are wrong", async () => {
  const answers = {
    v1: () => Promise.resolve({ refused: "wrong token", code: "TOKEN_INVALID" as const }),
    v2: () => Promise.resolve({ refused: "too often", code: "QUOTA_EXCEEDED" as const, isForNow: true }),
    v3: () => Promise.reject(new Error("the disk is full")),
  };
  const started = await start(
    {},
    { authenticate: ({ username }) => answers[username as keyof typeof answers]() },
  );
  const codeOf = (device: string) =>
    started.client(device).then(
      () => undefined,
      (error: unknown) => (error as { readonly code?: number }).code,
    );
  assert.deepEqual([await codeOf("v1"), await codeOf("v2"), await codeOf("v3")], [5, 3, 3]);
});

test("disconnect ends a device's connection, and no offline queue is kept for it", async () => {
  const started = await start();
  const client = await started.client("v1", { clean: false });
  await client.subscribeAsync(topicOf("v1", "down/words"), { qos: 1 });
  const closed = closing(client);
  await started.broker.disconnect({ fleet, device: "v1" });
  await closed;
  assert.equal(
    await started.broker.publish(topicOf("v1", "down/words"), Buffer.from("late"), { qos: 1 }),
    "offline",
  );
  const again = await started.client("v1", { clean: false });
  const messages: string[] = [];
  again.on("message", (_topic, payload) => {
    messages.push(payload.toString());
  });
  await again.subscribeAsync(topicOf("v1", "down/words"), { qos: 1 });
  const now = nextMessage(again);
  await started.broker.publish(topicOf("v1", "down/words"), Buffer.from("now"), { qos: 1 });
  await now;
  assert.deepEqual(messages, ["now"]);
});

test("a port that is taken is reported", async () => {
  const started = await start();
  await assert.rejects(
    startBroker({
      root,
      authenticate: knowsSecret,
      clock: nodeClock(),
      log: silentLog(),
      port: started.broker.port,
    }),
    (error) => isStemmaError(error, "PORT_TAKEN"),
  );
});

test("mqtts: the same broker behind TLS", async (context) => {
  const tls = makeCertificate();
  if (tls === undefined) {
    context.skip("openssl is not here to make a certificate");
    return;
  }
  const started = await start({}, { tls });
  assert.match(started.broker.url, /^mqtts:/);
  const client = await started.client("v1", { ca: tls.cert });
  const got = nextMessages(started, 1);
  await client.publishAsync(topicOf("v1", "block/up/0123456789abcdef"), Buffer.alloc(300_000, 3), {
    qos: 0,
  });
  assert.equal((await got)[0]?.payload.length, 300_000);
  await assert.rejects(
    new Promise((resolve, reject) => {
      const wary = mqtt.connect(started.broker.url, { reconnectPeriod: 0 });
      wary.once("connect", resolve);
      wary.once("error", (error) => {
        wary.end(true);
        reject(error);
      });
    }),
  );
  const oversize = await started.client("v2", { ca: tls.cert });
  const closed = closing(oversize);
  oversize.publish(topicOf("v2", "up/words"), Buffer.alloc(900_000), { qos: 0 });
  await closed;
  await started.nextEvent("frame-refused", "v2");
});

test("an envelope travels through the broker as it is", async () => {
  const started = await start();
  const client = await started.client("v1");
  const got = nextMessages(started, 1);
  const envelope = {
    protocol: 1,
    session: 7,
    sequence: 1,
    correlation: "c",
    expiresMs: 0,
    body: { type: "event", name: "hello", text: "", line: "" },
  } as const;
  await client.publishAsync(topicOf("v1", "up/words"), Buffer.from(encodeEnvelope(envelope)), { qos: 1 });
  assert.deepEqual(decodeEnvelope((await got)[0]?.payload ?? new Uint8Array()), envelope);
});
