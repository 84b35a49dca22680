/** Versions whose tensors were dropped: they come back bit for bit by replays of their chain, or not at all. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { ReplayJob } from "../../../../server/api/replay-schemas.js";
import type { ServerOperations } from "../../../../server/api/server-operations.js";
import { openFleets, type OpenFleets } from "../../../../server/context/open-fleets.js";
import { localOperations } from "../../../../server/operations/local-operations.js";
import { rebuildVersion } from "../../../../server/replay/rebuild-on-demand.js";
import type { VersionSummary } from "../../../../server/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../../server/repository/fleet-repository.js";
import type { Home } from "../../../../server/repository/home.js";
import { openNodeHome } from "../../../../server/repository/node-home.js";
import { isStemmaError } from "../../../../shared/errors.js";
import type { ErrorCode } from "../../../../shared/errors.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

const fleet = "cars";
const hasCode =
  (code: ErrorCode) =>
  (error: unknown): boolean =>
    isStemmaError(error, code);

describe("dropped tensors", () => {
  let path: string;
  let home: Home;
  let fleets: OpenFleets;
  let operations: ServerOperations;
  let repository: FleetRepository;
  const open = async (): Promise<void> => {
    home = await openNodeHome(path);
    fleets = openFleets(home, rebuildVersion);
    operations = localOperations({ home, fleets, version: "test" });
    repository = await fleets.get(fleet, { create: true });
  };
  const close = async (): Promise<void> => {
    await fleets.close();
    await home.close();
  };
  const version = (name: string): VersionSummary => repository.resolve(name);
  const tensorsOf = async (name: string): Promise<readonly Hash[]> =>
    (await repository.leaves(version(name).versionId)).map(({ tensor }) => tensor);
  const storedOf = async (name: string): Promise<number> =>
    (await tensorsOf(name)).filter((tensor) => repository.objects.has(tensor)).length;
  const collect = async (): Promise<void> => {
    await repository.collect(await repository.planCollection());
  };
  /** Opened again, so that no lease of a recovery protects anything. */
  const collectAfresh = async (): Promise<void> => {
    await close();
    await open();
    await collect();
  };

  before(async () => {
    path = await mkdtemp(join(tmpdir(), "stemma-drop-"));
    await open();
    await operations.addDataset({
      fleet,
      name: "cells",
      kind: "battery-simulated",
      location: "",
      parameters: { vehicle: 1 },
    });
    const training = { fleet, recipe: "battery-soh", data: "cells", name: "soh", parameters: { epochs: 1 } };
    await operations.train({ ...training, seed: "7" });
    await operations.train({ ...training, seed: "8", base: "soh:1" });
    await operations.train({ ...training, seed: "9", base: "soh:2" });
  });
  after(async () => {
    await close();
    await rm(path, { recursive: true, force: true });
  });

  it("says what it would do and changes nothing", async () => {
    const report = await operations.dropTensors({ fleet, dryRun: true });
    assert.deepEqual(
      report.dropped.map(({ version: number, isProved }) => [number, isProved]),
      [
        [1, false],
        [2, false],
      ],
    );
    assert.equal(version("soh:1").dropped, undefined);
  });

  it("keeps what is needed, whatever is asked for", async () => {
    const { kept } = await operations.dropTensors({ fleet, models: ["soh:3"] });
    assert.match(kept[0]?.because ?? "", /newest/);
    await operations.tag({ fleet, model: "soh:2", tag: "good" });
    assert.equal((await operations.dropTensors({ fleet, models: ["soh:2"] })).dropped.length, 0);
    await operations.tag({ fleet, model: "soh:2", tag: "good", remove: true });
    const { dropped } = await operations.dropTensors({ fleet, models: ["soh:2"], maxMinutes: 0.000_01 });
    assert.equal(dropped.length, 0);
  });

  it("are dropped by a policy where they were proved, by the narrowest scope", async () => {
    const policy = { afterDays: 0, maxMinutes: 10 };
    const dry = async (): Promise<readonly number[]> =>
      (await operations.applyDropPolicies({ fleet, dryRun: true })).dropped.map((one) => one.version);
    await operations.setDropPolicy({ fleet, scope: { of: "fleet" }, policy });
    assert.deepEqual(await dry(), [], "nothing is proved, and a policy proves nothing");
    for (const model of ["soh:1", "soh:2"])
      assert.equal((await operations.replay({ fleet, model })).verdict, "proved");
    assert.deepEqual(await dry(), [1, 2]);
    const scope = { of: "name", name: "soh" } as const;
    await operations.setDropPolicy({ fleet, scope, policy: { ...policy, afterDays: null } });
    assert.deepEqual(await dry(), [], "its name keeps them");
    await operations.setDropPolicy({ fleet, scope, policy: { ...policy, afterDays: 1 } });
    assert.deepEqual(await dry(), [], "they are younger");
    await operations.setDropPolicy({ fleet, scope, policy: null });
    await assert.rejects(operations.setDropPolicy({ fleet, scope, policy: null }), hasCode("NOT_FOUND"));
    await close();
    await open();
    assert.deepEqual(
      (await operations.dropPolicies({ fleet })).map((one) => [one.scope.of, one.policy]),
      [["fleet", policy]],
    );
    const { dropped } = await operations.applyDropPolicies({ fleet });
    assert.deepEqual(
      dropped.map((one) => [one.version, version(`soh:${one.version}`).dropped?.because]),
      [1, 2].map((number) => [number, "policy of the fleet: after 0 days"]),
    );
    for (const model of ["soh:1", "soh:2"]) await operations.keepTensors({ fleet, model });
    await operations.setDropPolicy({ fleet, scope: { of: "fleet" }, policy: null });
  });

  it("proves, drops and frees a chain, and recovers every generation of it", async () => {
    const roots = new Map<string, Hash>();
    for (const name of ["soh:1", "soh:2"])
      roots.set(name, (await repository.recover(version(name).versionId)).verifiedRoot);
    const { dropped } = await operations.dropTensors({ fleet });
    assert.deepEqual(
      dropped.map((one) => one.version),
      [1, 2],
    );
    assert.ok((dropped[1]?.recoveryMs ?? 0) > (dropped[0]?.recoveryMs ?? 0));
    assert.ok(["soh:1", "soh:2"].every((name) => version(name).state === "stored"));
    await collectAfresh();
    for (const name of roots.keys()) assert.equal(await storedOf(name), 0, name);
    assert.ok((await storedOf("soh:3")) > 0);
    assert.deepEqual((await repository.check()).problems, []);
    const stats = await operations.stats({ fleet });
    assert.deepEqual(stats.dropped, {
      versions: 2,
      tensorBytes: dropped.reduce((sum, { tensorBytes }) => sum + tensorBytes, 0),
    });
    const explained = await operations.explainRecovery({ fleet, model: "soh:2" });
    assert.equal(explained.from, "replay");
    assert.deepEqual(
      explained.trainings.map((one) => one.version),
      [1, 2],
    );
    assert.ok(explained.predictedMs >= (dropped[1]?.recoveryMs ?? 0));

    const both = ["soh:2", "soh:2", "soh:1"].map(async (name) => repository.recover(version(name).versionId));
    for (const model of await Promise.all(both)) assert.equal(model.verifiedRoot, model.record.root);
    for (const [name, root] of roots)
      assert.equal((await repository.recover(version(name).versionId)).verifiedRoot, root);
    // Protected by the recovery; gone with the next collection of another process.
    await collect();
    assert.ok((await storedOf("soh:2")) > 0);
    await collectAfresh();
    assert.equal(await storedOf("soh:2"), 0);
  });

  it("gives every door the model, or a refusal that says what to do", async () => {
    const { versionId } = version("soh:1");
    await operations.verify({ fleet, model: "soh:1" });
    await operations.diff({ fleet, a: "soh:1", b: "soh:2" });
    await assert.rejects(
      repository.append({ type: "assigned", atMs: 0, device: "none", line: "soh", versionId }),
      hasCode("DEVICE_UNKNOWN"),
    );
    await assert.rejects(operations.retire({ fleet, model: "soh:1" }), hasCode("MODEL_IN_USE"));
    await assert.rejects(
      operations.redact({ fleet, model: "soh:2", because: "asked" }),
      hasCode("NOT_ALLOWED"),
    );
    const [engine] = repository.engines();
    assert.ok(engine !== undefined);
    await assert.rejects(
      operations.removeEngine({ fleet, engine: engine.engineId }),
      hasCode("ENGINE_IN_USE"),
    );
    const { problems, replayed } = await operations.check({ fleet, replay: 1 });
    assert.deepEqual([problems, replayed], [[], 1]);
  });

  it("refuses to recover without a program that can train", async () => {
    await collectAfresh();
    await close();
    home = await openNodeHome(path);
    fleets = openFleets(home);
    repository = await fleets.get(fleet);
    await assert.rejects(repository.recover(version("soh:2").versionId), hasCode("MODEL_DROPPED"));
    await close();
    await open();
  });

  it("stops a recovery when all who wait for it have left, and recovers the next time", async () => {
    const { versionId } = version("soh:2");
    const [one, two] = [new AbortController(), new AbortController()];
    const first = repository.ensureTensors(versionId, one.signal);
    const second = repository.ensureTensors(versionId, two.signal);
    one.abort();
    await assert.rejects(first, hasCode("TRAINING_STOPPED"));
    two.abort();
    await assert.rejects(second, hasCode("TRAINING_STOPPED"));
    await repository.ensureTensors(versionId);
    assert.ok((await storedOf("soh:2")) > 0);
  });

  it("lists recoveries with their progress, and ends them where somebody cancels", async () => {
    await collectAfresh();
    const listed = async (): Promise<readonly ReplayJob[]> =>
      (await operations.replays({ fleet })).filter(({ kind }) => kind === "recovery");
    const until = async (number: number, isSo: (job: ReplayJob) => boolean): Promise<ReplayJob> => {
      for (let wasSeen = false; ;) {
        const job = (await listed()).find(({ version: each }) => each === number);
        if (job !== undefined && isSo(job)) return job;
        assert.ok(job !== undefined || !wasSeen, "it ended before that was seen");
        wasSeen ||= job !== undefined;
        await new Promise(setImmediate);
      }
    };
    const one = repository.ensureTensors(version("soh:1").versionId);
    const two = repository.ensureTensors(version("soh:2").versionId);
    const cancelled = [one, two].map((each) => assert.rejects(each, hasCode("RECOVERY_CANCELLED")));
    const training = await until(1, ({ progress }) => !["prepare", undefined].includes(progress?.phase));
    assert.equal(training.state, "running");
    const waiting = await until(2, () => true);
    assert.deepEqual([waiting.state, waiting.waitsFor?.version], ["waiting", 1]);
    assert.equal((await operations.cancelReplay({ fleet, model: "soh:1" })).state, "cancelled");
    await Promise.all(cancelled);
    assert.deepEqual(await listed(), []);
    await assert.rejects(operations.cancelReplay({ fleet, model: "soh:1" }), hasCode("NOT_FOUND"));

    const again = repository.ensureTensors(version("soh:2").versionId);
    const refused = assert.rejects(again, hasCode("RECOVERY_CANCELLED"));
    await until(1, ({ state }) => state === "running");
    await operations.cancelReplay({ fleet, model: "soh:2" });
    await refused;
    // Nobody else waited for its base, so that is not trained either.
    while ((await listed()).length > 0) await new Promise(setImmediate);
    assert.equal(await storedOf("soh:1"), 0);
    await repository.ensureTensors(version("soh:2").versionId);
    assert.ok((await storedOf("soh:2")) > 0);
  });

  it("stores tensors again", async () => {
    await operations.keepTensors({ fleet, model: "soh:1" });
    assert.equal(version("soh:1").dropped, undefined);
    await collectAfresh();
    assert.equal(await storedOf("soh:1"), (await tensorsOf("soh:1")).length);
    assert.equal(await storedOf("soh:2"), 0);
    const { verifiedRoot, record } = await repository.recover(version("soh:2").versionId);
    assert.equal(verifiedRoot, record.root);
  });
});
