/** Connections that are closed before they cost memory: malformed, oversized or late frames, and too many sockets. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { connect as connectTls } from "node:tls";
import { closing, connectPacket, fleet, testBrokers, topicOf } from "../../../../helpers/test-broker.js";
import { manualClock, type ManualClock } from "../../../../helpers/manual-clock.js";
import { makeCertificate } from "../../../../helpers/test-certificate.js";

const start = testBrokers();

/** Advances the broker's clock, a tenth of a second at a time, until this is so. */
async function advanceUntil(clock: ManualClock, ended: Promise<void>): Promise<void> {
  let hasEnded = false;
  void ended.then(() => (hasEnded = true));
  while (!hasEnded) {
    clock.advance(100);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test("frames that are too long, unexpected or late close the connection with an event", async () => {
  const clock = manualClock();
  const started = await start({ maxFrameBytes: 10_000, connectDeadlineMs: 300 }, { clock });
  const huge = await started.client("v1");
  const closed = closing(huge);
  huge.publish(topicOf("v1", "up/words"), Buffer.alloc(20_000), { qos: 0 });
  await closed;
  const event = await started.nextEvent("frame-refused", "v1");
  assert.deepEqual(event.type === "frame-refused" && event.identity, { fleet, device: "v1" });
  for (const bytes of [
    Buffer.of(0x10, 0xff, 0xff, 0xff, 0x7f),
    Buffer.of(0x30, 3, 0, 1, 65),
    Buffer.of(0x10, 0xff, 0xff, 0xff, 0xff, 1),
    Buffer.concat([connectPacket("v2"), connectPacket("v2")]),
    Buffer.of(0, 0),
  ]) {
    const socket = await started.raw();
    const end = closing(socket);
    socket.write(bytes);
    await end;
  }
  const silent = await started.raw();
  await advanceUntil(clock, closing(silent));
  assert.equal(started.events.filter(({ type }) => type === "frame-refused").length >= 6, true);
});

test("a known device that starts a frame and does not finish it is disconnected", async () => {
  const clock = manualClock();
  const started = await start({ frameDeadlineMs: 100 }, { clock });
  const socket = await started.raw();
  const closed = closing(socket);
  socket.resume();
  socket.write(connectPacket("v1"));
  await started.nextEvent("connected", "v1");
  socket.write(Buffer.of(0x30, 100, 0, 5));
  await advanceUntil(clock, closed);
  const event = await started.nextEvent("frame-refused", "v1");
  assert.match(event.type === "frame-refused" ? event.reason : "", /did not end in time/);
});

test("a known device that sends nothing for longer than its keep-alive is disconnected", async () => {
  const started = await start();
  const socket = await started.raw();
  const closed = closing(socket);
  socket.resume();
  socket.write(connectPacket("v1", { keepalive: 1 }));
  await started.nextEvent("connected", "v1");
  await closed;
  await started.nextEvent("disconnected", "v1");
});

test("quotas on connections: total and per address", async () => {
  for (const limits of [{ maxConnections: 2 }, { maxConnectionsPerAddress: 2 }]) {
    const started = await start(limits);
    const kept = [await started.raw(), await started.raw()];
    const third = await started.raw();
    await closing(third);
    const event = await started.nextEvent("connection-refused");
    assert.equal(event.type, "connection-refused", JSON.stringify(limits));
    assert.equal(
      kept.every((socket) => !socket.destroyed),
      true,
    );
  }
});

for (const transport of ["plain", "TLS"])
  test(`silent sockets of one address keep no device out (${transport})`, async (context) => {
    const tls = transport === "TLS" ? makeCertificate() : undefined;
    if (transport === "TLS" && tls === undefined) {
      context.skip("openssl is not here to make a certificate");
      return;
    }
    const started = await start(
      {
        maxUnknownConnections: 12,
        maxUnknownConnectionsPerAddress: 8,
        reservedForKnownAddresses: 2,
        connectDeadlineMs: 60_000,
      },
      tls === undefined ? {} : { tls },
    );
    const evictions = 32;
    let closed = 0;
    const allEvicted = new Promise<void>((resolve) => {
      for (let count = 0; count < evictions + 8; count++) {
        const socket = connect({ port: started.broker.port, host: "127.0.0.1", localAddress: "127.0.0.2" });
        context.after(() => socket.destroy());
        socket.on("error", () => undefined);
        socket.resume().once("close", () => {
          if (++closed === evictions) resolve();
        });
      }
    });
    await allEvicted;
    for (const localAddress of ["127.0.0.3", "127.0.0.2"]) {
      const address = { port: started.broker.port, host: "127.0.0.1", localAddress };
      const socket =
        tls === undefined
          ? connect(address)
          : connectTls({ ...address, rejectUnauthorized: false } as object);
      context.after(() => socket.destroy());
      socket.write(connectPacket("v1"));
      const [answer] = (await once(socket, "data")) as [Buffer];
      assert.deepEqual([...answer], [0x20, 2, 0, 0], `CONNACK for ${localAddress}`);
    }
    const refused = started.events.flatMap((event) =>
      event.type === "connection-refused" ? [event.address] : [],
    );
    assert.deepEqual(refused, new Array<string>(evictions + 1).fill("127.0.0.2"));
  });
