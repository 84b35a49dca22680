/**
 * Mutated MQTT packets against a broker in a process of its own: it stays up, it serves honest devices, and its
 * memory stays bounded.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import type { Socket } from "node:net";
import { test } from "node:test";
import mqtt from "mqtt";
import { clientIdOf } from "../../../../../shared/wire/topics.js";
import { closing, connectPacket, fleet, remainingLength, topicOf } from "../../../../helpers/test-broker.js";
import { seededNumbers } from "../../../../../shared/random/seeded-numbers.js";
import { mutate } from "../../../shared/wire/mutate.js";
import { depth } from "../../../../helpers/test-depth.js";
import { testSeed } from "../../../../helpers/crash-states.js";
import { brokerProcess, type BrokerProcess } from "./broker-process.js";

const count = depth(600, 100_000);
const seed = testSeed();
const mib = 2 ** 20;

function packet(type: number, body: Uint8Array): Buffer {
  return Buffer.concat([Buffer.of(type), remainingLength(body.length), body]);
}
function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([Buffer.of(bytes.length >> 8, bytes.length & 255), bytes]);
}
function publish(topic: string, payload: Uint8Array, qos: 0 | 1 | 2): Buffer {
  return packet(
    0x30 | (qos << 1),
    Buffer.concat([text(topic), qos === 0 ? Buffer.alloc(0) : Buffer.of(0, 7), payload]),
  );
}

/** What an honest device sends after CONNECT. */
const honest = [
  packet(0x82, Buffer.concat([Buffer.of(0, 1), text(topicOf("v1", "down/words")), Buffer.of(1)])),
  packet(0xa2, Buffer.concat([Buffer.of(0, 2), text(topicOf("v1", "down/words"))])),
  publish(topicOf("v1", "up/words"), Buffer.from("word"), 1),
  publish(topicOf("v1", "state"), Buffer.from("state"), 0),
  publish(topicOf("v1", "block/up/0123456789abcdef"), Buffer.alloc(2000, 1), 0),
  publish(topicOf("v1", "up/words"), Buffer.from("twice"), 2),
  Buffer.of(0x62, 2, 0, 7),
  Buffer.of(0x40, 2, 0, 1),
  Buffer.of(0xc0, 0),
  Buffer.of(0xe0, 0),
];

async function expectHealthy(broker: BrokerProcess): Promise<void> {
  const before = await broker.report();
  assert.deepEqual(before.uncaught, [], `seed ${seed}`);
  const client = mqtt.connect(`mqtt://127.0.0.1:${broker.port}`, {
    clientId: clientIdOf(fleet, "v999"),
    username: "v999",
    password: "secret",
    reconnectPeriod: 0,
  });
  await new Promise<void>((resolve, reject) => {
    client.once("connect", () => {
      resolve();
    });
    client.once("error", reject);
  });
  await client.publishAsync(topicOf("v999", "up/words"), "still here", { qos: 1 });
  await client.endAsync();
  assert.ok((await broker.report()).handled > before.handled);
}

test(`${count} mutated packets: no uncaught error, bounded memory, and the broker keeps serving (seed ${seed})`, async () => {
  const broker = await brokerProcess();
  try {
    const random = seededNumbers(seed);
    // Valid traffic first, so that growth from warm-up is not counted.
    for (let at = 0; at < 50; at++)
      await attack(broker, Buffer.concat([connectPacket(`v${at % 7}`), ...honest]));
    const before = await broker.report();
    const lanes = 16;
    const plans = Array.from({ length: count }, (_, at) => {
      const other = honest[Math.floor(random() * honest.length)] as Buffer;
      const own = honest[at % honest.length] as Buffer;
      // A third of the packets attack the CONNECT itself; the others come from a known device.
      return at % 3 === 0
        ? mutate(connectPacket("v1"), other, random)
        : Buffer.concat([
            connectPacket(`v${at % 50}`),
            mutate(own, other, random),
            ...(at % 5 === 0 ? [mutate(other, own, random)] : []),
          ]);
    });
    await Promise.all(
      Array.from({ length: lanes }, async (_, lane) => {
        for (let at = lane; at < count; at += lanes) await attack(broker, plans[at] as Uint8Array);
      }),
    );
    const after = await broker.report();
    assert.ok(
      after.mostRss - before.rss < 150 * mib,
      `memory grew by ${(after.mostRss - before.rss) / mib} MiB, seed ${seed}`,
    );
    await expectHealthy(broker);
  } finally {
    await broker.close();
  }
});

async function attack(broker: BrokerProcess, bytes: Uint8Array): Promise<void> {
  const socket = await broker.socket();
  const closed = closing(socket);
  socket.resume();
  socket.end(bytes);
  await closed;
}

/** Writes zeros to a socket until the other side closes it or `limit` bytes are written. */
async function pour(socket: Socket, limit: number): Promise<void> {
  const piece = Buffer.alloc(64 * 1024);
  for (let written = 0; written < limit && !socket.destroyed; written += piece.length) {
    if (!socket.write(piece))
      await Promise.race([once(socket, "drain").catch(() => undefined), closing(socket)]);
  }
}

test("100 unauthenticated sockets that claim 250 MB each, and send as much as they can, add less than 50 MB", async () => {
  const broker = await brokerProcess();
  try {
    await expectHealthy(broker);
    const before = await broker.report();
    const claim = Buffer.concat([Buffer.of(0x10), remainingLength(250_000_000)]);
    const sockets = await Promise.all(Array.from({ length: 100 }, () => broker.socket()));
    await Promise.all(
      sockets.map(async (socket) => {
        const closed = closing(socket);
        socket.resume();
        socket.write(claim);
        await pour(socket, 8 * mib);
        await closed;
      }),
    );
    // Now clients that declare little and never finish.
    const patient = await Promise.all(Array.from({ length: 100 }, () => broker.socket()));
    for (const socket of patient)
      socket.write(Buffer.concat([Buffer.of(0x10), remainingLength(8000), Buffer.alloc(7000)]));
    const after = await broker.report();
    for (const socket of patient) socket.destroy();
    assert.ok(
      after.mostRss - before.rss < 50 * mib,
      `memory grew by ${(after.mostRss - before.rss) / mib} MiB`,
    );
    assert.equal(after.refusedFrames, 100);
    await expectHealthy(broker);
  } finally {
    await broker.close();
  }
});

test("50 known devices that claim a block of 250 MB each add less than 50 MB", async () => {
  const broker = await brokerProcess();
  try {
    await expectHealthy(broker);
    const before = await broker.report();
    await Promise.all(
      Array.from({ length: 50 }, async (_, at) => {
        const socket = await broker.socket();
        const closed = closing(socket);
        socket.write(connectPacket(`v${at}`));
        await once(socket, "data");
        socket.resume();
        socket.write(
          Buffer.concat([
            Buffer.of(0x30),
            remainingLength(250_000_000),
            text(topicOf(`v${at}`, "block/up/0123456789abcdef")),
          ]),
        );
        await pour(socket, 8 * mib);
        await closed;
      }),
    );
    const after = await broker.report();
    assert.ok(
      after.mostRss - before.rss < 50 * mib,
      `memory grew by ${(after.mostRss - before.rss) / mib} MiB`,
    );
    await expectHealthy(broker);
  } finally {
    await broker.close();
  }
});
