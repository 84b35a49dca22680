/** The contract of object stores. Each implementation calls `objectStoreContract` with a function that opens one. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { StemmaError, type ErrorCode } from "../../../../shared/errors.js";
import type { ObjectPruner } from "../../../../shared/objects/object-store.js";
import { objectId, tensorId } from "../../../../shared/tensor/hash.js";
import {
  sourceOfTensor,
  tensorOfSource,
  type Hash,
  type Tensor,
  type TensorSource,
} from "../../../../shared/tensor/tensor.js";
import { codedTensors } from "./coded-tensors-contract.js";
import { manualClock, seededNumbers, type ManualClock } from "../../../helpers/manual-clock.js";

export interface StoreUnderTest {
  readonly store: ObjectPruner;
  readonly clock: ManualClock;
  /** Opens a new store on what is durable; absent for a store that keeps nothing. */
  readonly reopen?: () => Promise<ObjectPruner>;
}
export type OpenStore = (options: {
  readonly clock: ManualClock;
  readonly graceMs?: number;
}) => Promise<Omit<StoreUnderTest, "clock">>;

export function testTensor(seed: number, elements = 100): Tensor {
  const random = seededNumbers(seed);
  const bytes = new Uint8Array(elements);
  for (let i = 0; i < elements; i++) bytes[i] = random() * 256;
  return { dtype: "U8", shape: [elements], bytes };
}
export const idOf = (tensor: Tensor): Hash => tensorId(tensor, tensor.bytes);
export const code =
  (expected: ErrorCode) =>
  (error: unknown): boolean =>
    error instanceof StemmaError && error.code === expected;

export async function saveTensors(store: ObjectPruner, ...tensors: readonly Tensor[]): Promise<Hash[]> {
  const pack = await store.begin();
  const ids: Hash[] = [];
  for (const tensor of tensors) ids.push(await pack.putTensor(sourceOfTensor(tensor)));
  await pack.commit();
  return ids;
}
async function readTensor(store: ObjectPruner, id: Hash): Promise<Uint8Array> {
  return (await tensorOfSource(store.openTensor(id))).bytes;
}

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
  });
}

export type Start = (options?: { readonly graceMs?: number }) => Promise<StoreUnderTest>;

function savesAndReads(start: Start): void {
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
    for (const at of [store, await reopen?.()]) {
      if (at === undefined) continue;
      for (const [i, tensor] of tensors.entries()) {
        const id = ids[i] as Hash;
        assert.equal(id, idOf(tensor));
        assert.ok(at.has(id));
        assert.deepEqual(await readTensor(at, id), tensor.bytes);
        assert.deepEqual(at.stat(id)?.header, { dtype: tensor.dtype, shape: tensor.shape });
        assert.equal(at.stat(id)?.byteLength, tensor.bytes.length);
      }
      assert.equal(new TextDecoder().decode(await at.read("names", names)), "{}");
      assert.equal((await at.read("metadata", empty)).length, 0);
      assert.equal([...at.list()].length, tensors.length + 2);
      await at.close();
    }
  });

  it("shows nothing before the commit, and nothing after an abort", async () => {
    const { store } = await start();
    const pack = await store.begin();
    const id = await pack.putTensor(sourceOfTensor(testTensor(1)));
    assert.ok(!store.has(id));
    await pack.abort();
    assert.ok(!store.has(id));
    await assert.rejects(() => pack.commit(), code("STORE_FAILED"));
    assert.throws(() => store.openTensor(id), code("OBJECT_MISSING"));
    await assert.rejects(() => store.read("tree", id), code("OBJECT_MISSING"));
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
    await again.putTensor(unread, idOf(testTensor(2)));
    assert.deepEqual(await again.commit(), { pack: null, bytes: 0 });
    await store.close();
  });

  it("refuses bytes that are not those of the declared tensor, and continues the save", async () => {
    const { store } = await start();
    const pack = await store.begin();
    const first = await pack.putTensor(sourceOfTensor(testTensor(1, 400_000)));
    await assert.rejects(
      () => pack.putTensor(inPieces(testTensor(2, 2_000_000), 400_000), idOf(testTensor(3))),
      code("OBJECT_HASH_MISMATCH"),
    );
    await assert.rejects(
      () =>
        pack.putTensor({
          ...inPieces(testTensor(4, 2_000_000), 400_000),
          shape: [1_999_999],
          byteLength: 1_999_999,
        }),
      code("TENSOR_SIZE_MISMATCH"),
    );
    await assert.rejects(
      () => pack.putTensor({ ...inPieces(testTensor(4), 30), shape: [101], byteLength: 101 }),
      code("TENSOR_SIZE_MISMATCH"),
    );
    const last = await pack.putTensor(sourceOfTensor(testTensor(5)));
    await pack.commit();
    assert.deepEqual(await readTensor(store, first), testTensor(1, 400_000).bytes);
    assert.deepEqual(await readTensor(store, last), testTensor(5).bytes);
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
      assert.deepEqual(await readTensor(store, idOf(testTensor(100 + i))), testTensor(100 + i).bytes);
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
    await assert.rejects(() => store.read("tree", tensor), code("OBJECT_KIND_MISMATCH"));
    await assert.rejects(() => store.read("names", tree), code("OBJECT_KIND_MISMATCH"));
    assert.throws(() => store.openTensor(tree), code("OBJECT_KIND_MISMATCH"));
    await store.close();
  });
}

