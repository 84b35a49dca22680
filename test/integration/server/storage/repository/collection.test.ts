/** What a collection removes, what it never removes, and races with other operations. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Fact } from "../../../../../shared/journal/fact.js";
import { openJournal } from "../../../../../shared/journal/open-journal.js";
import { tensorOfSource } from "../../../../../shared/tensor/tensor.js";
import {
  fineTuned,
  memoryHome,
  modelOf,
  openRepository,
  places,
  sameTensors,
  seededDraw,
  tensorsOf,
} from "./harness.js";

/** After this time, failed saves no longer pin what they wrote. */
const graceMs = 61_000;

for (const [place, makeHome] of places) {
  test(`${place}: retiring the middle of a chain frees what only it owned; the rest is recovered, and its name stays`, async (context) => {
    const { home, ports, reopen } = await makeHome(context);
    const repository = await openRepository(home, "fleet-a");
    let tensors = tensorsOf("chain", 6);
    let base = (await repository.save(modelOf(tensors), { name: "soh" })).summary;
    const chain = [{ summary: base, tensors }];
    for (let step = 1; step <= 4; step++) {
      // Each step changes the last layer, so step 2's own tensors are gone from step 3 on; its sibling layers
      // live on.
      tensors = fineTuned(tensors, `step ${step}`);
      base = (
        await repository.save(modelOf(tensors), { name: "soh", bases: [base.versionId], metadata: { step } })
      ).summary;
      chain.push({ summary: base, tensors });
    }
    ports.clock.advance(graceMs);
    const clean = await repository.planCollection();
    assert.deepEqual([clean.dead.length, clean.bytesBefore], [0, clean.bytesAfter]);
    const middle = chain[2]!.summary;
    await repository.retire(middle.versionId, "space");
    const plan = await repository.planCollection();
    const dead = new Set(plan.dead.map(({ id }) => id));
    assert.ok(dead.has(middle.record.objects.tree) && !dead.has(middle.versionId));
    const { packBytes } = await repository.stats();
    const { freedBytes } = await repository.collect(plan);
    assert.equal(packBytes - freedBytes, (await repository.stats()).packBytes);
    assert.equal(packBytes - freedBytes, plan.bytesAfter);
    await repository.close();
    await home.close();
    const again = await reopen();
    const reopened = await openRepository(again, "fleet-a");
    for (const { summary, tensors: expected } of chain)
      if (summary !== middle) assert.ok(await sameTensors(reopened, summary.versionId, expected));
    assert.deepEqual(
      reopened.lineage(base.versionId).map(({ version, state }) => `${version} ${state}`),
      ["5 recorded", "4 recorded", "3 retired", "2 recorded", "1 recorded"],
    );
    assert.deepEqual(reopened.get(middle.versionId)?.record.bases, [chain[1]!.summary.versionId]);
    await assert.rejects(reopened.recover(middle.versionId), { code: "MODEL_RETIRED" });
    assert.deepEqual((await reopened.check()).problems, []);
    assert.equal((await reopened.planCollection()).dead.length, 0);
    assert.deepEqual(
      (await reopened.list({ state: "retired" })).versions.map(({ versionId }) => versionId),
      [middle.versionId],
    );
    await reopened.close();
    await again.close();
  });
}

test("a want's lease and a collection, in any order: the leased objects are there", async () => {
  for (let seed = 0; seed < 20; seed++) {
    const draw = seededDraw(`want ${seed}`);
    const { home, ports } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const shared = tensorsOf("shared", 3);
    const old = (await repository.save(modelOf(shared), { name: "old" })).summary;
    await repository.retire(old.versionId, "replaced");
    ports.clock.advance(graceMs);
    const plan = await repository.planCollection();
    // A device announces a child of a version that is being collected: the server requests only what it
    // lacks, and leases the rest.
    const child = fineTuned(shared, `child ${seed}`);
    const want = async (): Promise<void> => {
      const model = modelOf(child);
      const has = model.leaves.filter(({ tensor }) => repository.objects.has(tensor));
      const lease = repository.objects.lease(
        has.map(({ tensor }) => tensor),
        1000,
      );
      for (let turns = draw(6); turns > 0; turns--) await Promise.resolve();
      // The leased objects must still be there when the rest has arrived.
      for (const { tensor } of has)
        assert.ok(repository.objects.has(tensor), `seed ${seed}: a leased tensor went`);
      await repository.save(model, { name: "new" });
      repository.objects.release(lease.id);
    };
    const collect = async (): Promise<void> => {
      for (let turns = draw(6); turns > 0; turns--) await Promise.resolve();
      await repository.collect(plan).catch((error: { code?: string }) => {
        if (error.code !== "PLAN_STALE") throw error;
      });
    };
    await Promise.all(draw(2) === 0 ? [want(), collect()] : [collect(), want()]);
    assert.ok(await sameTensors(repository, repository.resolve("new").versionId, child), `seed ${seed}`);
    assert.deepEqual((await repository.check()).problems, []);
    await repository.close();
  }
});

