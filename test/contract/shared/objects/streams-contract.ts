/** The part of the object store contract about objects that stream: engines, recipes and data of any size. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { StreamedKind } from "../../../../shared/model/model.js";
import type { ObjectReader } from "../../../../shared/objects/object-store.js";
import { objectId } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import {
  hasCode,
  saveTensors,
  streamOf,
  streamedBytes,
  testTensor,
  type StartStore,
} from "../../../helpers/object-stores.js";

const MiB = 1024 * 1024;
const bytesOf = (seed: number, byteLength = 300): Uint8Array => testTensor(seed, byteLength).bytes;

export function streams(start: StartStore): void {
  readsStreams(start);
  refusesWrongStreams(start);
}

function readsStreams(start: StartStore): void {
  it("reads streams bit for bit, whole, in pieces and in ranges, also after reopening", async () => {
    const { store, reopen } = await start();
    const objects: readonly (readonly [StreamedKind, Uint8Array])[] = [
      ["engine", bytesOf(1, 9 * MiB + 3)],
      ["recipe", new Uint8Array(0)],
      ["data", bytesOf(2, 70_000)],
    ];
    const writer = await store.begin();
    const ids: Hash[] = [];
    for (const [kind, bytes] of objects) ids.push(await writer.putStream(kind, streamOf(bytes, 65_537)));
    await writer.commit();
    for (const opened of [store, await reopen?.()]) {
      if (opened === undefined) continue;
      for (const [i, [kind, bytes]] of objects.entries()) {
        const id = ids[i] as Hash;
        assert.equal(id, objectId(kind, bytes));
        assert.equal(opened.stat(id)?.byteLength, bytes.length);
        assert.deepEqual(Buffer.from(await streamedBytes(opened, kind, id)), Buffer.from(bytes));
        assert.deepEqual(Buffer.from(await opened.read(kind, id)), Buffer.from(bytes));
        const stream = opened.openStream(kind, id);
        assert.equal(stream.byteLength, bytes.length);
        for (const [from, length] of [
          [0, Math.min(bytes.length, 10)],
          [bytes.length, 0],
          [Math.max(0, bytes.length - 7), Math.min(bytes.length, 7)],
          [bytes.length >> 1, bytes.length >> 2],
        ] as const)
          assert.deepEqual(
            Buffer.from(await stream.range(from, length)),
            Buffer.from(bytes.subarray(from, from + length)),
          );
        await assert.rejects(() => stream.range(bytes.length, 1), hasCode("SIZE_OVER_LIMIT"));
        await assert.rejects(() => stream.range(-1, 1), hasCode("SIZE_OVER_LIMIT"));
      }
      await opened.close();
    }
  });

  it("stores a stream once, and does not read the source of one that it has", async () => {
    const { store } = await start();
    const first = await store.begin();
    const id = await first.putStream("data", streamOf(bytesOf(1)));
    assert.equal(await first.putStream("data", streamOf(bytesOf(1))), id);
    await first.commit();
    const second = await store.begin();
    const unread = {
      chunks: () => {
        throw new Error("must not be read");
      },
    };
    assert.equal(await second.putStream("data", unread, id), id);
    assert.deepEqual(await second.commit(), { pack: null, bytes: 0 });
    assert.equal([...store.list()].length, 1);
    await store.close();
  });

  it("keeps a live stream when its pack is rewritten, and lets readers of the old copy finish", async () => {
    const { store, reopen } = await start();
    const writer = await store.begin();
    const bytes = bytesOf(3, 9 * MiB);
    const kept = await writer.putStream("data", streamOf(bytes));
    const gone = await writer.putStream("engine", streamOf(bytesOf(4)));
    await writer.commit();
    const stream = store.openStream("data", kept);
    await stream.range(0, 1);
    const reading = stream.chunks()[Symbol.asyncIterator]();
    const pieces = [(await reading.next()).value as Uint8Array];
    await store.collect(await store.planCollection(new Set([kept])), () => new Set([kept]));
    for (let piece = await reading.next(); piece.done !== true; piece = await reading.next())
      pieces.push(piece.value);
    assert.deepEqual(Buffer.concat(pieces), Buffer.from(bytes));
    assert.deepEqual(Buffer.from(await stream.range(5, 100)), Buffer.from(bytes.subarray(5, 105)));
    assert.ok(!store.has(gone));
    await store.close();
    const reopened: (ObjectReader & { close(): Promise<void> }) | undefined = await reopen?.();
    if (reopened === undefined) return;
    assert.deepEqual(Buffer.from(await streamedBytes(reopened, "data", kept)), Buffer.from(bytes));
    await reopened.close();
  });
}

function refusesWrongStreams(start: StartStore): void {
  it("refuses a stream with another id than expected, and continues the save", async () => {
    const { store } = await start();
    const writer = await store.begin();
    const before = await writer.putStream("data", streamOf(bytesOf(1)));
    await assert.rejects(
      () => writer.putStream("data", streamOf(bytesOf(2, 3 * MiB)), objectId("data", bytesOf(3))),
      hasCode("OBJECT_HASH_MISMATCH"),
    );
    // The id depends on the kind.
    await assert.rejects(
      () => writer.putStream("recipe", streamOf(bytesOf(2)), objectId("data", bytesOf(2))),
      hasCode("OBJECT_HASH_MISMATCH"),
    );
    const after = await writer.putStream("data", streamOf(bytesOf(4)));
    await writer.commit();
    assert.deepEqual(await streamedBytes(store, "data", before), bytesOf(1));
    assert.deepEqual(await streamedBytes(store, "data", after), bytesOf(4));
    assert.equal([...store.list()].length, 2);
    await store.close();
  });

  it("stores nothing of a save whose source fails in the middle", async () => {
    const { store } = await start();
    const writer = await store.begin();
    await writer.put("names", bytesOf(1));
    const failure = new Error("of the source");
    const source = {
      async *chunks() {
        yield await Promise.resolve(bytesOf(2, 100_000));
        throw failure;
      },
    };
    await assert.rejects(
      () => writer.putStream("data", source),
      (error) => error === failure,
    );
    await assert.rejects(() => writer.commit(), hasCode("STORE_FAILED"));
    assert.deepEqual([...store.list()], []);
    await store.close();
  });

  it("reports a stream that is missing or of another kind", async () => {
    const { store } = await start();
    const writer = await store.begin();
    const data = await writer.putStream("data", streamOf(bytesOf(1)));
    await writer.commit();
    const [tensor] = (await saveTensors(store, testTensor(2))) as [Hash];
    assert.throws(() => store.openStream("engine", data), hasCode("OBJECT_KIND_MISMATCH"));
    assert.throws(() => store.openStream("data", tensor), hasCode("OBJECT_KIND_MISMATCH"));
    assert.throws(() => store.openStream("data", objectId("data", bytesOf(2))), hasCode("OBJECT_MISSING"));
    await store.close();
  });
}
