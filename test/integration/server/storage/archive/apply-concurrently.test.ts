/** Applying plans on real files: concurrently with other work, and around tensors that are damaged. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import {
  alteredModels,
  applyToFleet,
  fineTunedFamily,
  planFleet,
  saveModels,
  testFleetModels,
} from "../../../../helpers/archive-fleet.js";
import { temporaryFolder } from "../repository/harness.js";
import { tensorsOf } from "./memory-fleet.js";

describe("applying concurrently with other work", () => {
  it("does not block saves, recoveries and collections", async (context) => {
    const home = await openNodeHome(join(await temporaryFolder(context), "home"));
    const repository = await openRepository(home, "fleet-a");
    const models = testFleetModels();
    const ids = await saveModels(repository, models);
    const plan = await planFleet(repository, { ratio: null });
    const left = models.filter(({ name }) => name !== "a4");
    const more = fineTunedFamily("mean", 999, 6);
    const others: Promise<unknown>[] = [];
    let hasStarted = false;
    const report = await applyToFleet(repository, plan, {
      batchBytes: 16 * 1024,
      collectBytes: 64 * 1024,
      pauseMs: 1,
      onProgress: ({ done }) => {
        if (done < 3 || hasStarted) return;
        hasStarted = true;
        others.push(
          saveModels(repository, more).then(async (saved) => {
            assert.deepEqual(await alteredModels(repository, more, saved), []);
          }),
        );
        others.push(
          (async () => {
            for (let round = 0; round < 5; round++)
              assert.deepEqual(await alteredModels(repository, left, ids), []);
          })(),
        );
        others.push(
          (async () => {
            for (let round = 0; round < 5; round++)
              await repository.collect(await repository.planCollection()).catch((error: unknown) => {
                assert.equal((error as { code?: string }).code, "PLAN_STALE");
              });
          })(),
        );
        others.push(repository.retire(ids.get("a4")!, "meanwhile"));
      },
    });
    await Promise.all(others);
    assert.ok(hasStarted);
    assert.deepEqual([report.stopped, report.failed], [null, []]);
    assert.deepEqual((await repository.check()).problems, []);
    await repository.close();
    const again = await openRepository(home, "fleet-a");
    assert.deepEqual(await alteredModels(again, left, ids), []);
    await again.close();
    await home.close();
  });
});

describe("a store with damaged tensors", () => {
  it("plans around coded tensors that are damaged", async (context) => {
    const home = await openNodeHome(join(await temporaryFolder(context), "home"));
    const first = await openRepository(home, "fleet-a");
    await saveModels(first, testFleetModels());
    await applyToFleet(first, await planFleet(first, { ratio: null }));
    const total = tensorsOf(first).length;
    await first.close();
    const folder = join(home.path, "fleets", "fleet-a", "packs");
    const biggest = (
      await Promise.all(
        (await readdir(folder))
          .filter((name) => name.endsWith(".pack"))
          .map(async (name) => ({ name, bytes: await readFile(join(folder, name)) })),
      )
    ).sort((a, b) => b.bytes.length - a.bytes.length)[0]!;
    for (let at = 4000; at < biggest.bytes.length - 20_000; at += 16_000)
      biggest.bytes[at] = biggest.bytes[at]! ^ 0x5a;
    await writeFile(join(folder, biggest.name), biggest.bytes);
    const repository = await openRepository(home, "fleet-a");
    const plan = await planFleet(repository, { ratio: 1 });
    assert.ok(plan.summary.tensors > 0 && plan.summary.tensors <= total);
    const { failed } = await applyToFleet(repository, plan);
    assert.ok(failed.length > 0 && failed.length < total / 2, `${failed.length} failed`);
    for (const { code } of failed)
      assert.match(code, /OBJECT_HASH_MISMATCH|DELTA_MALFORMED|PACK_CORRUPT|TENSOR_SIZE_MISMATCH/);
    await repository.close();
    await home.close();
  });
  it("reports damaged tensors, and stores the rest", async (context) => {
    const home = await openNodeHome(join(await temporaryFolder(context), "home"));
    const first = await openRepository(home, "fleet-a");
    const models = testFleetModels();
    const ids = await saveModels(first, models);
    const plan = await planFleet(first, { ratio: null });
    await first.close();
    const folder = join(home.path, "fleets", "fleet-a", "packs");
    const packs = (await readdir(folder)).filter((name) => name.endsWith(".pack")).sort();
    const damaged = join(folder, packs[0]!);
    const bytes = await readFile(damaged);
    bytes[500] = bytes[500]! ^ 1;
    await writeFile(damaged, bytes);
    const repository = await openRepository(home, "fleet-a");
    const report = await applyToFleet(repository, plan);
    assert.ok(
      report.failed.length >= 1 && report.failed.every(({ code }) => code === "OBJECT_HASH_MISMATCH"),
      JSON.stringify(report.failed),
    );
    assert.ok(report.rewritten > 10);
    const again = await planFleet(repository, { ratio: null });
    assert.ok(
      again.summary.versions >= 3 && again.summary.tensors > 20,
      "what is damaged keeps nobody from planning the rest",
    );
    const intact = [];
    for (const model of models) {
      // The one damaged tensor belongs to some of the models.
      const isIntact = await alteredModels(repository, [model], ids).then(
        (altered) => altered.length === 0,
        (error: unknown) => {
          assert.match(
            String((error as { code?: string }).code),
            /ROOT_MISMATCH|RECOVERY_INCOMPLETE|OBJECT_HASH_MISMATCH/,
          );
          return false;
        },
      );
      if (isIntact) intact.push(model.name);
    }
    assert.ok(intact.length >= 3, intact.join());
    await repository.close();
    await home.close();
  });
});