test("saves and collections together never lose a recorded version", async () => {
  for (let seed = 0; seed < 5; seed++) {
    const draw = seededDraw(`churn ${seed}`);
    const { home, ports } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const kept: {
      versionId: Parameters<typeof repository.recover>[0];
      tensors: ReturnType<typeof tensorsOf>;
    }[] = [];
    const save = async (index: number): Promise<void> => {
      const base = kept.length > 0 ? kept[draw(kept.length)] : undefined;
      const tensors =
        base === undefined || draw(4) === 0
          ? tensorsOf(`${seed}/${draw(3)}`, 3, 4)
          : fineTuned(base.tensors, `${seed}/${index % 5}`);
      try {
        const { summary } = await repository.save(modelOf(tensors), {
          name: "m",
          ...(base === undefined ? {} : { bases: [base.versionId] }),
        });
        kept.push({ versionId: summary.versionId, tensors });
      } catch (error) {
        if ((error as { code?: string }).code !== "MODEL_RETIRED") throw error;
      }
    };
    const retire = async (): Promise<void> => {
      if (kept.length < 4) return;
      const [gone] = kept.splice(draw(kept.length), 1);
      await repository.retire(gone!.versionId, "churn");
    };
    const collect = async (): Promise<void> => {
      ports.clock.advance(draw(2) * graceMs);
      await repository.collect(await repository.planCollection()).catch((error: { code?: string }) => {
        if (error.code !== "PLAN_STALE") throw error;
      });
    };
    for (let round = 0; round < 12; round++)
      await Promise.all([save(round), retire(), save(round + 1), collect(), save(round + 2)]);
    for (const { versionId, tensors } of kept)
      assert.ok(await sameTensors(repository, versionId, tensors), `seed ${seed}`);
    assert.deepEqual((await repository.check()).problems, [], `seed ${seed}`);
    await repository.close();
  }
});

test("held versions stay, retired ones keep their record, a stale plan is refused", async () => {
  const { home, ports } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const a = (await repository.save(modelOf(tensorsOf("a")), { name: "a" })).summary;
  const b = (await repository.save(modelOf(tensorsOf("b")), { name: "b" })).summary;
  await repository.hold(a.versionId, "incident");
  await assert.rejects(repository.retire(a.versionId, "x"), { code: "MODEL_HELD" });
  await repository.retire(b.versionId, "x");
  ports.clock.advance(graceMs);
  const live = await repository.liveObjects();
  assert.ok(
    live.has(a.versionId) &&
      live.has(b.versionId) &&
      live.has(a.record.objects.tree) &&
      !live.has(b.record.objects.tree),
  );
  const plan = await repository.planCollection();
  assert.ok(plan.dead.length > 0);
  await repository.collect(plan);
  await assert.rejects(repository.collect(plan), { code: "PLAN_STALE" });
  await repository.close();
});

test("facts of a newer Stemma are skipped, and nothing is deleted while they exist", async () => {
  const { home, files } = await memoryHome();
  const { signer } = home;
  const headSigner = {
    publicKey: signer.publicKey,
    sign: (message: Uint8Array) => Buffer.from(signer.sign(message)).toString("hex"),
  };
  const newer = await openJournal<unknown>(files, "/home/fleets/fleet-a/journal", { signer: headSigner });
  await newer.append([{ type: "pinned-by-newer", atMs: 1, something: [1, 2] }]);
  await newer.close();
  const repository = await openRepository(home, "fleet-a");
  const { summary } = await repository.save(modelOf(tensorsOf("a")), { name: "a" });
  assert.equal(summary.position, 1);
  await repository.retire(summary.versionId, "x");
  await assert.rejects(repository.planCollection(), { code: "COLLECTION_REFUSED" });
  await assert.rejects(repository.journal.append([{ type: "pinned-by-newer", atMs: 1 } as unknown as Fact]), {
    code: "FACT_INVALID",
  });
  await repository.close();
});

test("a recovery that began before a collection ends with the right bytes", async () => {
  const { home, ports } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const keep = tensorsOf("keep", 4);
  const drop = tensorsOf("drop", 4);
  const kept = (await repository.save(modelOf(keep), { name: "keep" })).summary;
  const dropped = (
    await repository.save(
      modelOf([...drop, ...keep.map((tensor) => ({ ...tensor, name: `k.${tensor.name}` }))]),
      { name: "drop" },
    )
  ).summary;
  const model = await repository.recover(kept.versionId);
  await repository.retire(dropped.versionId, "x");
  ports.clock.advance(graceMs);
  await repository.collect(await repository.planCollection());
  for (const source of model.sources) assert.ok((await tensorOfSource(source)).bytes.length > 0);
  assert.ok(await sameTensors(repository, kept.versionId, keep));
  await repository.close();
});
