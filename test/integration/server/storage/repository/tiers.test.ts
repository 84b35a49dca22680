/** Storage tiers of a home: bound to it, guarded against absence, slowness and other homes; backed up and restored. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { applyTier, planTier } from "../../../../../server/storage/archive/tier-application.js";
import { archiveCoder } from "../../../../../server/storage/archive/archive-coder.js";
import { restoreBackup } from "../../../../../server/storage/repository/backup/restore.js";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { GuardedTier } from "../../../../../server/storage/repository/tiers/guarded-tier.js";
import type { StemmaError } from "../../../../../shared/errors.js";
import type { Files } from "../../../../../shared/ports.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { fineTunedFamily } from "../../../../helpers/archive-fleet.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";
import { hasCode } from "../../../../helpers/object-stores.js";
import { modelOf, sameTensors } from "./harness.js";

const models = fineTunedFamily("m", 31, 3);
const idle = (): ReadonlyMap<Hash, string> => new Map();
const measured = { freeBytes: 1e9, usPerByte: 0.01 };

/** A memory disk whose folder /mnt can be unmounted, forbidden, or made to hang. */
function disk(): {
  files: Files;
  memory: ReturnType<typeof memoryFiles>;
  state: { is: "there" | "gone" | "hangs" };
} {
  const memory = memoryFiles();
  const state: { is: "there" | "gone" | "hangs" } = { is: "there" };
  const route = (path: string): string =>
    state.is === "gone" && path.startsWith("/mnt") ? path.replace("/mnt", "/empty") : path;
  const guard = async (path: string): Promise<string> => {
    if (state.is === "hangs" && path.startsWith("/mnt")) await new Promise<never>(() => undefined);
    return route(path);
  };
  const files: Files = {
    ...memory,
    open: async (path, mode) => await memory.open(await guard(path), mode),
    read: async (path) => await memory.read(await guard(path)),
    stat: async (path) => await memory.stat(await guard(path)),
    list: async (path) => await memory.list(await guard(path)),
    remove: async (path) => {
      await memory.remove(await guard(path));
    },
  };
  return { files, memory, state };
}

async function fleetOn(files: Files, home = "/home", seed = home) {
  const clock = manualClock();
  const opened = await openHome(home, { files, clock, random: seededRandom(seed) });
  const repository = await openRepository(opened, "fleet-a");
  return { clock, home: opened, repository };
}

async function moveAll(repository: FleetRepository): Promise<Awaited<ReturnType<typeof applyTier>>> {
  const coder = archiveCoder();
  try {
    return await applyTier(
      { repository, tier: "cold", busy: idle },
      {
        coder,
        clock: { ...manualClock(), after: (_, then) => (setImmediate(then), () => undefined) },
        freeBytes: () => Promise.resolve(1e12),
      },
    );
  } finally {
    await coder.close();
  }
}

async function assertModels(repository: FleetRepository, ids: ReadonlyMap<string, Hash>): Promise<void> {
  for (const { name, tensors } of models)
    assert.ok(await sameTensors(repository, ids.get(name) as Hash, tensors), name);
}

