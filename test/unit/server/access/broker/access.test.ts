/** What devices may do at the broker: connect, publish, subscribe and retain, each only as themselves. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeEnvelope } from "../../../../../shared/wire/codec.js";
import { clientIdOf, deviceSubscriptions } from "../../../../../shared/wire/topics.js";
import type { ConnectAttempt } from "../../../../../server/access/broker/broker-port.js";
import {
  fleet,
  knowsSecret,
  nextMessage,
  nextMessages,
  root,
  testBrokers,
  topicOf,
} from "../../../../helpers/test-broker.js";

const start = testBrokers();

test("a client with a wrong token, no token, or another's client id gets CONNACK 5", async () => {
  const started = await start();
  for (const options of [
    { password: "wrong" },
    { password: "" },
    { clientId: clientIdOf(fleet, "v2") },
    { username: "nobody" },
  ]) {
    await assert.rejects(
      started.client("v1", options),
      (error: Error & { code?: number }) => error.code === 5,
      JSON.stringify(options),
    );
  }
  assert.equal(started.events.filter(({ type }) => type === "refused").length, 4);
});

test("the authenticator receives the will, and the will is published when the connection breaks", async () => {
  const attempts: ConnectAttempt[] = [];
  const started = await start(
    {},
    {
      authenticate: async (attempt) => {
        attempts.push(attempt);
        return await knowsSecret(attempt);
      },
    },
  );
  const will = { topic: topicOf("v1", "state"), payload: Buffer.from("gone"), qos: 1 as const, retain: true };
  const client = await started.client("v1", { will });
  assert.equal(Buffer.from(attempts[0]?.will?.payload ?? []).toString(), "gone");
  assert.equal(attempts[0]?.will?.topic, will.topic);
  const last = nextMessages(started, 1);
  client.stream.destroy();
  const [message] = await last;
  assert.equal(message?.topic.kind, "state");
  assert.equal(Buffer.from(message?.payload ?? []).toString(), "gone");
  assert.equal(started.broker.stats().retainedBytes, 4);
});

test("foreign topics are accepted, dropped and answered; nothing reaches the other device", async () => {
  const started = await start();
  const victim = await started.client("v1");
  await victim.subscribeAsync([...deviceSubscriptions(root, fleet, "v1")], { qos: 1 });
  const seenByVictim: string[] = [];
  victim.on("message", (topic) => {
    seenByVictim.push(topic);
  });
  const attacker = await started.client("v2");
  await attacker.subscribeAsync([...deviceSubscriptions(root, fleet, "v2")], { qos: 1 });
  const answered = nextMessage(attacker);
  const handled: string[] = [];
  started.broker.onMessage(({ identity }) => {
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
    started.events.filter((event) => event.type === "topic-refused" && event.what === "publish").length,
    7,
  );
  assert.equal(started.broker.stats().retainedBytes, 0);
  // A message after all the forged ones: if one of those had passed, it would have arrived first.
  const honest = nextMessage(victim);
  await started.broker.publish(topicOf("v1", "down/words"), Buffer.from("honest"), { qos: 1 });
  await honest;
  assert.deepEqual(seenByVictim, [topicOf("v1", "down/words")]);
  assert.deepEqual(handled, ["v2"]);
});

test("subscriptions outside one's own topics, and too many of them, are refused with SUBACK 128", async () => {
  const started = await start({ maxSubscriptions: 3 });
  const client = await started.client("v1");
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
  const started = await start({ maxRetainedBytesPerDevice: 1000 });
  const client = await started.client("v1");
  await client.publishAsync(topicOf("v1", "up/words"), "x".repeat(100), { qos: 1, retain: true });
  await client.publishAsync(topicOf("v1", "birth"), "x".repeat(600), { qos: 1, retain: true });
  await client.publishAsync(topicOf("v1", "state"), "x".repeat(600), { qos: 1, retain: true });
  await client.publishAsync(topicOf("v1", "state"), "x".repeat(300), { qos: 1, retain: true });
  await client.subscribeAsync(topicOf("v1", "birth"));
  assert.equal(started.broker.stats().retainedBytes, 900);
  await client.publishAsync(topicOf("v1", "birth"), "", { qos: 1, retain: true });
  await client.publishAsync(topicOf("v1", "up/words"), "end", { qos: 1 });
  assert.equal(started.broker.stats().retainedBytes, 300);
});

test("a flood of foreign topics is reported by its first events", async () => {
  const started = await start();
  const client = await started.client("v1");
  for (let at = 0; at < 200; at++) client.publish("elsewhere", "x", { qos: 0 });
  await client.publishAsync(topicOf("v1", "up/words"), "end", { qos: 1 });
  await client.publishAsync("elsewhere", "x", { qos: 1 });
  assert.equal(started.events.filter(({ type }) => type === "topic-refused").length, 20);
});
