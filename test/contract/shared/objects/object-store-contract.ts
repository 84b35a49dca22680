/** The contract of object stores. Each implementation calls `objectStoreContract` with a function that opens one. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { objectId } from "../../../../shared/tensor/hash.js";
import {
  sourceOfTensor,
  type Hash,
  type Tensor,
  type TensorSource,
} from "../../../../shared/tensor/tensor.js";
import { idOfTensor, readBack } from "../../../helpers/coded-tensors.js";
import { manualClock, type ManualClock } from "../../../helpers/manual-clock.js";
import {
  hasCode,
  saveTensors,
  testTensor,
  type StartStore,
  type StoreUnderTest,
} from "../../../helpers/object-stores.js";
import { collection } from "./collection-contract.js";
import { codedTensors } from "./coded-tensors-contract.js";
import { recoding } from "./recoding-contract.js";
import { streams } from "./streams-contract.js";
import { tensorPlanes } from "./tensor-planes-contract.js";

export type OpenStore = (options: {
  readonly clock: ManualClock;
  readonly graceMs?: number;
}) => Promise<Omit<StoreUnderTest, "clock">>;

/** A tensor whose bytes arrive in pieces of odd length. */
function inPieces(tensor: Tensor, pieceBytes: number): TensorSource {
  return {
    ...tensor,
    byteLength: tensor.bytes.length,
    async *chunks() {
      for (let at = 0; at < tensor.bytes.length; at += pieceBytes)
        yield Promise.resolve(tensor.bytes.slice(at, at + pieceBytes));
    },
  };
}

export function objectStoreContract(name: string, open: OpenStore): void {
  const start = async (options: { readonly graceMs?: number } = {}): Promise<StoreUnderTest> => {
    const clock = manualClock();
    return { ...(await open({ clock, ...options })), clock };
  };
  describe(`object store contract: ${name}`, () => {
    savesAndReads(start);
    leasesAndReferences(start);
    collection(start);
    codedTensors(start);
    recoding(start);
    tensorPlanes(start);
    streams(start);
  });
}

function savesAndReads(start: StartStore): void {
  it("reads what was saved, bit for bit, also after reopening", async () => {
    const { store, reopen } = await start();
    const tensors: Tensor[] = [
      testTensor(1),
      testTensor(2, 3_000_000),
      { dtype: "F32", shape: [], bytes: new Uint8Array([1, 0, 0x80, 0x7f]) },
      { dtype: "F32", shape: [0, 3], bytes: new Uint8Array(0) },
      { dtype: "I64", shape: [2], bytes: Uint8Array.from({ length: 16 }, (_, i) => 255 - i) },
      testTensor(3, 300_000),
    ];
    const pack = await store.begin();
    const ids: Hash[] = [];
    for (const tensor of tensors) ids.push(await pack.putTensor(inPieces(tensor, 70_001)));
    const names = await pack.put("names", new TextEncoder().encode("{}"));
    const empty = await pack.put("metadata", new Uint8Array(0));
    const written = await pack.commit();
    assert.notEqual(written.pack, null);
    await store.commitReferences(ids, () => Promise.resolve());
    for (const opened of [store, await reopen?.()]) {
      if (opened === undefined) continue;
      for (const [i, tensor] of tensors.entries()) {
        const id = ids[i] as Hash;
        assert.equal(id, idOfTensor(tensor));
        assert.ok(opened.has(id));
        assert.deepEqual(await readBack(opened, id), tensor.bytes);
        assert.deepEqual(opened.stat(id)?.header, { dtype: tensor.dtype, shape: tensor.shape });
        assert.equal(opened.stat(id)?.byteLength, tensor.bytes.length);
      }
      assert.equal(new TextDecoder().decode(await opened.read("names", names)), "{}");
      assert.equal((await opened.read("metadata", empty)).length, 0);
      assert.equal([...opened.list()].length, tensors.length + 2);
      await opened.close();
    }
  });

  it("shows nothing before the commit, and nothing after an abort", async () => {
    const { store } = await start();
    const pack = await store.begin();
    const id = await pack.putTensor(sourceOfTensor(testTensor(1)));
    assert.ok(!store.has(id));
    await pack.abort();
    assert.ok(!store.has(id));
    await assert.rejects(() => pack.commit(), hasCode("STORE_FAILED"));
    assert.throws(() => store.openTensor(id), hasCode("OBJECT_MISSING"));
    await assert.rejects(() => store.read("tree", id), hasCode("OBJECT_MISSING"));
    await store.close();
  });

  it("writes each object once, and no pack when nothing is new", async () => {
    const { store } = await start();
    await saveTensors(store, testTensor(1), testTensor(1), testTensor(2));
    assert.equal([...store.list()].length, 2);
    const again = await store.begin();
    await again.putTensor(sourceOfTensor(testTensor(1)));
    const unread: TensorSource = {
      ...testTensor(2),
      byteLength: 100,
      chunks: () => {
        throw new Error("must not be read");
      },
    };
    await again.putTensor(unread, idOfTensor(testTensor(2)));
    assert.deepEqual(await again.commit(), { pack: null, bytes: 0 });
    await store.close();
  });

  it("refuses bytes that are not those of the declared tensor, and continues the save", async () => {
    const { store } = await start();
    const pack = await store.begin();
    const first = await pack.putTensor(sourceOfTensor(testTensor(1, 400_000)));
    await assert.rejects(
      () => pack.putTensor(inPieces(testTensor(2, 2_000_000), 400_000), idOfTensor(testTensor(3))),
      hasCode("OBJECT_HASH_MISMATCH"),
    );
    await assert.rejects(
      () =>
        pack.putTensor({
          ...inPieces(testTensor(4, 2_000_000), 400_000),
          shape: [1_999_999],
          byteLength: 1_999_999,
        }),
      hasCode("TENSOR_SIZE_MISMATCH"),
    );
    await assert.rejects(
      () => pack.putTensor({ ...inPieces(testTensor(4), 30), shape: [101], byteLength: 101 }),
      hasCode("TENSOR_SIZE_MISMATCH"),
    );
    const last = await pack.putTensor(sourceOfTensor(testTensor(5)));
    await pack.commit();
    assert.deepEqual(await readBack(store, first), testTensor(1, 400_000).bytes);
    assert.deepEqual(await readBack(store, last), testTensor(5).bytes);
    assert.equal([...store.list()].length, 2);
    await store.close();
  });

  it("accepts many concurrent saves, also of the same objects", async () => {
    const { store, reopen } = await start();
    await Promise.all(
      Array.from({ length: 40 }, async (_, i) => {
        await saveTensors(store, testTensor(i % 10), testTensor(100 + i));
      }),
    );
    for (let i = 0; i < 40; i++)
      assert.deepEqual(await readBack(store, idOfTensor(testTensor(100 + i))), testTensor(100 + i).bytes);
    await store.close();
    const reopened = await reopen?.();
    if (reopened !== undefined) {
      assert.equal([...reopened.list()].length, 50);
      await reopened.close();
    }
  });

  it("reports that an object is of another kind", async () => {
    const { store } = await start();
    const pack = await store.begin();
    const tensor = await pack.putTensor(sourceOfTensor(testTensor(1)));
    const tree = await pack.put("tree", new Uint8Array([1]));
    assert.equal(tree, objectId("tree", new Uint8Array([1])));
    await pack.commit();
    await assert.rejects(() => store.read("tree", tensor), hasCode("OBJECT_KIND_MISMATCH"));
    await assert.rejects(() => store.read("names", tree), hasCode("OBJECT_KIND_MISMATCH"));
    assert.throws(() => store.openTensor(tree), hasCode("OBJECT_KIND_MISMATCH"));
    await store.close();
  });
}

