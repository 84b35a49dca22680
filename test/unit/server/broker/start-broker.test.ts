import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import mqtt from "mqtt";
import { isStemmaError } from "../../../../shared/errors.js";
import { nodeClock, silentLog } from "../../../../shared/adapters/node-ports.js";
import { decodeEnvelope, encodeEnvelope } from "../../../../shared/wire/codec.js";
import { clientIdOf, deviceSubscriptions } from "../../../../shared/wire/topics.js";
import type { ConnectAttempt, DeviceMessage } from "../../../../server/broker/broker-port.js";
import { startBroker } from "../../../../server/broker/start-broker.js";
import {
  brokerBench,
  closing,
  connectPacket,
  fleet,
  knowsSecret,
  nextMessage,
  root,
  topicOf,
  type BrokerBench,
} from "./broker-bench.js";

const benches: BrokerBench[] = [];
async function bench(...args: Parameters<typeof brokerBench>): Promise<BrokerBench> {
  const one = await brokerBench(...args);
  benches.push(one);
  return one;
}
after(async () => {
  for (const one of benches) await one.close();
});

function gather(one: BrokerBench, count: number): Promise<DeviceMessage[]> {
  const seen: DeviceMessage[] = [];
  return new Promise((resolve) => {
    one.broker.onMessage((message) => {
      seen.push(message);
      if (seen.length === count) resolve(seen);
      return Promise.resolve();
    });
  });
}

test("a device's messages arrive with its identity, in order, and the server's messages reach it", async () => {
  const one = await bench();
  const client = await one.client("v1");
  await client.subscribeAsync([...deviceSubscriptions(root, fleet, "v1")], { qos: 1 });
  const three = gather(one, 3);
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
    await one.broker.publish(topicOf("v1", "down/words"), Buffer.from("hello"), { qos: 1 }),
    "sent",
  );
  const [topic, payload] = await got;
  assert.equal(topic, topicOf("v1", "down/words"));
  assert.equal(payload.toString(), "hello");
  const block = nextMessage(client);
  assert.equal(
    await one.broker.publish(topicOf("v1", "block/down/0123456789abcdef"), Buffer.alloc(300_000, 7)),
    "sent",
  );
  assert.equal((await block)[1].length, 300_000);
  assert.equal(await one.broker.publish(topicOf("v2", "down/words"), Buffer.from("x")), "offline");
});

test("a client with a wrong token, no token, or another's client id gets CONNACK 5", async () => {
  const one = await bench();
  for (const options of [
    { password: "wrong" },
    { password: "" },
    { clientId: clientIdOf(fleet, "v2") },
    { username: "nobody" },
  ]) {
    await assert.rejects(
      one.client("v1", options),
      (error: Error & { code?: number }) => error.code === 5,
      JSON.stringify(options),
    );
  }
  assert.equal(one.events.filter(({ type }) => type === "refused").length, 4);
});

test("an authenticator that throws admits no client", async () => {
  const one = await bench(
    {},
    {
      authenticate: () => Promise.reject(new Error("catalog is gone")),
    },
  );
  await assert.rejects(one.client("v1"), (error: Error & { code?: number }) => error.code === 5);
});

test("the authenticator receives the will, and the will is published when the connection breaks", async () => {
  const attempts: ConnectAttempt[] = [];
  const one = await bench(
    {},
    {
      authenticate: async (attempt) => {
        attempts.push(attempt);
        return await knowsSecret(attempt);
      },
    },
  );
  const will = { topic: topicOf("v1", "state"), payload: Buffer.from("gone"), qos: 1 as const, retain: true };
  const client = await one.client("v1", { will });
  assert.equal(Buffer.from(attempts[0]?.will?.payload ?? []).toString(), "gone");
  assert.equal(attempts[0]?.will?.topic, will.topic);
  const last = gather(one, 1);
  client.stream.destroy();
  const [message] = await last;
  assert.equal(message?.topic.kind, "state");
  assert.equal(Buffer.from(message?.payload ?? []).toString(), "gone");
  assert.equal(one.broker.stats().retainedBytes, 4);
});