it("moves what no line has as its newest, survives absence, restart, backup and restore, and comes back", async () => {
  const { files, memory, state } = disk();
  await memory.makeFolder("/mnt/cold");
  const { home, repository } = await fleetOn(files);
  // One name, so that all but the last are old.
  const ids = new Map<string, Hash>();
  for (const { name, base, tensors } of models) {
    const bases = base === undefined ? {} : { bases: [ids.get(base) as Hash] };
    const { summary } = await repository.save(modelOf(tensors), { name: "m", ...bases });
    ids.set(name, summary.versionId);
  }
  await home.tiers.add("cold", "/mnt/cold");
  const plan = await planTier({ repository, tier: "cold", busy: idle }, measured);
  assert.equal(plan.nearVersions + plan.versions, models.length);
  const applied = await moveAll(repository);
  assert.deepEqual([applied.failed, applied.stopped], [[], null]);
  assert.ok(plan.nearVersions === 1 && applied.movedTensors === plan.toMove && plan.toMove > 3);
  assert.equal((await repository.stats()).low.tensors, applied.movedTensors);
  await assertModels(repository, ids);

  state.is = "gone";
  const check = await repository.check();
  assert.deepEqual(check.problems, []);
  assert.deepEqual(
    check.notLookedAt?.map(({ tier, objects }) => [tier, objects]),
    [["cold", applied.movedTensors]],
  );
  await assert.rejects(repository.backup("/backup"), hasCode("TIER_UNREACHABLE"));
  const collected = await repository.collect(await repository.planCollection());
  assert.deepEqual(
    collected.tiers?.unreachable.map(({ tier }) => tier),
    ["cold"],
  );
  await repository.close();
  await home.close();

  const again = await fleetOn(files);
  assert.equal((await again.home.tiers.unreachable(1000)).length, 1);
  await assert.rejects(again.repository.tiers.bringBack("cold"), hasCode("TIER_UNREACHABLE"));
  state.is = "there";
  await assertModels(again.repository, ids);
  assert.deepEqual((await again.repository.backup("/backup")).problems, []);
  // The second backup needs no tier.
  state.is = "gone";
  assert.deepEqual((await again.repository.backup("/backup")).problems, []);
  const restored = await restoreBackup("/backup", "/home-2", {
    files,
    clock: manualClock(),
    random: seededRandom("restored"),
  });
  assert.deepEqual(
    restored.flatMap(({ problems }) => problems),
    [],
  );
  const second = await fleetOn(files, "/home-2", "again");
  await assertModels(second.repository, ids);
  state.is = "there";
  await assert.rejects(second.home.tiers.add("cold", "/mnt/cold"), hasCode("TIER_INVALID"));

  assert.equal((await again.repository.tiers.bringBack("cold")).tensors, applied.movedTensors);
  await again.home.tiers.remove("cold");
  assert.deepEqual(await memory.list("/mnt/cold"), []);
  await assertModels(again.repository, ids);
  assert.equal((await again.repository.check()).notLookedAt, undefined);
});

it("refuses folders that cannot be a tier", async () => {
  const { files, memory } = disk();
  for (const folder of ["/mnt/cold", "/mnt/used"]) await memory.makeFolder(folder);
  await memory.makeFolder("/mnt/used/other");
  const { home } = await fleetOn(files);
  await memory.makeFolder("/home/inside");
  for (const folder of ["relative", "/mnt/none", "/mnt/used", "/home/inside", "/"])
    await assert.rejects(home.tiers.add("cold", folder), hasCode("TIER_INVALID"), folder);
  await assert.rejects(home.tiers.add("no/name", "/mnt/cold"), hasCode("NAME_INVALID"));
  await home.tiers.add("cold", "/mnt/cold");
  await assert.rejects(home.tiers.add("cold", "/mnt/used"), hasCode("TIER_INVALID"));
  await assert.rejects(home.tiers.add("again", "/mnt/cold"), hasCode("TIER_INVALID"));
  assert.throws(() => home.tiers.guard("warm"), hasCode("NOT_FOUND"));
  // Its configuration was lost: the folder is another home's for all that this one knows.
  await home.close();
  await memory.remove("/home/tiers.json");
  const { home: forgetful } = await fleetOn(files, "/home", "forgetful");
  await assert.rejects(forgetful.tiers.add("cold", "/mnt/cold"), hasCode("TIER_INVALID"));
});

it("gives up on a disk that hangs, asks it nothing more, and uses it again when it has answered", async () => {
  const { files, memory } = disk();
  await memory.makeFolder("/mnt/cold");
  const { home } = await fleetOn(files);
  await home.tiers.add("cold", "/mnt/cold");
  const clock = manualClock();
  let stats = 0;
  let answer = (): void => undefined;
  const slow: Files = {
    ...memory,
    stat: async (path) => {
      stats++;
      if (stats === 1) await new Promise<void>((resolve) => (answer = resolve));
      return await memory.stat(path);
    },
  };
  const tier = new GuardedTier(home.tiers.guard("cold").known, { files: slow, clock });
  const first = tier.check();
  const waiting = tier.check();
  while (stats === 0) await new Promise(setImmediate);
  clock.advance(60_000);
  await assert.rejects(first, hasCode("TIER_UNREACHABLE"));
  await assert.rejects(waiting, (error: StemmaError) => error.code === "TIER_UNREACHABLE");
  assert.equal(stats, 1, "a disk that hangs was asked again");
  answer();
  await new Promise(setImmediate);
  await tier.check();
});
