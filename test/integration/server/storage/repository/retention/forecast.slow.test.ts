/** Retention forecasts on real files: exactly what is listed is retired, and the predicted bytes are freed. */
import assert from "node:assert/strict";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { Hash, Tensor } from "../../../../../../shared/tensor/tensor.js";
import { codedAgainst, idOfTensor, memberOf, writePack } from "../../../../../helpers/coded-tensors.js";
import { diskHome, modelOf, openRepository, sameTensors, seededDraw, type NamedTensor } from "../harness.js";
import { testSeed } from "../../../../../helpers/crash-states.js";
import { dayMs, fleetScope, growChain, namesOf } from "./grown-chain.js";

const isFull = process.env["STEMMA_TEST_FULL"] === "1";

async function bytesOnDisk(folder: string): Promise<number> {
  const names = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith(".pack"));
  assert.ok(names.length > 0, `no packs below ${folder}`);
  return (await Promise.all(names.map((name) => stat(join(folder, name))))).reduce(
    (sum, { size }) => sum + size,
    0,
  );
}

test("a forecast lists what will be retired, and applying does exactly that; all other versions are recovered bit for bit", async (context) => {
  const made = await diskHome(context);
  const repository = await openRepository(made.home, "fleet-a");
  const chain = await growChain(repository, made, "soh", { days: 60 });
  assert.deepEqual((await repository.retention.forecast()).retire, [], "no rule, nothing goes");
  await repository.as({ who: "ann", through: "command" }).hold(chain[3]!.summary.versionId, "incident 7");
  await repository.tag("soh", "best", chain[8]!.summary.versionId);
  await repository.retention.set(fleetScope, "30 days, then one a week");
  const forecast = await repository.retention.forecast({ listKept: true });
  const before = repository.journal.head().length;
  assert.deepEqual(
    forecast.keep
      ?.map(({ because, reason }) => [reason, because])
      .filter(([reason]) => reason === "held" || reason === "tagged" || reason === "head"),
    [
      ["held", "held by ann (command) since 2024-01-13 22:13Z: incident 7"],
      ["tagged", "tagged best"],
      ["head", "the newest of its line and name"],
    ],
  );
  assert.equal(forecast.retire.length + (forecast.keep?.length ?? 0), 60);
  assert.equal(
    Object.values(forecast.kept).reduce((sum, count) => sum + count, 0),
    forecast.keep?.length,
  );
  const outcome = await repository.retention.apply();
  assert.deepEqual(namesOf(outcome.retired), namesOf(forecast.retire));
  assert.equal(repository.journal.head().length, before + forecast.retire.length);
  assert.deepEqual((await repository.retention.apply()).retired, [], "again changes nothing");
  await repository.collect(await repository.planCollection());
  const gone = new Set(forecast.retire.map(({ versionId }) => versionId));
  assert.ok(gone.size >= 20, `${gone.size}`);
  for (const { summary, tensors } of chain) {
    if (gone.has(summary.versionId))
      await assert.rejects(repository.recover(summary.versionId), { code: "MODEL_RETIRED" });
    else assert.ok(await sameTensors(repository, summary.versionId, tensors), `soh:${summary.version}`);
  }
  assert.match(
    repository.get(forecast.retire[0]!.versionId)?.retired?.because ?? "",
    /^retention of the fleet: soh:\d+ is the one of 20\d\d-W\d\d$/,
  );
  assert.deepEqual((await repository.check()).problems, []);
  await repository.close();
  await made.home.close();
});