test("foreign topics are accepted, dropped and answered; nothing reaches the other device", async () => {
  const one = await bench();
  const victim = await one.client("v1");
  await victim.subscribeAsync([...deviceSubscriptions(root, fleet, "v1")], { qos: 1 });
  const seenByVictim: string[] = [];
  victim.on("message", (topic) => {
    seenByVictim.push(topic);
  });
  const attacker = await one.client("v2");
  await attacker.subscribeAsync([...deviceSubscriptions(root, fleet, "v2")], { qos: 1 });
  const answered = nextMessage(attacker);
  const handled: string[] = [];
  one.broker.onMessage(({ identity }) => {
    handled.push(identity.device);
    return Promise.resolve();
  });
  for (const topic of [
    topicOf("v1", "down/words"),
    topicOf("v1", "up/words"),
    topicOf("v1", "state"),
    topicOf("v2", "down/words"),
    "other/topic",
    `${root}/v1/${fleet}/v2/up/words/more`,
    "$SYS/x",
  ]) {
    await attacker.publishAsync(topic, "forged", { qos: 1, retain: true });
  }
  const [, payload] = await answered;
  const { body } = decodeEnvelope(payload);
  assert.equal(body.type === "refusal" && body.code, "TOPIC_FORBIDDEN");
  await attacker.publishAsync(topicOf("v2", "up/words"), "mine", { qos: 1 });
  assert.equal(
    one.events.filter((event) => event.type === "topic-refused" && event.what === "publish").length,
    7,
  );
  assert.equal(one.broker.stats().retainedBytes, 0);
  // A message after all the forged ones: if one of those had passed, it would have arrived first.
  const honest = nextMessage(victim);
  await one.broker.publish(topicOf("v1", "down/words"), Buffer.from("honest"), { qos: 1 });
  await honest;
  assert.deepEqual(seenByVictim, [topicOf("v1", "down/words")]);
  assert.deepEqual(handled, ["v2"]);
});

test("subscriptions outside one's own topics, and too many of them, are refused with SUBACK 128", async () => {
  const one = await bench({ maxSubscriptions: 3 });
  const client = await one.client("v1");
  const granted = async (topic: string): Promise<number | undefined> =>
    (await client.subscribeAsync(topic, { qos: 1 }).catch(() => [{ qos: 128 }]))[0]?.qos;
  for (const topic of [
    "#",
    "+/+/+/+/#",
    topicOf("v2", "down/words"),
    topicOf("+", "down/words"),
    topicOf("v1", "#"),
    topicOf("v1", "up/words"),
    "$SYS/#",
    "$stemma/handled",
  ])
    assert.equal(await granted(topic), 128, topic);
  for (const topic of [...deviceSubscriptions(root, fleet, "v1"), topicOf("v1", "state")])
    assert.equal(await granted(topic), 1, topic);
  assert.equal(await granted(topicOf("v1", "birth")), 128);
  assert.equal(await granted(topicOf("v1", "state")), 1, "one it has already stays");
});

test("only state and birth are retained, up to the device's quota", async () => {
  const one = await bench({ maxRetainedBytesPerDevice: 1000 });
  const client = await one.client("v1");
  await client.publishAsync(topicOf("v1", "up/words"), "x".repeat(100), { qos: 1, retain: true });
  await client.publishAsync(topicOf("v1", "birth"), "x".repeat(600), { qos: 1, retain: true });
  await client.publishAsync(topicOf("v1", "state"), "x".repeat(600), { qos: 1, retain: true });
  await client.publishAsync(topicOf("v1", "state"), "x".repeat(300), { qos: 1, retain: true });
  await client.subscribeAsync(topicOf("v1", "birth"));
  assert.equal(one.broker.stats().retainedBytes, 900);
  await client.publishAsync(topicOf("v1", "birth"), "", { qos: 1, retain: true });
  await client.publishAsync(topicOf("v1", "up/words"), "end", { qos: 1 });
  assert.equal(one.broker.stats().retainedBytes, 300);
});

test("a second connection of a device takes over the first", async () => {
  const one = await bench();
  const first = await one.client("v1");
  const closed = closing(first);
  const second = await one.client("v1");
  await closed;
  await second.subscribeAsync(topicOf("v1", "down/words"));
  assert.equal(await one.broker.publish(topicOf("v1", "down/words"), Buffer.from("x")), "sent");
  assert.equal(one.broker.stats().devices, 1);
});

