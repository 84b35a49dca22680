/** The stream of a transfer's objects: ranges across objects, and each object verified. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isStemmaError } from "../../../../../shared/errors.js";
import { objectId, tensorId } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import type { ObjectRef } from "../../../../../shared/wire/messages.js";
import {
  objectsOfStream,
  StreamReader,
  streamObjectOfBytes,
  type StreamObject,
} from "../../../../../shared/wire/transfer/stream.js";

/** An object read in pieces of this length; counts how often a read starts. */
function inPieces(bytes: Uint8Array, piece: number, readsStarted = { times: 0 }): StreamObject {
  return {
    byteLength: bytes.length,
    async *chunks() {
      readsStarted.times++;
      for (let at = 0; at < bytes.length; at += piece) yield bytes.subarray(at, at + piece);
    },
  };
}
const bytes = Uint8Array.from({ length: 1000 }, (_, index) => index % 251);

test("an object that cannot be read at a position any more is read by its chunks", async () => {
  const readsStarted = { times: 0 };
  let isAddressable = true;
  const object: StreamObject = {
    ...inPieces(bytes, 64, readsStarted),
    readAt: (offset, target) => {
      if (isAddressable) target.set(bytes.subarray(offset, offset + target.length));
      return Promise.resolve(isAddressable);
    },
  };
  const reader = new StreamReader([object, streamObjectOfBytes(bytes)]);
  const target = new Uint8Array(100);
  for (let at = 0; at < 2 * bytes.length; at += target.length) {
    if (at === 300) isAddressable = false;
    if (at === 700) isAddressable = true;
    await reader.read(at, target);
    assert.deepEqual(target, bytes.subarray(at % 1000, (at % 1000) + 100));
  }
  assert.equal(readsStarted.times, 1);
});

test("nothing of an object is held that was read to its end", async () => {
  let open = 0;
  const object: StreamObject = {
    byteLength: bytes.length,
    async *chunks() {
      open++;
      try {
        yield bytes;
      } finally {
        open--;
      }
    },
  };
  const reader = new StreamReader([object, object]);
  const target = new Uint8Array(500);
  const opened: number[] = [];
  for (let at = 0; at < 2000; at += 500) {
    await reader.read(at, target);
    opened.push(open);
  }
  assert.deepEqual(opened, [1, 0, 1, 0]);
});

test("any range of any objects reads as their concatenated bytes", async () => {
  const pieces = [
    bytes.subarray(0, 300),
    bytes.subarray(300, 300),
    bytes.subarray(300, 301),
    bytes.subarray(301, 1000),
    bytes.subarray(0, 0),
  ];
  for (const make of [
    (one: Uint8Array) => inPieces(one, 7),
    (one: Uint8Array) => inPieces(one, 1000),
    streamObjectOfBytes,
    (one: Uint8Array) => (one.length > 300 ? inPieces(one, 64) : streamObjectOfBytes(one)),
  ]) {
    const reader = new StreamReader(pieces.map(make));
    for (const [offset, length] of [
      [0, 1000],
      [0, 10],
      [10, 400],
      [410, 590],
      [299, 3],
      [300, 1],
      [999, 1],
      [0, 0],
      [1000, 0],
      [5, 5],
      [500, 100],
      [200, 700],
    ] as const) {
      const target = new Uint8Array(length);
      await reader.read(offset, target);
      assert.deepEqual(target, bytes.slice(offset, offset + length), `${offset}+${length}`);
    }
    await assert.rejects(reader.read(999, new Uint8Array(2)), RangeError);
    await reader.close();
  }
});

test("consecutive ranges start reading an object once", async () => {
  const readsStarted = { times: 0 };
  const reader = new StreamReader([inPieces(bytes, 33, readsStarted)]);
  for (let at = 0; at < 1000; at += 100) await reader.read(at, new Uint8Array(100));
  assert.equal(readsStarted.times, 1);
});

test("concurrent reads run serially", async () => {
  const reader = new StreamReader([inPieces(bytes, 13)]);
  const targets = Array.from({ length: 10 }, () => new Uint8Array(100));
  await Promise.all(targets.map((target, index) => reader.read(index * 100, target)));
  assert.deepEqual(Buffer.concat(targets), Buffer.from(bytes));
});

test("an object that gives fewer or more bytes than it declares is an error", async () => {
  for (const byteLength of [900, 1100]) {
    const reader = new StreamReader([
      { byteLength, chunks: () => inPieces(bytes, 130).chunks() },
      streamObjectOfBytes(bytes),
    ]);
    await assert.rejects(reader.read(0, new Uint8Array(byteLength + 100)), (error) =>
      isStemmaError(error, "TENSOR_SIZE_MISMATCH"),
    );
  }
});

const header = { dtype: "U8", shape: [250] } as const;
const tensors = [bytes.subarray(0, 250), bytes.subarray(250, 500)];
const names = Buffer.from('["a"]');
const refs: ObjectRef[] = [
  { kind: "names", id: objectId("names", names), byteLength: names.length },
  ...tensors.map((tensor): ObjectRef => ({ kind: "tensor", id: tensorId(header, tensor), byteLength: 250 })),
  { kind: "metadata", id: objectId("metadata", new Uint8Array(0)), byteLength: 0 },
];
const stream = Buffer.concat([names, ...tensors]);
const read = async (offset: number, length: number): Promise<Uint8Array> =>
  stream.subarray(offset, Math.min(offset + length, offset + 97));

test("a stream is split into its objects, each verified", async () => {
  const seen: string[] = [];
  for await (const object of objectsOfStream(refs, () => header, read)) {
    if (object.kind === "tensor") {
      const parts: Uint8Array[] = [];
      for await (const chunk of object.source.chunks()) parts.push(chunk);
      assert.deepEqual(tensorId(object.source, new Uint8Array(Buffer.concat(parts))), object.ref.id);
    }
    seen.push(object.ref.kind);
  }
  assert.deepEqual(seen, ["names", "tensor", "tensor", "metadata"]);
});

test("a stream with a wrong object, in a wrong order, or truncated is refused with a typed error", async () => {
  const drain = async (own: readonly ObjectRef[], source: typeof read): Promise<void> => {
    for await (const object of objectsOfStream(own, () => header, source)) void object;
  };
  await assert.rejects(drain(refs.with(1, refs[2] as ObjectRef), read), (error) =>
    isStemmaError(error, "OBJECT_HASH_MISMATCH"),
  );
  await assert.rejects(
    drain(refs.with(0, { ...(refs[0] as ObjectRef), id: "ab".repeat(32) as Hash }), read),
    (error) => isStemmaError(error, "OBJECT_HASH_MISMATCH"),
  );
  await assert.rejects(
    drain(refs, async (offset, length) => stream.subarray(offset, Math.min(offset + length, 100))),
    (error) => isStemmaError(error, "BLOCK_SIZE_MISMATCH"),
  );
  await assert.rejects(
    drain([{ kind: "names", id: "ab".repeat(32) as Hash, byteLength: 2 ** 30 }], read),
    (error) => isStemmaError(error, "SIZE_OVER_LIMIT"),
  );
});
