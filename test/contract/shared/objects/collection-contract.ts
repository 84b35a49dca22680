/** The part of the object store contract about collection: what it frees, what it keeps, and what it refuses. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { tensorOfSource, type Hash } from "../../../../shared/tensor/tensor.js";
import {
  assertReadable,
  codedAgainst,
  idOfTensor,
  memberOf,
  readBack,
  writePack,
} from "../../../helpers/coded-tensors.js";
import { hasCode, saveTensors, testTensor, type StartStore } from "../../../helpers/object-stores.js";
import { drawn } from "../../../helpers/test-depth.js";

export function collection(start: StartStore): void {
  collectsTensors(start);
  collectsCodedTensors(start);
}

function collectsTensors(start: StartStore): void {
  it("frees exactly what it planned, keeps live objects, and lets readers finish", async () => {
    const { store, reopen } = await start();
    const live: Hash[] = [];
    const dead: Hash[] = [];
    // The tensor that is being read takes several pieces, of which only some are read ahead.
    const sizesOf = (save: number): readonly number[] => [
      500,
      save === 0 ? 9_000_000 : 900_000,
      20,
      100_000,
      7,
    ];
    for (let save = 0; save < 6; save++) {
      const ids = await saveTensors(
        store,
        ...sizesOf(save).map((size, i) => testTensor(save * 10 + i, size)),
      );
      ids.forEach((id, i) => {
        (save === 0 || (save < 4 && i % 2 === 0) ? dead : live).push(id);
      });
    }
    const plan = await store.planCollection(new Set(live));
    assert.equal(plan.deletePacks.length, 1);
    assert.equal(plan.repackPacks.length, 3);
    assert.equal(plan.live, live.length);
    const reading = store
      .openTensor(idOfTensor(testTensor(1, 9_000_000)))
      .chunks()
      [Symbol.asyncIterator]();
    const pieces = [(await reading.next()).value as Uint8Array];
    const { freedBytes } = await store.collect(plan, () => new Set(live));
    assert.equal(freedBytes, plan.bytesBefore - plan.bytesAfter);
    for (let piece = await reading.next(); piece.done !== true; piece = await reading.next())
      pieces.push(piece.value);
    assert.deepEqual(new Uint8Array(Buffer.concat(pieces)), testTensor(1, 9_000_000).bytes);
    const again = await store.planCollection(new Set(live));
    assert.deepEqual(
      { dead: again.dead, before: again.bytesBefore, after: again.bytesAfter },
      { dead: [], before: plan.bytesAfter, after: plan.bytesAfter },
    );
    await store.close();
    const reopened = await reopen?.();
    if (reopened === undefined) return;
    for (const id of live) assert.equal((await readBack(reopened, id)).length, reopened.stat(id)?.byteLength);
    for (const id of dead) assert.ok(!reopened.has(id));
    await reopened.close();
  });

  it("reads a tensor whose pack was rewritten between opening and reading, verified or not", async () => {
    const { store } = await start();
    const [a, b] = (await saveTensors(store, testTensor(1, 200_000), testTensor(2))) as [Hash, Hash];
    const opened = [true, false].map((verify) => store.openTensor(a, { verify }));
    const chunkIterators = opened.map((source) => source.chunks());
    const live = new Set([a]);
    await store.collect(await store.planCollection(live), () => live);
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
    await assert.rejects(
      () => store.planCollection(new Set([a, idOfTensor(testTensor(3))])),
      hasCode("COLLECTION_REFUSED"),
    );
    const plan = await store.planCollection(new Set([a]));
    await assert.rejects(
      () => store.collect(plan, () => new Set([a, idOfTensor(testTensor(3))])),
      hasCode("COLLECTION_REFUSED"),
    );
    await assert.rejects(() => store.collect(plan, () => new Set([a, b])), hasCode("PLAN_STALE"));
    const lease = store.lease([b], 1000);
    await assert.rejects(() => store.collect(plan, () => new Set([a])), hasCode("PLAN_STALE"));
    store.release(lease.id);
    await saveTensors(store, testTensor(4)); // A save does not make the plan stale.
    await store.collect(plan, () => new Set([a]));
    assert.ok(store.has(a) && !store.has(b) && store.has(idOfTensor(testTensor(4))));
    await assert.rejects(() => store.collect(plan, () => new Set([a])), hasCode("PLAN_STALE"));
    await store.close();
  });

  it("a lease taken during a collection keeps its object, or reports it as missing", async () => {
    // The first lease comes before anything, the last after everything.
    const early = Array.from({ length: 39 }, (_, at) => 2 * at);
    for (const turns of [...drawn(early, 10), 78]) {
      const { store } = await start();
      const [a, b] = (await saveTensors(store, testTensor(1), testTensor(2, 300_000))) as [Hash, Hash];
      const plan = await store.planCollection(new Set([b]));
      const collecting = store
        .collect(plan, () => new Set([b]))
        .then(
          () => "collected",
          (error: unknown) => {
            assert.ok(hasCode("PLAN_STALE")(error), String(error));
            return "stale";
          },
        );
      for (let turn = 0; turn < turns; turn++)
        await (turn % 4 === 3
          ? new Promise((resolve) => {
              setImmediate(resolve);
            })
          : Promise.resolve());
      if (turns === 78) await collecting;
      // As for a want: stored objects are leased in the same turn of the event loop that looks them up.
      const promised = store.has(a);
      store.lease([a], 1000);
      const outcome = await collecting;
      assert.equal(outcome, promised ? "stale" : "collected");
      if (promised)
        await store.commitReferences([a], async () => {
          assert.deepEqual(await readBack(store, a), testTensor(1).bytes);
        });
      else
        await assert.rejects(
          () => store.commitReferences([a], () => Promise.resolve()),
          hasCode("REFERENCE_MISSING"),
        );
      await store.close();
    }
  });

  it("waits for references that are being committed, and sees them", async () => {
    const { store } = await start();
    const [a, b] = (await saveTensors(store, testTensor(1), testTensor(2))) as [Hash, Hash];
    const live = new Set([b]);
    const plan = await store.planCollection(live);
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
    await assert.rejects(() => collecting, hasCode("PLAN_STALE"));
    assert.deepEqual(await readBack(store, a), testTensor(1).bytes);
    await store.close();
  });
}

function collectsCodedTensors(start: StartStore): void {
  it("keeps all bases of live tensors, however far, and collects them with the last such tensor", async () => {
    const { store, clock } = await start();
    const [first, second, third, other] = [
      memberOf(1, 0),
      memberOf(1, 1),
      memberOf(1, 2),
      memberOf(7, 0),
    ] as const;
    await writePack(store, [first, codedAgainst(second, first), codedAgainst(third, second, first), other]);
    const live = new Set([idOfTensor(third)]);
    const plan = await store.planCollection(live);
    assert.deepEqual(
      plan.dead.map(({ id }) => id),
      [idOfTensor(other)],
    );
    await store.collect(plan, () => live);
    await assertReadable(store, first, second, third);
    // A lease also keeps the bases of its objects.
    const lease = store.lease([idOfTensor(second)], 1000);
    assert.deepEqual(
      (await store.planCollection(new Set())).dead.map(({ id }) => id),
      [idOfTensor(third)],
    );
    store.release(lease.id);
    clock.advance(1);
    await writePack(store, [third], { recode: true });
    const rest = await store.planCollection(live);
    assert.deepEqual(
      new Set(rest.dead.map(({ id }) => id)),
      new Set([idOfTensor(first), idOfTensor(second)]),
    );
    assert.equal((await store.collect(rest, () => live)).freedBytes, rest.bytesBefore - rest.bytesAfter);
    await assertReadable(store, third);
    assert.ok(!store.has(idOfTensor(first)) && !store.has(idOfTensor(second)));
    await store.close();
  });

  it("keeps a dead tensor that became a base between plan and execution", async () => {
    const early = Array.from({ length: 59 }, (_, at) => at);
    for (const turns of [...drawn(early, 15), 59]) {
      const { store } = await start();
      const [dead, kept] = [memberOf(1, 0, [8, 60]), memberOf(1, 1, [8, 60])] as const;
      const live = new Set([idOfTensor(kept)]);
      await writePack(store, [dead, kept]);
      const plan = await store.planCollection(live);
      assert.deepEqual(
        plan.dead.map(({ id }) => id),
        [idOfTensor(dead)],
      );
      const collecting = store
        .collect(plan, () => live)
        .then(
          () => "collected",
          (error: unknown) => {
            assert.ok(hasCode("PLAN_STALE")(error), String(error));
            return "stale";
          },
        );
      for (let turn = 0; turn < turns; turn++)
        await (turn % 4 === 3
          ? new Promise((resolve) => {
              setImmediate(resolve);
            })
          : Promise.resolve());
      if (turns === 59) await collecting;
      const recoding = await writePack(store, [codedAgainst(kept, dead)], { recode: true }).then(
        () => "recoded",
        (error: unknown) => {
          assert.ok(hasCode("REFERENCE_MISSING")(error), String(error));
          return "missing";
        },
      );
      const outcome = await collecting;
      assert.equal(outcome, recoding === "recoded" ? "stale" : "collected");
      assert.equal(store.has(idOfTensor(dead)), recoding === "recoded");
      await assertReadable(store, kept);
      if (recoding === "recoded") await store.collect(await store.planCollection(live), () => live);
      await assertReadable(store, kept);
      await store.close();
    }
  });

  it("pins the bases of an open save", async () => {
    const { store } = await start();
    const [base, child] = [memberOf(1, 0), memberOf(1, 1)];
    await writePack(store, [base]);
    const pack = await store.begin();
    await pack.putCoded(codedAgainst(child, base));
    assert.deepEqual((await store.planCollection(new Set())).dead, []);
    await pack.commit();
    assert.deepEqual((await store.planCollection(new Set([idOfTensor(child)]))).dead, []);
    assert.equal((await store.planCollection(new Set())).dead.length, 2);
    await store.close();
  });
}