test("disconnect ends a device's connection, and no offline queue is kept for it", async () => {
  const one = await bench();
  const client = await one.client("v1", { clean: false });
  await client.subscribeAsync(topicOf("v1", "down/words"), { qos: 1 });
  const closed = closing(client);
  await one.broker.disconnect({ fleet, device: "v1" });
  await closed;
  assert.equal(
    await one.broker.publish(topicOf("v1", "down/words"), Buffer.from("late"), { qos: 1 }),
    "offline",
  );
  const again = await one.client("v1", { clean: false });
  const messages: string[] = [];
  again.on("message", (_topic, payload) => {
    messages.push(payload.toString());
  });
  await again.subscribeAsync(topicOf("v1", "down/words"), { qos: 1 });
  const now = nextMessage(again);
  await one.broker.publish(topicOf("v1", "down/words"), Buffer.from("now"), { qos: 1 });
  await now;
  assert.deepEqual(messages, ["now"]);
});

test("messages of one device are handled one at a time; another device does not wait for it", async () => {
  const one = await bench();
  const [a, b] = [await one.client("v1"), await one.client("v2")];
  let running = 0;
  let most = 0;
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const order: string[] = [];
  let fourth: () => void = () => undefined;
  const all = new Promise<void>((resolve) => {
    fourth = resolve;
  });
  one.broker.onMessage(async ({ identity, payload }) => {
    if (identity.device === "v2") {
      release();
      return;
    }
    most = Math.max(most, ++running);
    if (order.length === 0) await held;
    order.push(Buffer.from(payload).toString());
    running--;
    if (order.length === 4) fourth();
  });
  for (const message of ["1", "2", "3", "4"]) a.publish(topicOf("v1", "up/words"), message, { qos: 1 });
  await b.publishAsync(topicOf("v2", "up/words"), "go", { qos: 1 });
  await all;
  assert.equal(most, 1);
  assert.deepEqual(order, ["1", "2", "3", "4"]);
});

test("a handler that throws does not affect the next message", async () => {
  const one = await bench();
  const client = await one.client("v1");
  let count = 0;
  const second = new Promise<void>((resolve) => {
    one.broker.onMessage(() => {
      if (++count === 2) {
        resolve();
        return Promise.resolve();
      }
      return Promise.reject(new Error("handler"));
    });
  });
  await client.publishAsync(topicOf("v1", "up/words"), "1", { qos: 1 });
  await client.publishAsync(topicOf("v1", "up/words"), "2", { qos: 1 });
  await second;
});

test("a port that is taken is reported", async () => {
  const one = await bench();
  await assert.rejects(
    startBroker({
      root,
      authenticate: knowsSecret,
      clock: nodeClock(),
      log: silentLog(),
      port: one.broker.port,
    }),
    (error) => isStemmaError(error, "PORT_TAKEN"),
  );
});

test("frames that are too long, unexpected or late close the connection with an event", async () => {
  const one = await bench({ maxFrameBytes: 10_000, connectDeadlineMs: 300 });
  const huge = await one.client("v1");
  const closed = closing(huge);
  huge.publish(topicOf("v1", "up/words"), Buffer.alloc(20_000), { qos: 0 });
  await closed;
  const event = await one.nextEvent("frame-refused");
  assert.deepEqual(event.type === "frame-refused" && event.identity, { fleet, device: "v1" });
  for (const bytes of [
    Buffer.of(0x10, 0xff, 0xff, 0xff, 0x7f),
    Buffer.of(0x30, 3, 0, 1, 65),
    Buffer.of(0x10, 0xff, 0xff, 0xff, 0xff, 1),
    Buffer.concat([connectPacket("v2"), connectPacket("v2")]),
    Buffer.of(0, 0),
  ]) {
    const socket = await one.raw();
    const end = closing(socket);
    socket.write(bytes);
    await end;
  }
  const silent = await one.raw();
  await closing(silent);
  assert.equal(one.events.filter(({ type }) => type === "frame-refused").length >= 6, true);
});

test("a known device that starts a frame and does not finish it is disconnected", async () => {
  const one = await bench({ frameDeadlineMs: 100 });
  const socket = await one.raw();
  const closed = closing(socket);
  socket.resume();
  socket.write(connectPacket("v1"));
  await one.nextEvent("connected");
  socket.write(Buffer.of(0x30, 100, 0, 5));
  await closed;
  const event = await one.nextEvent("frame-refused");
  assert.match(event.type === "frame-refused" ? event.reason : "", /did not end in time/);
});

