/**
 * A disk that fails or is full at the n-th operation, for every n of a home's life: the operation fails with
 * a typed error, everything acknowledged before stays, and the home continues once the disk works again.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isStemmaError } from "../../../../../shared/errors.js";
import { failNth, faultyFiles, type Fault } from "../../../../helpers/files/faulty-files.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import type { Files } from "../../../../../shared/ports.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { restoreBackup } from "../../../../../server/storage/repository/backup/restore.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";
import { depth } from "../../../../helpers/test-depth.js";
import { testSeed } from "../../../../helpers/crash-states.js";
import {
  fineTuned,
  sameTensors,
  tensorsOf,
  unhashedModelOf,
  type NamedTensor,
} from "../../../../integration/server/storage/repository/harness.js";

const common = tensorsOf("common", 2, 4);
const modelOfSeed = (seed: string): readonly NamedTensor[] => fineTuned(common, seed, 2);
const portsOn = (files: Files, seed: string) => ({
  files,
  clock: manualClock(),
  random: seededRandom(seed),
  environment: { backend: "none" },
});

interface Acknowledged {
  readonly recorded: Map<Hash, string>;
  readonly retired: Set<Hash>;
  retiring: Hash | undefined;
  backup: number;
}

async function work(files: Files, done: Acknowledged): Promise<void> {
  const ports = portsOn(files, "work");
  const home = await openHome("/home", ports);
  const repository = await openRepository(home, "fleet-a");
  try {
    const save = async (model: string, bases: readonly Hash[] = []): Promise<Hash> => {
      const { versionId } = (await repository.save(unhashedModelOf(modelOfSeed(model)), { name: "m", bases }))
        .summary;
      done.recorded.set(versionId, model);
      return versionId;
    };
    const first = await save("a");
    // Both are awaited, whether or not one of them fails.
    const both = await Promise.allSettled([save("b", [first]), save("c", [first])]);
    for (const one of both) if (one.status === "rejected") throw one.reason;
    done.retiring = first;
    await repository.retire(first, "space");
    done.retired.add(first);
    done.backup = (await repository.backup("/backup")).position;
    ports.clock.advance(61_000);
    await repository.collect(await repository.planCollection());
    await save("d");
  } finally {
    await repository.close().catch(() => undefined);
    await home.close();
  }
}

async function verify(files: Files, done: Acknowledged, where: string): Promise<void> {
  const ports = portsOn(files, "verify");
  const home = await openHome("/home", ports);
  const repository = await openRepository(home, "fleet-a");
  assert.deepEqual((await repository.check()).problems, [], where);
  for (const [versionId, model] of done.recorded) {
    const state = repository.get(versionId)?.state;
    assert.ok(state !== undefined, `${where}: ${model} is gone`);
    if (done.retired.has(versionId)) assert.equal(state, "retired", where);
    if (state === "retired") assert.equal(versionId, done.retiring, where);
    else assert.ok(await sameTensors(repository, versionId, modelOfSeed(model)), `${where}: ${model}`);
  }
  const { summary } = await repository.save(unhashedModelOf(modelOfSeed("after")), { name: "m" });
  assert.ok(await sameTensors(repository, summary.versionId, modelOfSeed("after")), where);
  await repository.backup("/backup");
  await repository.close();
  await home.close();
  const [restored] = await restoreBackup("/backup", "/restored", ports);
  assert.ok(restored!.position >= done.backup, where);
}

for (const fault of [
  { code: "EIO" },
  { code: "ENOSPC", writtenShare: 0.5 },
] as const satisfies readonly Fault[]) {
  for (const isPermanent of [false, true]) {
    test(`${fault.code} at every operation${isPermanent ? " and all later ones" : ""}`, async (context) => {
      const step = depth(20, 1);
      const first = testSeed() % step;
      let tried = 0;
      let failed = 0;
      for (let n = first; ; n += step) {
        const files = memoryFiles();
        const done: Acknowledged = {
          recorded: new Map(),
          retired: new Set(),
          retiring: undefined,
          backup: 0,
        };
        const where = `${fault.code} at operation ${n}`;
        let reached = false;
        const plan = failNth(n, fault, { isPermanent });
        try {
          await work(
            faultyFiles(files, (operation) => {
              const found = plan(operation);
              reached ||= found !== undefined;
              return found;
            }),
            done,
          );
        } catch (error) {
          assert.ok(isStemmaError(error), `${where}: ${String(error)}`);
          failed++;
        }
        if (!reached) break;
        tried++;
        await verify(files, done, where);
      }
      context.diagnostic(`${tried} operations from ${first} failed, ${failed} of them seen by the caller`);
      assert.ok(failed > tried / 2);
    });
  }
}
