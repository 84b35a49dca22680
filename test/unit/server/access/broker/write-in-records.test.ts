import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { Writable } from "node:stream";
import { test } from "node:test";
import { recordBytes, writeInRecords } from "../../../../../server/access/broker/write-in-records.js";

/** Takes what is written to it, piece by piece. */
function recordingStream(fails: (piece: number) => boolean = () => false): {
  readonly stream: Writable;
  readonly pieces: Buffer[];
} {
  const pieces: Buffer[] = [];
  const stream = new Writable({
    decodeStrings: false,
    write: (chunk: Buffer, _encoding, done) => {
      if (fails(pieces.length)) {
        done(new Error("the connection ended"));
        return;
      }
      pieces.push(chunk);
      setImmediate(done);
    },
  });
  writeInRecords(stream);
  return { stream, pieces };
}

const written = (stream: Writable, chunk: Uint8Array): Promise<Error | null | undefined> =>
  new Promise((resolve) => stream.write(chunk, resolve));

test("what is larger than a record is passed on one record at a time, in order", async () => {
  const { stream, pieces } = recordingStream();
  const bytes = randomBytes(5 * recordBytes + 7);
  await written(stream, bytes);
  assert.deepEqual(
    pieces.map(({ length }) => length),
    [...Array.from({ length: 5 }, () => recordBytes), 7],
  );
  assert.deepEqual(Buffer.concat(pieces), bytes);
});

test("what was corked together, bytes and text, fills records together", async () => {
  const { stream, pieces } = recordingStream();
  const [head, payload] = [randomBytes(5), randomBytes(2 * recordBytes)];
  stream.cork();
  stream.write(head);
  stream.write("größe", "utf8");
  const last = written(stream, payload);
  stream.uncork();
  await last;
  assert.deepEqual(
    pieces.map(({ length }) => length),
    [recordBytes, recordBytes, 12],
  );
  assert.deepEqual(Buffer.concat(pieces), Buffer.concat([head, Buffer.from("größe"), payload]));
});

test("a small message is one piece", async () => {
  const { stream, pieces } = recordingStream();
  stream.cork();
  stream.write(Buffer.from([0xc0]));
  const last = written(stream, Buffer.from([0]));
  stream.uncork();
  await last;
  assert.deepEqual(pieces, [Buffer.from([0xc0, 0])]);
});

test("the next record waits until the one before was taken, and an error ends them", async () => {
  const { stream, pieces } = recordingStream((piece) => piece === 2);
  stream.on("error", () => undefined);
  const error = await written(stream, randomBytes(10 * recordBytes));
  assert.match(String(error), /the connection ended/);
  assert.equal(pieces.length, 2);
});