function leasesAndReferences(start: StartStore): void {
  it("pins leased objects until release or expiry", async () => {
    const { store, clock } = await start();
    const [a, b] = (await saveTensors(store, testTensor(1), testTensor(2))) as [Hash, Hash];
    const lease = store.lease([a], 1000);
    assert.equal(lease.expiresAtMs, clock.now() + 1000);
    const second = store.lease([b], 5000);
    assert.deepEqual((await store.planCollection(new Set())).dead, []);
    clock.advance(900);
    store.renew(lease.id, 1000);
    clock.advance(999);
    assert.deepEqual((await store.planCollection(new Set())).dead, []);
    clock.advance(1);
    assert.deepEqual(
      (await store.planCollection(new Set())).dead.map(({ id }) => id),
      [a],
    );
    assert.throws(() => store.renew(lease.id, 1000), hasCode("LEASE_EXPIRED"));
    store.release(second.id);
    assert.throws(() => store.renew(second.id, 1000), hasCode("LEASE_UNKNOWN"));
    assert.equal((await store.planCollection(new Set())).dead.length, 2);
    await store.close();
  });

  it("pins objects named by a lease as soon as they are saved", async () => {
    const { store } = await start();
    store.lease([idOfTensor(testTensor(1))], 1000);
    await saveTensors(store, testTensor(1));
    assert.deepEqual((await store.planCollection(new Set())).dead, []);
    await store.close();
  });

  it("pins what an open save refers to, and what a committed one refers to for a grace period", async () => {
    const { store, clock } = await start({ graceMs: 1000 });
    const [known] = (await saveTensors(store, testTensor(1))) as [Hash];
    clock.advance(1000);
    const pack = await store.begin();
    await pack.putTensor(sourceOfTensor(testTensor(1)));
    clock.advance(1_000_000);
    assert.deepEqual((await store.planCollection(new Set())).dead, []);
    await pack.commit();
    assert.deepEqual((await store.planCollection(new Set())).dead, []);
    await store.commitReferences([known], () => Promise.resolve());
    assert.equal((await store.planCollection(new Set())).dead.length, 1);
    await store.close();
  });

  it("commits references only when all objects are stored, many concurrently", async () => {
    const { store } = await start();
    const [a] = (await saveTensors(store, testTensor(1))) as [Hash];
    const absent = idOfTensor(testTensor(2));
    await assert.rejects(
      () => store.commitReferences([a, absent], () => assert.fail("must not run")),
      (error) => hasCode("REFERENCE_MISSING")(error) && (error as Error).message.includes(absent),
    );
    let inside = 0;
    let most = 0;
    let open: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const all = Array.from({ length: 5 }, () =>
      store.commitReferences([a], async () => {
        most = Math.max(most, ++inside);
        if (inside === 5) open();
        await gate;
        inside--;
        return "done";
      }),
    );
    assert.deepEqual(await Promise.all(all), Array(5).fill("done"));
    assert.equal(most, 5);
    const failure = new Error("of the caller");
    await assert.rejects(
      () => store.commitReferences([a], () => Promise.reject(failure)),
      (error) => error === failure,
    );
    await store.close();
  });
}
