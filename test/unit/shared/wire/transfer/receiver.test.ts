/**
 * The receiver of a transfer as a pure state machine: what it requests, when it times out, and what it
 * refuses.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isStemmaError } from "../../../../../shared/errors.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { ManifestPart } from "../../../../../shared/wire/messages.js";
import { Bitmap } from "../../../../../shared/wire/transfer/bitmap.js";
import {
  TransferReceiver,
  type ReceiverEffect,
  type ReceiverOptions,
} from "../../../../../shared/wire/transfer/receiver.js";

const transfer = "0123456789abcdef";
const blockBytes = 4096;
const blocks = Array.from({ length: 20 }, (_, index) =>
  new Uint8Array(index === 19 ? 100 : blockBytes).fill(index),
);
const byteLength = 19 * blockBytes + 100;
const options: ReceiverOptions = {
  transfer,
  objects: 2,
  rawBytes: byteLength,
  maxBytes: 10 * byteLength,
  maxBlockBytes: blockBytes,
  window: 4,
  timeoutMs: 1000,
  maxTimeoutMs: 8000,
  maxStalls: 4,
};
const part = (index: number): ManifestPart => ({
  type: "manifest",
  transfer,
  part: index,
  parts: 2,
  byteLength,
  blockBytes,
  blockHashes: blocks.slice(index * 16, index * 16 + 16).map((block) => sha256(block)),
  encodings: [],
});
const blockOf = (index: number): { type: "block"; index: number; data: Uint8Array } => ({
  type: "block",
  index,
  data: blocks[index] as Uint8Array,
});
const requests = (
  effects: readonly ReceiverEffect[],
): readonly (readonly [blocks: readonly number[], parts: readonly number[]])[] =>
  effects.flatMap((effect) =>
    effect.type === "request" ? [[effect.message.blocks, effect.message.manifestParts] as const] : [],
  );
const ask = (
  receiver: TransferReceiver,
  now: number,
): readonly (readonly [readonly number[], readonly number[]])[] =>
  requests(receiver.ask(receiver.slotsWanted, now));
const failure = (effects: readonly ReceiverEffect[]): string | undefined =>
  effects.flatMap((effect) => (effect.type === "fail" ? [effect.error.code] : []))[0];

test("requests the manifest, then a window of blocks and the next part, then more as blocks are written", () => {
  const receiver = new TransferReceiver(options);
  assert.deepEqual(ask(receiver, 0), [[[], [0]]]);
  assert.deepEqual(receiver.onManifest(part(0), 1), []);
  assert.deepEqual(ask(receiver, 1), [[[0, 1, 2, 3], [1]]]);
  assert.deepEqual(ask(receiver, 1), []);
  const [write] = receiver.onBlock(blockOf(1), 2);
  assert.deepEqual(write, { type: "write", index: 1, offset: blockBytes, bytes: blocks[1] });
  assert.deepEqual(receiver.onBlock(blockOf(1), 2), [], "a duplicate");
  assert.deepEqual(ask(receiver, 2), [], "not before it is written");
  receiver.written(1);
  assert.deepEqual(ask(receiver, 3), [[[4], []]]);
});

test("freeSlots bounds the requested blocks", () => {
  const receiver = new TransferReceiver(options);
  receiver.ask(0, 0);
  receiver.onManifest(part(0), 0);
  assert.deepEqual(requests(receiver.ask(2, 0)), [[[0, 1], [1]]]);
  assert.equal(receiver.slotsHeld, 2);
});

test("timeouts double, halve the window, and end with TRANSFER_STALLED; any block resets them", () => {
  const receiver = new TransferReceiver(options);
  ask(receiver, 0);
  receiver.onManifest(part(0), 0);
  receiver.onManifest(part(1), 0);
  ask(receiver, 0);
  assert.equal(receiver.wakeAtMs, 1000);
  assert.deepEqual(receiver.tick(999), []);
  receiver.tick(1000);
  assert.deepEqual(ask(receiver, 1000), [[[0, 1], []]]);
  assert.equal(receiver.wakeAtMs, 1000 + 2000);
  receiver.tick(3000);
  assert.deepEqual(ask(receiver, 3000), [[[0], []]]);
  assert.equal(receiver.wakeAtMs, 3000 + 4000);
  receiver.onBlock(blockOf(0), 3500);
  receiver.written(0);
  ask(receiver, 3500);
  assert.equal(
    receiver.wakeAtMs,
    3500 + 8000,
    "the first block took long, so the next may: at most the longest timeout",
  );
  for (let now = 11500, stall = 0; stall < 4; stall++) {
    const effects = receiver.tick(now);
    assert.equal(failure(effects), stall === 3 ? "TRANSFER_STALLED" : undefined);
    ask(receiver, now);
    now = receiver.wakeAtMs ?? now;
  }
  assert.equal(receiver.isEnded, true);
  assert.equal(receiver.wakeAtMs, undefined);
});

test("on a slow link timeouts adapt: blocks are requested again once, not each time", () => {
  const receiver = new TransferReceiver({ ...options, maxTimeoutMs: 100_000 });
  ask(receiver, 0);
  receiver.onManifest(part(0), 0);
  receiver.onManifest(part(1), 0);
  let asked = ask(receiver, 0).flatMap(([blocks]) => blocks).length;
  let timeouts = 0;
  // A block takes 1.4 s; the first timeout is 1 s.
  for (let index = 0; index < 20; index++) {
    const arrivalMs = (index + 1) * 1400;
    while ((receiver.wakeAtMs ?? Infinity) <= arrivalMs) {
      const now = receiver.wakeAtMs ?? 0;
      receiver.tick(now);
      timeouts++;
      asked += ask(receiver, now).flatMap(([blocks]) => blocks).length;
    }
    receiver.onBlock(blockOf(index), arrivalMs);
    receiver.written(index);
    asked += ask(receiver, arrivalMs).flatMap(([blocks]) => blocks).length;
  }
  assert.equal(receiver.isEnded, true);
  assert.equal(timeouts, 1);
  assert.ok(asked <= 24, `${asked} blocks were requested where 20 are due`);
});

test("the same manifest part repeated does not count as progress", () => {
  const receiver = new TransferReceiver(options);
  ask(receiver, 0);
  receiver.onManifest(part(0), 0);
  let now = 0;
  for (let tick = 0; !receiver.isEnded && tick < 100; tick++) {
    ask(receiver, now);
    receiver.onManifest(part(0), now + 1);
    now = receiver.wakeAtMs ?? now;
    receiver.tick(now);
  }
  assert.equal(receiver.isEnded, true);
});

test("a block overtaken by three later ones is requested again immediately", () => {
  const receiver = new TransferReceiver({ ...options, window: 8 });
  ask(receiver, 0);
  receiver.onManifest(part(0), 0);
  receiver.onManifest(part(1), 0);
  ask(receiver, 0);
  for (const index of [1, 2, 3]) {
    receiver.onBlock(blockOf(index), 1);
    receiver.written(index);
  }
  assert.deepEqual(ask(receiver, 1), [[[0, 8, 9, 10], []]]);
});

test("a restart continues from the written blocks, with the current limits", () => {
  const first = new TransferReceiver(options);
  assert.equal(first.state(), undefined);
  ask(first, 0);
  first.onManifest(part(0), 0);
  ask(first, 0);
  for (const index of [0, 2]) {
    first.onBlock(blockOf(index), 1);
  }
  first.written(2);
  const state = JSON.parse(JSON.stringify(first.state())) as NonNullable<
    ReturnType<TransferReceiver["state"]>
  >;
  const second = new TransferReceiver(options, state);
  assert.equal(second.progress.writtenBlocks, 1);
  assert.deepEqual(ask(second, 0), [[[], [0, 1]]]);
  second.onManifest(part(0), 1);
  second.onManifest(part(1), 1);
  const written: number[] = [];
  let done = false;
  for (let now = 2; !done && now < 100; now++) {
    const wanted = ask(second, now).flatMap(([indices]) => indices);
    for (const index of wanted) {
      second.onBlock(blockOf(index), now);
      written.push(index);
      done ||= second.written(index).some(({ type }) => type === "done");
    }
  }
  assert.equal(done, true);
  assert.deepEqual(
    written.sort((a, b) => a - b),
    blocks.map((_, index) => index).filter((index) => index !== 2),
  );
  assert.throws(
    () => new TransferReceiver({ ...options, maxBytes: 10 }, state),
    (error) => isStemmaError(error, "SIZE_OVER_LIMIT"),
  );
  assert.throws(
    () => new TransferReceiver({ ...options, transfer: "ffffffffffffffff" }, state),
    (error) => isStemmaError(error, "TRANSFER_MANIFEST_INVALID"),
  );
  assert.throws(
    () => new TransferReceiver(options, { ...state, blocks: "AAAAAAAA" }),
    (error) => isStemmaError(error, "TRANSFER_MANIFEST_INVALID"),
  );
});

test("manifests that contradict the want, the limits or themselves are refused with a typed error", () => {
  const begin = (change: Partial<ManifestPart>, more: Partial<ReceiverOptions> = {}): string | undefined =>
    failure(new TransferReceiver({ ...options, ...more }).onManifest({ ...part(0), ...change }, 0));
  assert.equal(begin({ byteLength: 11 * byteLength }), "SIZE_OVER_LIMIT");
  assert.equal(begin({ byteLength: byteLength + 1 }), "TRANSFER_MANIFEST_INVALID");
  assert.equal(begin({ blockBytes: 1 }), "TRANSFER_MANIFEST_INVALID");
  assert.equal(begin({ blockBytes: 2 * blockBytes }), "TRANSFER_MANIFEST_INVALID");
  assert.equal(begin({ parts: 1 }), "TRANSFER_MANIFEST_INVALID");
  assert.equal(begin({ part: 2 }), "TRANSFER_MANIFEST_INVALID");
  assert.equal(begin({ blockHashes: [] }), "TRANSFER_MANIFEST_INVALID");
  assert.equal(begin({ encodings: [{ code: 1, byteLength }] }), "TRANSFER_MANIFEST_INVALID");
  assert.equal(begin({ transfer: "ffffffffffffffff" }), undefined, "not of this transfer");
  const receiver = new TransferReceiver(options);
  receiver.onManifest(part(0), 0);
  assert.equal(
    failure(receiver.onManifest({ ...part(1), byteLength: byteLength - 1 }, 0)),
    "TRANSFER_MANIFEST_INVALID",
  );
});

test("a block of a wrong size ends the transfer; one with a wrong hash is requested again three times", () => {
  const ready = (): TransferReceiver => {
    const receiver = new TransferReceiver(options);
    ask(receiver, 0);
    receiver.onManifest(part(0), 0);
    ask(receiver, 0);
    return receiver;
  };
  assert.equal(
    failure(ready().onBlock({ type: "block", index: 0, data: new Uint8Array(blockBytes - 1) }, 0)),
    "BLOCK_SIZE_MISMATCH",
  );
  const receiver = ready();
  const wrong = { type: "block", index: 0, data: new Uint8Array(blockBytes).fill(99) } as const;
  assert.equal(failure(receiver.onBlock(wrong, 0)), undefined);
  assert.deepEqual(ask(receiver, 0), [[[0], []]]);
  assert.equal(failure(receiver.onBlock(wrong, 0)), undefined);
  assert.equal(failure(receiver.onBlock(wrong, 0)), "BLOCK_HASH_MISMATCH");
  assert.deepEqual(receiver.onBlock(blockOf(0), 0), [], "nothing after the end");
});

test("blocks before their manifest, beyond the stream or beyond the window are ignored", () => {
  const receiver = new TransferReceiver(options);
  assert.deepEqual(receiver.onBlock(blockOf(0), 0), []);
  receiver.onManifest(part(0), 0);
  assert.deepEqual(receiver.onBlock({ type: "block", index: 2 ** 32 - 1, data: new Uint8Array(1) }, 0), []);
  const writes = Array.from({ length: 10 }, (_, index) => receiver.onBlock(blockOf(index), 0)).flat();
  assert.equal(writes.length, 4, "unasked blocks are held up to the window");
});

test("a bitmap counts, finds gaps and refuses bytes of a wrong length", () => {
  const bitmap = new Bitmap(20);
  for (const index of [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 19, 19, 25, -1]) bitmap.add(index);
  assert.deepEqual(
    [bitmap.count, bitmap.firstMissing(), bitmap.firstMissing(10), bitmap.firstMissing(19), bitmap.isFull],
    [11, 9, 11, 20, false],
  );
  assert.deepEqual(Bitmap.fromBytes(20, bitmap.toBytes()).count, 11);
  for (const bytes of [new Uint8Array(2), new Uint8Array(4), Uint8Array.of(0, 0, 0x10)])
    assert.throws(
      () => Bitmap.fromBytes(20, bytes),
      (error) => isStemmaError(error, "TRANSFER_MANIFEST_INVALID"),
    );
});