test("a slow handler pauses the socket of the device that floods it, and no other", async () => {
  const one = await bench({ maxQueuedBytes: 64 * 1024 });
  const [flooding, other] = [await one.client("v1"), await one.client("v2")];
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let handled = 0;
  const count = 20_000;
  let all: () => void = () => undefined;
  const finished = new Promise<void>((resolve) => {
    all = resolve;
  });
  let most = 0;
  let heard: () => void = () => undefined;
  const otherHeard = new Promise<void>((resolve) => {
    heard = resolve;
  });
  one.broker.onMessage(async ({ identity }) => {
    if (identity.device === "v2") {
      heard();
      return;
    }
    await held;
    most = Math.max(most, one.broker.stats().queuedBytes);
    if (++handled === count) all();
  });
  // Empty messages, which would cost nothing if only payloads were counted.
  for (let at = 0; at < count; at++) flooding.publish(topicOf("v1", "up/words"), "", { qos: 0 });
  await new Promise<void>((resolve) => {
    flooding.publish(topicOf("v1", "up/words"), "", { qos: 0 }, () => {
      resolve();
    });
  });
  await other.publishAsync(topicOf("v2", "up/words"), "still heard", { qos: 1 });
  await otherHeard;
  release();
  await finished;
  // What one read of a socket adds beyond the bound: 64 KiB of the smallest frames.
  assert.ok(most < 4 * 2 ** 20, `${most} bytes waited`);
});

test("a flood of foreign topics is reported by its first events", async () => {
  const one = await bench();
  const client = await one.client("v1");
  for (let at = 0; at < 200; at++) client.publish("elsewhere", "x", { qos: 0 });
  await client.publishAsync(topicOf("v1", "up/words"), "end", { qos: 1 });
  await client.publishAsync("elsewhere", "x", { qos: 1 });
  assert.equal(one.events.filter(({ type }) => type === "topic-refused").length, 20);
});

test("quotas on connections: total, unauthenticated, and per address", async () => {
  for (const limits of [
    { maxConnections: 2 },
    { maxUnknownConnections: 2 },
    { maxConnectionsPerAddress: 2 },
  ]) {
    const one = await bench(limits);
    const kept = [await one.raw(), await one.raw()];
    const third = await one.raw();
    await closing(third);
    const event = await one.nextEvent("connection-refused");
    assert.equal(event.type, "connection-refused", JSON.stringify(limits));
    assert.equal(
      kept.every((socket) => !socket.destroyed),
      true,
    );
  }
});

test("mqtts: the same broker behind TLS", async (context) => {
  const folder = mkdtempSync(join(tmpdir(), "stemma-tls-"));
  try {
    try {
      execFileSync(
        "openssl",
        [
          "req",
          "-x509",
          "-newkey",
          "ec",
          "-pkeyopt",
          "ec_paramgen_curve:prime256v1",
          "-nodes",
          "-keyout",
          join(folder, "key.pem"),
          "-out",
          join(folder, "cert.pem"),
          "-days",
          "2",
          "-subj",
          "/CN=localhost",
          "-addext",
          "subjectAltName=IP:127.0.0.1",
        ],
        { stdio: "ignore" },
      );
    } catch {
      context.skip("openssl is not here to make a certificate");
      return;
    }
    const [key, cert] = [
      readFileSync(join(folder, "key.pem"), "utf8"),
      readFileSync(join(folder, "cert.pem"), "utf8"),
    ];
    const one = await bench({}, { tls: { key, cert } });
    assert.match(one.broker.url, /^mqtts:/);
    const client = await one.client("v1", { ca: cert });
    const got = gather(one, 1);
    await client.publishAsync(topicOf("v1", "block/up/0123456789abcdef"), Buffer.alloc(300_000, 3), {
      qos: 0,
    });
    assert.equal((await got)[0]?.payload.length, 300_000);
    await assert.rejects(
      new Promise((resolve, reject) => {
        const wary = mqtt.connect(one.broker.url, { reconnectPeriod: 0 });
        wary.once("connect", resolve);
        wary.once("error", (error) => {
          wary.end(true);
          reject(error);
        });
      }),
    );
    const oversize = await one.client("v2", { ca: cert });
    const closed = closing(oversize);
    oversize.publish(topicOf("v2", "up/words"), Buffer.alloc(900_000), { qos: 0 });
    await closed;
    assert.equal(
      one.events.some(({ type }) => type === "frame-refused"),
      true,
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("an envelope travels through the broker as it is", async () => {
  const one = await bench();
  const client = await one.client("v1");
  const got = gather(one, 1);
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
