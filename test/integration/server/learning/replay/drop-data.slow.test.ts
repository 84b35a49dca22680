/** Stored data of proved versions whose policy keeps their tensors: they go, and the versions stay whole and say so. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { dropDataByPolicy } from "../../../../../server/learning/replay/drop-data-by-policy.js";
import { ReplayJobs } from "../../../../../server/learning/replay/replay-jobs.js";
import {
  trainedHome,
  withFleet,
  type OpenedFleet,
} from "../../../../fault/server/learning/replay/dropped-fleet.js";

const fleet = "cars";
const scope = { of: "fleet" } as const;
const policy = { afterDays: null, maxMinutes: 10, dataAfterDays: 0 };

describe("data dropped by policy", () => {
  let trained: Awaited<ReturnType<typeof trainedHome>>;
  const inFleet = <T>(work: (opened: OpenedFleet) => Promise<T>): Promise<T> => withFleet(trained.path, work);
  const apply = async ({ operations }: OpenedFleet, dryRun = false) => {
    const { data } = await operations.applyDropPolicies({ fleet, dryRun });
    assert.ok(data !== undefined);
    return data;
  };
  const collect = async ({ repository }: OpenedFleet): Promise<number> =>
    (await repository.collect(await repository.planCollection())).freedBytes;

  before(async () => {
    trained = await trainedHome();
    await inFleet(async ({ operations }) => {
      await operations.pushDataset({ fleet, name: "table" });
      for (const model of ["sums:1", "sums:2"])
        assert.equal((await operations.replay({ fleet, model })).verdict, "proved");
    });
  });
  after(async () => {
    await trained.remove();
  });

  it("takes no policy that would drop tensors and data", () =>
    inFleet(async ({ operations }) => {
      await assert.rejects(operations.setDropPolicy({ fleet, scope, policy: { ...policy, afterDays: 1 } }), {
        code: "USAGE",
      });
      await operations.setDropPolicy({ fleet, scope, policy });
      assert.deepEqual((await operations.dropPolicies({ fleet }))[0]?.policy, policy);
    }));

  it("keeps data that are registered, or that another version needs", () =>
    inFleet(async (opened) => {
      const { operations, repository } = opened;
      const registered = await apply(opened);
      assert.deepEqual(registered.dropped, []);
      assert.match(registered.kept[0]?.because ?? "", /registered as table/);
      assert.match(registered.kept[2]?.because ?? "", /no replay/);
      await operations.removeDataset({ fleet, name: "table", evenIfUsed: true });
      await operations.hold({ fleet, model: "sums:2", held: true, because: "incident" });
      await operations.queueReplay({ fleet, model: "sums:1" });
      const queued = await apply(opened);
      assert.deepEqual(queued.dropped, []);
      assert.match(queued.kept[0]?.because ?? "", /replay of it is queued/);
      await operations.cancelReplay({ fleet, model: "sums:1" });
      const dry = await apply(opened, true);
      assert.deepEqual(
        dry.dropped.map(({ version, freedBytes }) => [version, freedBytes]),
        [[1, 0]],
      );
      assert.equal(repository.resolve("sums:1").dataDropped, undefined, "a dry run changes nothing");
      assert.ok((dry.dropped[0]?.dataBytes ?? 0) > 0);
      assert.equal((await apply(opened)).dropped.length, 1);
      await collect(opened);
      assert.equal((await operations.replay({ fleet, model: "sums:2" })).verdict, "proved");
      assert.match(
        repository.resolve("sums:1").dataDropped?.because ?? "",
        /policy of the fleet: data after 0/,
      );
      const { kept } = await operations.dropTensors({ fleet, models: ["sums:1"] });
      assert.match(kept[0]?.because ?? "", /data of its training were dropped/);
    }));

  it("keeps those of a version whose replay is queued after it was chosen", () =>
    inFleet(async ({ operations, repository, home }) => {
      await operations.hold({ fleet, model: "sums:2", held: false, because: "over" });
      const chosen: FleetRepository = {
        ...repository,
        confirmStored: async (versionId) => {
          await operations.queueReplay({ fleet, model: versionId });
          return await repository.confirmStored(versionId);
        },
      };
      const replays = new ReplayJobs(home, fleet);
      const report = await dropDataByPolicy(chosen, { nowMs: Date.now(), replays, isDry: false });
      assert.deepEqual(report?.dropped, []);
      const second = report.kept.find(({ version }) => version === 2);
      assert.match(second?.because ?? "", /replay of it is queued/);
      assert.equal(repository.resolve("sums:2").dataDropped, undefined);
      await operations.cancelReplay({ fleet, model: "sums:2" });
    }));

  it("frees them with the last version that needs them, which stay whole", () =>
    inFleet(async (opened) => {
      const { operations, repository } = opened;
      assert.equal((await operations.replay({ fleet, model: "sums:3" })).verdict, "proved");
      const { dropped, freedBytes } = await apply(opened);
      assert.deepEqual(
        dropped.map(({ version }) => version),
        [2, 3],
      );
      assert.ok(freedBytes > 0);
      assert.ok((await collect(opened)) >= freedBytes);
      assert.deepEqual((await repository.check()).problems, []);
      for (const { record, versionId } of repository.versions()) {
        await operations.verify({ fleet, model: versionId });
        assert.equal((await repository.recover(versionId)).verifiedRoot, record.root);
      }
      assert.deepEqual((await apply(opened)).dropped, []);
    }));

  it("says so after a restart, and replays again once the same data are stored", () =>
    inFleet(async ({ operations, repository }) => {
      const replayed = await operations.replay({ fleet, model: "sums:1" });
      assert.deepEqual([replayed.verdict, replayed.reason], ["unreplayable", "data-missing"]);
      assert.match(replayed.text, /were dropped .*policy of the fleet/);
      assert.equal(repository.resolve("sums:1").replayed?.verdict, "proved", "what was proved stays so");
      const explained = await operations.explainRecovery({ fleet, model: "sums:1" });
      assert.equal(explained.replay.isPossible, false);
      const location = trained.path.replace(/home$/, "table.csv");
      const parameters = { targets: "sum,large", ignored: "class", scaling: "standard" };
      await operations.addDataset({ fleet, name: "again", kind: "csv", location, parameters });
      await operations.pushDataset({ fleet, name: "again" });
      assert.equal((await operations.replay({ fleet, model: "sums:1" })).verdict, "proved");
    }));
});