function leasesAndReferences(start: Start): void {
  it("pins leased objects until release or expiry", async () => {
    const { store, clock } = await start();
    const [a, b] = (await saveTensors(store, testTensor(1), testTensor(2))) as [Hash, Hash];
    const lease = store.lease([a], 1000);
    assert.equal(lease.expiresAtMs, clock.now() + 1000);
    const second = store.lease([b], 5000);
    assert.deepEqual(store.planCollection(new Set()).dead, []);
    clock.advance(900);
    store.renew(lease.id, 1000);
    clock.advance(999);
    assert.deepEqual(store.planCollection(new Set()).dead, []);
    clock.advance(1);
    assert.deepEqual(
      store.planCollection(new Set()).dead.map(({ id }) => id),
      [a],
    );
    assert.throws(() => store.renew(lease.id, 1000), code("LEASE_EXPIRED"));
    store.release(second.id);
    assert.throws(() => store.renew(second.id, 1000), code("LEASE_UNKNOWN"));
    assert.equal(store.planCollection(new Set()).dead.length, 2);
    await store.close();
  });

  it("pins objects named by a lease as soon as they are saved", async () => {
    const { store } = await start();
    store.lease([idOf(testTensor(1))], 1000);
    await saveTensors(store, testTensor(1));
    assert.deepEqual(store.planCollection(new Set()).dead, []);
    await store.close();
  });

  it("pins what an open save refers to, and what a committed one refers to for a grace period", async () => {
    const { store, clock } = await start({ graceMs: 1000 });
    const [known] = (await saveTensors(store, testTensor(1))) as [Hash];
    clock.advance(1000);
    const pack = await store.begin();
    await pack.putTensor(sourceOfTensor(testTensor(1)));
    clock.advance(1_000_000);
    assert.deepEqual(store.planCollection(new Set()).dead, []);
    await pack.commit();
    assert.deepEqual(store.planCollection(new Set()).dead, []);
    await store.commitReferences([known], () => Promise.resolve());
    assert.equal(store.planCollection(new Set()).dead.length, 1);
    await store.close();
  });

  it("commits references only when all objects are stored, many concurrently", async () => {
    const { store } = await start();
    const [a] = (await saveTensors(store, testTensor(1))) as [Hash];
    const absent = idOf(testTensor(2));
    await assert.rejects(
      () => store.commitReferences([a, absent], () => assert.fail("must not run")),
      (error) => code("REFERENCE_MISSING")(error) && (error as Error).message.includes(absent),
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
    await assert.rejects(
      () => store.commitReferences([a], () => Promise.reject(new Error("of the caller"))),
      /of the caller/,
    );
    await store.close();
  });
}

function collection(start: Start): void {
  it("frees exactly what it planned, keeps live objects, and lets readers finish", async () => {
    const { store, reopen } = await start();
    const live: Hash[] = [];
    const dead: Hash[] = [];
    const sizes = [500, 9_000_000, 20, 100_000, 7];
    for (let save = 0; save < 6; save++) {
      const ids = await saveTensors(store, ...sizes.map((size, i) => testTensor(save * 10 + i, size)));
      ids.forEach((id, i) => {
        (save === 0 || (save < 4 && i % 2 === 0) ? dead : live).push(id);
      });
    }
    const plan = store.planCollection(new Set(live));
    assert.equal(plan.deletePacks.length, 1);
    assert.equal(plan.repackPacks.length, 3);
    assert.equal(plan.live, live.length);
    const reading = store
      .openTensor(idOf(testTensor(1, 9_000_000)))
      .chunks()
      [Symbol.asyncIterator]();
    const pieces = [(await reading.next()).value as Uint8Array];
    const { freedBytes } = await store.collect(plan, () => new Set(live));
    assert.equal(freedBytes, plan.bytesBefore - plan.bytesAfter);
    for (let piece = await reading.next(); piece.done !== true; piece = await reading.next())
      pieces.push(piece.value);
    assert.deepEqual(new Uint8Array(Buffer.concat(pieces)), testTensor(1, 9_000_000).bytes);
    const again = store.planCollection(new Set(live));
    assert.deepEqual(
      { dead: again.dead, before: again.bytesBefore, after: again.bytesAfter },
      { dead: [], before: plan.bytesAfter, after: plan.bytesAfter },
    );
    await store.close();
    const reopened = await reopen?.();
    if (reopened === undefined) return;
    for (const id of live)
      assert.equal((await readTensor(reopened, id)).length, reopened.stat(id)?.byteLength);
    for (const id of dead) assert.ok(!reopened.has(id));
    await reopened.close();
  });

  it("reads a tensor whose pack was rewritten between opening and reading, verified or not", async () => {
    const { store } = await start();
    const [a, b] = (await saveTensors(store, testTensor(1, 200_000), testTensor(2))) as [Hash, Hash];
    const opened = [true, false].map((verify) => store.openTensor(a, { verify }));
    const chunkIterators = opened.map((source) => source.chunks());
    const live = new Set([a]);
    await store.collect(store.planCollection(live), () => live);
    assert.ok(!store.has(b));
    for (const source of opened)
      assert.deepEqual((await tensorOfSource(source)).bytes, testTensor(1, 200_000).bytes);
    for (const chunks of chunkIterators) {
      const pieces: Uint8Array[] = [];
      for await (const piece of chunks) pieces.push(piece);
      assert.deepEqual(new Uint8Array(Buffer.concat(pieces)), testTensor(1, 200_000).bytes);
    }
    await store.close();
  });

  it("refuses while something live is missing, and refuses a plan of another state", async () => {
    const { store } = await start();
    const [a, b] = (await saveTensors(store, testTensor(1), testTensor(2))) as [Hash, Hash];
    assert.throws(() => store.planCollection(new Set([a, idOf(testTensor(3))])), code("COLLECTION_REFUSED"));
    const plan = store.planCollection(new Set([a]));
    await assert.rejects(
      () => store.collect(plan, () => new Set([a, idOf(testTensor(3))])),
      code("COLLECTION_REFUSED"),
    );
    await assert.rejects(() => store.collect(plan, () => new Set([a, b])), code("PLAN_STALE"));
    const lease = store.lease([b], 1000);
    await assert.rejects(() => store.collect(plan, () => new Set([a])), code("PLAN_STALE"));
    store.release(lease.id);
    await saveTensors(store, testTensor(4)); // A save does not make the plan stale.
    await store.collect(plan, () => new Set([a]));
    assert.ok(store.has(a) && !store.has(b) && store.has(idOf(testTensor(4))));
    await assert.rejects(() => store.collect(plan, () => new Set([a])), code("PLAN_STALE"));
    await store.close();
  });

  it("a lease taken during a collection keeps its object, or reports it as missing", async () => {
    for (let turns = 0; turns < 80; turns += 2) {
      const { store } = await start();
      const [a, b] = (await saveTensors(store, testTensor(1), testTensor(2, 300_000))) as [Hash, Hash];
      const plan = store.planCollection(new Set([b]));
      const collecting = store
        .collect(plan, () => new Set([b]))
        .then(
          () => "collected",
          (error: unknown) => {
            assert.ok(code("PLAN_STALE")(error), String(error));
            return "stale";
          },
        );
      for (let turn = 0; turn < turns; turn++)
        await (turn % 4 === 3
          ? new Promise((resolve) => {
              setImmediate(resolve);
            })
          : Promise.resolve());
      if (turns === 78) await collecting; // The first lease comes before anything, the last after everything.
      // As for a want: stored objects are leased in the same turn of the event loop that looks them up.
      const promised = store.has(a);
      store.lease([a], 1000);
      const outcome = await collecting;
      assert.equal(outcome, promised ? "stale" : "collected");
      if (promised)
        await store.commitReferences([a], async () => {
          assert.deepEqual(await readTensor(store, a), testTensor(1).bytes);
        });
      else
        await assert.rejects(
          () => store.commitReferences([a], () => Promise.resolve()),
          code("REFERENCE_MISSING"),
        );
      await store.close();
    }
  });

  it("waits for references that are being committed, and sees them", async () => {
    const { store } = await start();
    const [a, b] = (await saveTensors(store, testTensor(1), testTensor(2))) as [Hash, Hash];
    const live = new Set([b]);
    const plan = store.planCollection(live);
    let finish: () => void = () => undefined;
    const committing = store.commitReferences([a], async () => {
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      live.add(a);
    });
    const collecting = store.collect(plan, () => live);
    for (let turn = 0; turn < 200; turn++) await Promise.resolve();
    finish();
    await committing;
    await assert.rejects(() => collecting, code("PLAN_STALE"));
    assert.deepEqual(await readTensor(store, a), testTensor(1).bytes);
    await store.close();
  });
}
