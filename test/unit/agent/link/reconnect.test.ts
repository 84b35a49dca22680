/** When a link tries again to reach a server that does not answer or does not admit it, and what it logs of that. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { it } from "node:test";
import { Link } from "../../../../agent/link/link.js";
import { SessionCounter } from "../../../../agent/link/session-counter.js";
import { nodeRandom, silentLog } from "../../../../shared/adapters/node-ports.js";
import type { Clock, Log } from "../../../../shared/ports.js";
import type { Enrolment } from "../../../../shared/trust/enrolment.js";
import { generateKey } from "../../../../shared/trust/keys.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";

interface Attempt {
  readonly event: string;
  readonly attempt: number;
  /** Milliseconds until the next one. */
  readonly retryMs: number;
  readonly text: string;
}

/** What a link logs that tries so often to begin a session at this port. */
async function attemptsAt(
  port: number,
  attempts: number,
  renewIfDue: (wasRefused: boolean) => Promise<boolean> = () => Promise.resolve(false),
): Promise<readonly Attempt[]> {
  const files = memoryFiles();
  await files.makeFolder("/home");
  const enrolment = {
    fleet: "f",
    device: "d",
    root: "stemma",
    token: "t",
    mqtt: [`mqtt://127.0.0.1:${port}`],
  };
  const logged: Attempt[] = [];
  await new Promise<void>((resolve) => {
    let waits = 0;
    // Every wait is over at once; the one after the last attempt never ends.
    const clock = {
      after: (_delayMs: number, callback: () => void) => {
        if (waits++ === attempts) resolve();
        else setImmediate(callback);
        return () => undefined;
      },
    } as Clock;
    const log: Log = {
      ...silentLog(),
      warn: (event, fields) => {
        const { attempt, retryMs, text } = fields as unknown as Attempt;
        logged.push({ event, attempt, retryMs, text });
      },
    };
    void SessionCounter.open(files, "/home").then((counter) => {
      const handlers = { onOpen() {}, onClosed() {}, onMessage() {}, onBlock() {} };
      const identity = {
        judges: () => false,
        dial: () => assert.fail("the link has no certificate"),
        renewIfDue,
      };
      const deviceKey = generateKey(nodeRandom());
      const options = {
        identity,
        deviceKey,
        counter,
        clock,
        log,
        random: nodeRandom(),
        mqtt: { reconnectPeriod: 0, keepalive: 1 },
      };
      new Link({ ...options, enrolment: enrolment as Enrolment & typeof enrolment }, handlers).start();
    });
  });
  return logged;
}

it("reports attempts to reconnect at growing distances", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  await new Promise((resolve) => taken.close(resolve));
  const logged = await attemptsAt(port, 9);
  assert.deepEqual(
    logged.map(({ event, attempt }) => [event, attempt]),
    [1, 2, 4, 8].map((attempt) => ["disconnected", attempt]),
  );
  // The first one says what becomes of the device's work and what a person can do.
  assert.deepEqual(
    logged.map(({ text }) => /is kept.*tries again by itself.*device enroll d --readdress/.test(text)),
    [true, false, false, false],
  );
});

/** [CONNACK code, event, whether the device comes back within a second] */
const answers = [
  [3, "disconnected", true],
  [5, "not-admitted", false],
] as const;
for (const [code, event, isSoon] of answers)
  it(`comes back ${isSoon ? "soon" : "late"} after CONNACK ${code}`, async (t) => {
    const server = createServer((socket) => {
      socket.once("data", () => socket.end(Uint8Array.of(0x20, 2, 0, code)));
      socket.on("error", () => undefined);
    }).listen(0, "127.0.0.1");
    t.after(() => server.close());
    await once(server, "listening");
    const [first] = await attemptsAt((server.address() as AddressInfo).port, 1);
    assert.deepEqual([first?.event, (first?.retryMs ?? 0) < 1000], [event, isSoon]);
  });

it("renews its certificate at once after a refusal without a reason, and once only", async (t) => {
  const server = createServer((socket) => {
    socket.once("data", () => socket.end(Uint8Array.of(0x20, 2, 0, 5)));
    socket.on("error", () => undefined);
  }).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const asked: boolean[] = [];
  const logged = await attemptsAt((server.address() as AddressInfo).port, 2, (wasRefused) => {
    asked.push(wasRefused);
    return Promise.resolve(wasRefused);
  });
  // Before the first attempt, after its refusal, and before the second attempt, which has the new certificate.
  assert.deepEqual(asked, [false, true, false]);
  assert.deepEqual(
    logged.map(({ event, retryMs }) => [event, retryMs < 1000]),
    [
      ["not-admitted", true],
      ["not-admitted", false],
    ],
  );
});

it("is ended by its keep-alive where the other end says nothing more", async (t) => {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    // It accepts the session and then swallows all, and never closes, as a link that died on the way.
    socket.once("data", () => socket.write(Uint8Array.of(0x20, 2, 0, 0)));
    socket.on("error", () => undefined);
  }).listen(0, "127.0.0.1");
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await once(server, "listening");
  const attempts = await attemptsAt((server.address() as AddressInfo).port, 1);
  assert.deepEqual(
    attempts.map(({ event }) => event),
    ["disconnected"],
  );
});

it("waits by the refusals alone after the server was not reached for long", async (t) => {
  let connections = 0;
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    if (++connections <= 12) socket.destroy();
    else socket.once("data", () => socket.end(Uint8Array.of(0x20, 2, 0, 5)));
  }).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const attempts = await attemptsAt((server.address() as AddressInfo).port, 13);
  const refused = attempts.find(({ event }) => event === "not-admitted");
  assert.equal(refused?.attempt, 1);
  assert.ok(refused.retryMs <= 60_000, `${refused.retryMs} ms`);
});

it("names what to check where a server closes the connection without an answer", async (t) => {
  const server = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const [first] = await attemptsAt((server.address() as AddressInfo).port, 1);
  assert.match(
    first?.text ?? "",
    /the other side closed the connection \(ECONNRESET\).*with TLS for https:\/\/ and mqtts:/,
  );
});
