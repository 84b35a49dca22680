/** Measuring MQTT frames in a stream of bytes, however it is cut into pieces. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameMeter, type FrameViolation } from "../../../../../server/access/broker/frame-meter.js";
import { connectPacket, remainingLength } from "../../../../helpers/test-broker.js";

const limits = { maxFrameBytes: 1000, maxConnectBytes: 200 };
const publish = (length: number): Buffer =>
  Buffer.concat([Buffer.of(0x30), remainingLength(length), Buffer.alloc(length)]);

function feedInPieces(meter: FrameMeter, bytes: Uint8Array, piece: number): FrameViolation | undefined {
  for (let at = 0; at < bytes.length; at += piece) {
    const violation = meter.feed(bytes.subarray(at, at + piece), at);
    if (violation !== undefined) return violation;
  }
  return undefined;
}
function known(): FrameMeter {
  const meter = new FrameMeter(limits);
  assert.equal(meter.feed(connectPacket("v1"), 0), undefined);
  meter.accept();
  return meter;
}

test("frames are measured whatever pieces they arrive in", () => {
  const stream = Buffer.concat([
    publish(0),
    publish(1),
    publish(127),
    publish(128),
    Buffer.of(0xc0, 0),
    publish(1000),
    Buffer.of(0x40, 2, 0, 1),
  ]);
  for (const piece of [1, 2, 3, 7, 64, 5000]) {
    assert.equal(feedInPieces(known(), stream, piece), undefined, String(piece));
    assert.match(
      feedInPieces(known(), Buffer.concat([stream, publish(1001)]), piece)?.reason ?? "",
      /1001 bytes where 1000/,
    );
  }
});

test("a length is checked before its bytes arrive", () => {
  assert.equal(known().feed(Buffer.of(0x30, 0xff, 0xff, 0xff, 0x7f), 0)?.bytes, 268_435_455);
});

test("before CONNECT is accepted only few bytes may arrive, and CONNECT must be first", () => {
  const meter = new FrameMeter(limits);
  assert.match(new FrameMeter(limits).feed(publish(1), 0)?.reason ?? "", /before CONNECT/);
  assert.match(
    new FrameMeter(limits).feed(Buffer.of(0x10, 0xff, 0x7f), 0)?.reason ?? "",
    /16383 bytes where 200/,
  );
  assert.equal(meter.feed(connectPacket("v1"), 0), undefined);
  assert.match(
    meter.feed(Buffer.concat(Array.from({ length: 100 }, () => Buffer.of(0xc0, 0))), 0)?.reason ?? "",
    /too many bytes before/,
  );
  assert.match(known().feed(connectPacket("v1"), 0)?.reason ?? "", /second CONNECT/);
});

test("packets that no client may send, and packets too long for their kind, are rejected", () => {
  for (const type of [0x00, 0x20, 0x90, 0xb0, 0xd0, 0xf0])
    assert.match(known().feed(Buffer.of(type, 0), 0)?.reason ?? "", /no client sends/, type.toString(16));
  for (const [type, length] of [
    [0x40, 3],
    [0xc0, 1],
    [0x82, 5000],
  ] as const)
    assert.match(
      known().feed(Buffer.concat([Buffer.of(type), remainingLength(length)]), 0)?.reason ?? "",
      /allowed/,
    );
});

test("reports when an incomplete frame started", () => {
  const meter = known();
  assert.equal(meter.frameSinceMs, undefined);
  meter.feed(Buffer.of(0x30), 5);
  assert.equal(meter.frameSinceMs, 5);
  meter.feed(Buffer.of(2, 0), 9);
  assert.equal(meter.frameSinceMs, 5);
  meter.feed(Buffer.of(0), 10);
  assert.equal(meter.frameSinceMs, undefined);
});