test("predicted bytes are those that a collection frees on the disk, within 2 %, whatever the packs contain", async (context) => {
  // Three in a row have all rules, leases and earlier collections.
  const [first, count] = isFull ? [0, 60] : [testSeed() % 58, 3];
  for (let seed = first; seed < first + count; seed++) {
    const draw = seededDraw(`predict ${seed}`);
    const made = await diskHome(context);
    const repository = await openRepository(made.home, "fleet-a");
    const packs = join(made.path, "fleets", "fleet-a", "packs");
    await growChain(repository, made, "soh", { days: 20 + draw(20), layers: 2 + draw(4) });
    await growChain(repository, made, "cam", { days: 10 + draw(20) });
    if (seed % 2 === 1) {
      // Packs that a collection has already rewritten, and garbage from before.
      const all = repository.versions();
      for (let count = 0; count < 6; count++)
        await repository
          .retire(all[draw(all.length - 2)]!.versionId, "by hand")
          .catch((error: { code?: string }) => {
            if (error.code !== "MODEL_IN_USE") throw error;
          });
      await repository.collect(await repository.planCollection());
      await repository.retire(repository.versions({ name: "cam" })[0]!.versionId, "by hand");
    }
    const pinned =
      seed % 3 === 2
        ? repository.objects.lease(
            (await repository.leaves(repository.versions()[1]!.versionId)).map(({ tensor }) => tensor),
            3_600_000,
          )
        : undefined;
    await repository.retention.set(
      fleetScope,
      ["5 days, then one a week", "bases for ever, else 8 days", "nothing"][seed % 3]!,
    );
    const { retire, freedBytes, freeableBytes, bytesBefore } = await repository.retention.forecast();
    const before = await bytesOnDisk(packs);
    assert.equal(bytesBefore, before);
    assert.ok(
      retire.length > 5 && freedBytes > freeableBytes,
      `seed ${seed}: ${retire.length} ${freedBytes}`,
    );
    await repository.retention.apply();
    const { freedBytes: reported } = await repository.collect(await repository.planCollection());
    const freed = before - (await bytesOnDisk(packs));
    assert.equal(reported, freed);
    assert.ok(
      Math.abs(freedBytes - freed) <= 0.02 * freed,
      `seed ${seed}: predicted ${freedBytes}, freed ${freed}`,
    );
    if (pinned !== undefined) for (const id of pinned.objects) assert.ok(repository.objects.has(id));
    await repository.close();
    await made.home.close();
  }
});

test("coded tensors: a prediction includes tensors that stay because others are coded against them, and copies that recoding left behind", async (context) => {
  for (const direction of ["against the parent", "against the child", "every third raw"] as const) {
    const made = await diskHome(context);
    const repository = await openRepository(made.home, "fleet-a");
    const packs = join(made.path, "fleets", "fleet-a", "packs");
    const versions = 15;
    const member = (layer: number, version: number): Tensor => memberOf(layer + 1, version, [24, 48]);
    const tensorsAt = (version: number): NamedTensor[] =>
      [0, 1, 2].map((layer) => ({ ...member(layer, version), name: `layer${layer}` }));
    const grown: Hash[] = [];
    for (let version = 0; version < versions; version++) {
      grown.push(
        (await repository.save(modelOf(tensorsAt(version)), { name: "soh", bases: grown.slice(-1) })).summary
          .versionId,
      );
      made.ports.clock.advance(dayMs);
    }
    // Recoded as a planner would: a tensor is durable before another one refers to it.
    const order = [...Array(versions).keys()];
    if (direction === "against the child") order.reverse();
    for (const [step, version] of order.entries()) {
      const other = order[step - 1];
      if (other === undefined || (direction === "every third raw" && version % 3 === 0)) continue;
      await writePack(
        repository.objects,
        [0, 1, 2].map((layer) => codedAgainst(member(layer, version), member(layer, other))),
        { recode: true },
      );
    }
    assert.ok(
      repository.objects.encodingOf(idOfTensor(member(0, 7)))?.base !== undefined,
      "the middle is coded",
    );
    made.ports.clock.advance(61_000);
    await repository.hold(grown[4]!, "incident");
    await repository.retention.set(fleetScope, "5 days");
    const forecast = await repository.retention.forecast();
    const gone = new Set(forecast.retire.map(({ versionId }) => versionId));
    assert.equal(gone.size, 10, direction);
    // More is freed than a collection alone would free (the superseded copies), but not all retired tensors,
    // because others are coded against some of them.
    assert.ok(forecast.freeableBytes > 0 && forecast.freedBytes > forecast.freeableBytes, direction);
    const before = await bytesOnDisk(packs);
    await repository.retention.apply();
    const plan = await repository.planCollection();
    const dead = new Set(plan.dead.map(({ id }) => id));
    const stayed = grown.flatMap((versionId, version) =>
      gone.has(versionId)
        ? [0, 1, 2].map((layer) => idOfTensor(member(layer, version))).filter((id) => !dead.has(id))
        : [],
    );
    if (direction !== "every third raw")
      assert.ok(stayed.length > 0, `${direction}: nothing of a retired version is needed any more`);
    await repository.collect(plan);
    const freed = before - (await bytesOnDisk(packs));
    assert.ok(
      Math.abs(forecast.freedBytes - freed) <= 0.02 * freed,
      `${direction}: predicted ${forecast.freedBytes}, freed ${freed}`,
    );
    for (const [version, versionId] of grown.entries())
      if (!gone.has(versionId))
        assert.ok(
          await sameTensors(repository, versionId, tensorsAt(version)),
          `${direction}: soh:${version + 1}`,
        );
    assert.deepEqual((await repository.check()).problems, []);
    context.diagnostic(
      `${direction}: predicted ${forecast.freedBytes}, freed ${freed} of ${before}; ${stayed.length} tensors of retired versions stay for others`,
    );
    await repository.close();
    await made.home.close();
  }
});
