// A payload whose bytes are overwritten as soon as the broker says that nothing refers to them any more: what a client
// receives, however slowly it reads, is what was published.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { MqttClient } from "mqtt";
import { makeCertificate } from "../../../../helpers/test-certificate.js";
import { fleet, root, testBrokers, topicOf, type TestBroker } from "../../../../helpers/test-broker.js";
import { deviceSubscriptions } from "../../../../../shared/wire/topics.js";

const start = testBrokers();
const messages = 60;
const payloadBytes = 256 * 1024;
/** Turns of the event loop in which a slow client does not read, and the broker, in the same process, goes on. */
const turnsPaused = 200;
const topic = topicOf("v1", "block/down/0123456789abcdef");

async function subscribed(client: MqttClient): Promise<MqttClient> {
  await client.subscribeAsync([...deviceSubscriptions(root, fleet, "v1")], { qos: 1 });
  return client;
}

/** Publishes from one buffer, which is overwritten when it is unused. */
async function publishFromOne({ broker }: TestBroker): Promise<void> {
  const payload = new Uint8Array(payloadBytes);
  for (let at = 0; at < messages; at++) {
    payload.fill(at);
    await new Promise<void>((unused, reject) => {
      void broker.publish(topic, payload, { unused }).then((delivery) => {
        if (delivery !== "sent") reject(new Error(`message ${at} was ${delivery}`));
      });
    });
  }
}

/** What the client receives while its reading is stopped now and then. */
function receivedSlowly(client: MqttClient): Promise<readonly Buffer[]> {
  const received: Buffer[] = [];
  return new Promise((resolve) => {
    client.on("message", (_topic, payload) => {
      received.push(payload);
      if (received.length % 7 === 0) {
        client.stream.pause();
        let turns = turnsPaused;
        const turn = (): void => void (turns-- > 0 ? setImmediate(turn) : client.stream.resume());
        turn();
      }
      if (received.length === messages) resolve(received);
    });
  });
}

async function checkPayloads(started: TestBroker, client: MqttClient): Promise<void> {
  const receiving = receivedSlowly(await subscribed(client));
  await publishFromOne(started);
  for (const [at, payload] of (await receiving).entries()) {
    assert.equal(payload.length, payloadBytes);
    assert.ok(
      payload.every((byte) => byte === at),
      `message ${at} has bytes of another`,
    );
  }
}

test("payloads arrive as they were published, though their buffer is used again", async () => {
  const started = await start();
  await checkPayloads(started, await started.client("v1"));
});

test("so they do over TLS", async (context: TestContext) => {
  const tls = makeCertificate();
  if (tls === undefined) {
    context.skip("openssl is not here to make a certificate");
    return;
  }
  const started = await start({}, { tls });
  await checkPayloads(started, await started.client("v1", { ca: tls.cert }));
});

test("a payload that may be sent again, or is kept, is never called unused", async () => {
  const started = await start();
  await subscribed(await started.client("v1"));
  const unused = (): void => {
    assert.fail("it was called unused");
  };
  const payload = new Uint8Array(payloadBytes);
  assert.equal(
    await started.broker.publish(topicOf("v1", "down/words"), payload, { qos: 1, unused }),
    "sent",
  );
  assert.equal(await started.broker.publish(topic, payload, { retain: true, unused }), "sent");
  assert.equal(await started.broker.publish(topicOf("v2", "down/words"), payload, { unused }), "offline");
});
