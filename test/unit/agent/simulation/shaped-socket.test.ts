// A shaped connection carries everything in order, as slowly as its link, and holds the sender back.
import assert from "node:assert/strict";
import { Duplex } from "node:stream";
import { describe, it } from "node:test";
import { ShapedSocket } from "../../../../agent/simulation/shaped-socket.js";
import { seededNumbers } from "../../../../shared/random/seeded-numbers.js";
import { nextEventLoopTurn } from "../../../helpers/agent-test-environment.js";
import { manualClock } from "../../../helpers/manual-clock.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";

/** What the other end of the connection gets and sends. */
class OtherEnd extends Duplex {
  readonly received: Buffer[] = [];
  override _read(): void {
    // The test pushes.
  }
  override _write(chunk: Buffer, _encoding: string, callback: () => void): void {
    this.received.push(chunk);
    callback();
  }
}

const slow = { downBytesPerSecond: 1000, upBytesPerSecond: 500, latencyMs: 100, loss: 0 };

function connection(shape = slow): {
  readonly clock: ReturnType<typeof manualClock>;
  readonly other: OtherEnd;
  readonly socket: ShapedSocket;
  readonly counted: { up: number; down: number };
} {
  const clock = manualClock();
  const other = new OtherEnd();
  const counted = { up: 0, down: 0 };
  const socket = new ShapedSocket(other, {
    shape,
    clock,
    draw: seededNumbers(1),
    onBytes: (up, down) => {
      counted.up += up;
      counted.down += down;
    },
  });
  return { clock, other, socket, counted };
}

async function advance(clock: ReturnType<typeof manualClock>, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 10) {
    clock.advance(10);
    await nextEventLoopTurn();
  }
}

describe("a shaped connection", () => {
  it("sends with its rate and latency, in order", async () => {
    const { clock, other, socket, counted } = connection();
    const written: number[] = [];
    for (let at = 0; at < 4; at++)
      socket.write(Buffer.alloc(250, at), () => {
        written.push(at);
      });
    await advance(clock, 400);
    // A quarter of the 2 s that 1000 bytes take has not passed; nothing has arrived that the link has not carried.
    assert.equal(other.received.length, 0);
    await advance(clock, 200);
    assert.deepEqual(written, [0]);
    assert.deepEqual(other.received, [Buffer.alloc(250, 0)]);
    await advance(clock, 1500);
    assert.ok(
      Buffer.concat(other.received).equals(Buffer.concat([0, 1, 2, 3].map((at) => Buffer.alloc(250, at)))),
    );
    assert.deepEqual(counted, { up: 1000, down: 0 });
  });

  it("receives with its rate, and does not read ahead of it", async () => {
    const { clock, other, socket } = connection();
    const arrived: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => arrived.push(chunk));
    const sent = [noiseBytes(500, 1), noiseBytes(500, 2)].map((bytes) => Buffer.from(bytes));
    for (const chunk of sent) other.push(chunk);
    await nextEventLoopTurn();
    assert.equal(other.readableFlowing, false);
    await advance(clock, 590);
    assert.equal(arrived.length, 0);
    await advance(clock, 20);
    assert.deepEqual(arrived, [sent[0]]);
    await advance(clock, 600);
    assert.deepEqual(arrived, sent);
  });

  it("waits where packets are lost, and loses none of the bytes", async () => {
    const { clock, other, socket } = connection({
      ...slow,
      upBytesPerSecond: 1e9,
      latencyMs: 0,
      loss: 0.999,
    });
    socket.write(Buffer.alloc(14_000, 7));
    await advance(clock, 150);
    assert.equal(other.received.length, 0);
    await advance(clock, 100);
    assert.ok(Buffer.concat(other.received).equals(Buffer.alloc(14_000, 7)));
  });

  it("delivers nothing after it was broken", async () => {
    const { clock, other, socket } = connection();
    socket.write(Buffer.alloc(100));
    socket.destroy();
    await advance(clock, 1000);
    assert.equal(other.received.length, 0);
    assert.ok(other.destroyed);
  });
});
