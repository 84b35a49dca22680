/**
 * A fleet whose tensors are stored encoded: every operation on packs works as with raw tensors, and reports
 * which tensors are encoded.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { encodingCodes } from "../../../../../shared/delta/encoded.js";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { restoreBackup } from "../../../../../server/storage/repository/backup/restore.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import type { Tensor } from "../../../../../shared/tensor/tensor.js";
import { codedAgainst, idOfTensor, memberOf, writePack } from "../../../../helpers/coded-tensors.js";
import { modelOf, openRepository, places, sameTensors, type NamedTensor } from "./harness.js";

const layers = [1, 2, 3];
const modelAt = (step: number): readonly NamedTensor[] =>
  layers.map((layer) => ({ name: `layer${layer}`, ...memberOf(layer, step, [10, 40]) }));
const steps = [0, 1, 2, 3];

/** Encodes every layer of every version against that of the version before. */
async function recode(repository: FleetRepository): Promise<void> {
  for (const step of steps.slice(1))
    await writePack(
      repository.objects,
      layers.map((layer) =>
        codedAgainst(
          memberOf(layer, step, [10, 40]),
          memberOf(layer, step - 1, [10, 40]),
          undefined,
          step === 3 ? "planes" : "packed",
        ),
      ),
      { recode: true },
    );
}

for (const [place, makeHome] of places) {
  test(`${place}: a fleet is stored encoded, collected, checked, backed up, restored and retired, and every model stays exact`, async (context) => {
    const { home, ports, path } = await makeHome(context);
    const repository = await openRepository(home, "fleet-a");
    const versions: Awaited<ReturnType<FleetRepository["save"]>>["summary"][] = [];
    for (const step of steps)
      versions.push(
        (
          await repository.save(modelOf(modelAt(step)), {
            name: "m",
            ...(step > 0 && { bases: [versions[step - 1]!.versionId] }),
          })
        ).summary,
      );
    assert.deepEqual((await repository.stats()).coded, {
      tensors: 0,
      storedBytes: 0,
      byteLength: 0,
      deepest: 0,
    });
    await recode(repository);
    const before = await repository.stats();
    const plan = await repository.planCollection();
    assert.equal((await repository.collect(plan)).freedBytes, plan.bytesBefore - plan.bytesAfter);
    const stats = await repository.stats();
    assert.ok(stats.packBytes < before.packBytes && stats.coded.storedBytes < stats.coded.byteLength);
    assert.deepEqual(
      [stats.tensors, stats.coded.tensors, stats.coded.byteLength, stats.coded.deepest],
      [12, 9, 9 * 1600, 3],
    );
    const exact = async (from: FleetRepository, kept: readonly number[]): Promise<void> => {
      for (const step of kept) assert.ok(await sameTensors(from, versions[step]!.versionId, modelAt(step)));
    };
    await exact(repository, steps);
    assert.deepEqual((await repository.check()).problems, []);

    const folder = join(path, "..", "backup");
    const target = join(path, "..", "restored");
    await repository.backup(folder);
    await restoreBackup(folder, target, ports);
    const restoredHome = await openHome(target, ports);
    const restored = await openRepository(restoredHome, "fleet-a");
    await exact(restored, steps);
    assert.deepEqual((await restored.stats()).coded, stats.coded);
    assert.deepEqual((await restored.check()).problems, []);
    await restored.close();
    await restoredHome.close();

    // Tensors that later versions are coded against stay after their own versions are gone.
    for (const step of [0, 1, 2]) await repository.retire(versions[step]!.versionId, "of the test");
    await repository.collect(await repository.planCollection());
    assert.equal((await repository.stats()).tensors, 12);
    await exact(repository, [3]);
    await writePack(
      repository.objects,
      layers.map((layer) => memberOf(layer, 3, [10, 40])),
      { recode: true },
    );
    ports.clock.advance(600_000); // After this, recent writes and leases pin nothing.
    await repository.collect(await repository.planCollection());
    assert.equal((await repository.stats()).tensors, 3);
    await exact(repository, [3]);
    await repository.close();
    await home.close();
  });

  test(`${place}: a check names the damaged tensor and every version that cannot be read because of it`, async (context) => {
    const { home, files } = await makeHome(context);
    const repository = await openRepository(home, "fleet-a");
    const [base, child] = [memberOf(1, 0), memberOf(1, 1)];
    await writePack(repository.objects, [base]);
    const packs = join(home.fleetFolder("fleet-a"), "packs");
    const [pack] = await files.list(packs);
    await writePack(repository.objects, [codedAgainst(child, base)]);
    const of = (tensor: Tensor, name: string) =>
      repository.save(modelOf([{ name: "w", ...tensor }]), { name });
    const second = (await of(child, "child")).summary;
    await of(base, "base");
    assert.notEqual(repository.objects.encodingOf(idOfTensor(child))?.code, encodingCodes.raw);
    const file = await files.open(join(packs, pack!), "update");
    const byte = new Uint8Array(1);
    await file.read(byte, 40);
    await file.write(Uint8Array.of(byte[0]! ^ 1), 40);
    await file.close();
    for (const time of ["first", "second"]) {
      const { problems } = await repository.check();
      assert.ok(problems.length >= 2, time);
      for (const { message } of problems)
        assert.ok(message.includes(idOfTensor(base)) && message.includes(pack!.slice(0, 64)), message);
      assert.ok(
        problems.some(({ id }) => id === idOfTensor(child)) &&
          problems.some(({ id }) => id === idOfTensor(base)),
        time,
      );
    }
    await assert.rejects(() => repository.recover(second.versionId));
    await assert.rejects(() => repository.planCollection().then((plan) => repository.collect(plan)), {
      code: "COLLECTION_REFUSED",
    });
    // Sending it again repairs the tensors coded against it.
    await writePack(repository.objects, [base]);
    assert.deepEqual((await repository.check()).problems, []);
    assert.ok(await sameTensors(repository, second.versionId, [{ name: "w", ...child }]));
    await repository.collect(await repository.planCollection());
    await repository.close();
    await home.close();
  });
}
