/** Tensors dropped by a policy, and recoveries of them that are listed, cancelled, or left by all who wait. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { ReplayJob } from "../../../../../server/interface/api/models/replay-schemas.js";
import { fleet, hasCode, TrainedChain } from "./trained-chain.js";

describe("dropped tensors", () => {
  let chain: TrainedChain;
  before(async () => {
    chain = await TrainedChain.train();
  });
  after(() => chain.remove());

  it("are dropped by a policy where they were proved, by the narrowest scope", async () => {
    const policy = { afterDays: 0, maxMinutes: 10 };
    const dry = async (): Promise<readonly number[]> =>
      (await chain.operations.applyDropPolicies({ fleet, dryRun: true })).dropped.map((one) => one.version);
    await chain.operations.setDropPolicy({ fleet, scope: { of: "fleet" }, policy });
    assert.deepEqual(await dry(), [], "nothing is proved, and a policy proves nothing");
    for (const model of ["soh:1", "soh:2"])
      assert.equal((await chain.operations.replay({ fleet, model })).verdict, "proved");
    assert.deepEqual(await dry(), [1, 2]);
    const scope = { of: "name", name: "soh" } as const;
    await chain.operations.setDropPolicy({ fleet, scope, policy: { ...policy, afterDays: null } });
    assert.deepEqual(await dry(), [], "its name keeps them");
    await chain.operations.setDropPolicy({ fleet, scope, policy: { ...policy, afterDays: 1 } });
    assert.deepEqual(await dry(), [], "they are younger");
    await chain.operations.setDropPolicy({ fleet, scope, policy: null });
    await assert.rejects(
      chain.operations.setDropPolicy({ fleet, scope, policy: null }),
      hasCode("NOT_FOUND"),
    );
    await chain.close();
    await chain.open();
    assert.deepEqual(
      (await chain.operations.dropPolicies({ fleet })).map((one) => [one.scope.of, one.policy]),
      [["fleet", policy]],
    );
    const { dropped } = await chain.operations.applyDropPolicies({ fleet });
    assert.deepEqual(
      dropped.map((one) => [one.version, chain.version(`soh:${one.version}`).dropped?.because]),
      [1, 2].map((number) => [number, "policy of the fleet: after 0 days"]),
    );
    for (const model of ["soh:1", "soh:2"]) await chain.operations.keepTensors({ fleet, model });
    await chain.operations.setDropPolicy({ fleet, scope: { of: "fleet" }, policy: null });
  });

  it("are dropped together", async () => {
    const { dropped } = await chain.operations.dropTensors({ fleet });
    assert.deepEqual(
      dropped.map((one) => one.version),
      [1, 2],
    );
    await chain.collectAfresh();
    assert.deepEqual(await Promise.all(["soh:1", "soh:2"].map((name) => chain.storedOf(name))), [0, 0]);
  });

  it("gives every door the model, or a refusal that says what to do", async () => {
    const { versionId } = chain.version("soh:1");
    await chain.operations.verify({ fleet, model: "soh:1" });
    await chain.operations.diff({ fleet, a: "soh:1", b: "soh:2" });
    await assert.rejects(
      chain.repository.append({ type: "assigned", atMs: 0, device: "none", line: "soh", versionId }),
      hasCode("DEVICE_UNKNOWN"),
    );
    await assert.rejects(chain.operations.retire({ fleet, model: "soh:1" }), hasCode("MODEL_IN_USE"));
    await assert.rejects(
      chain.operations.redact({ fleet, model: "soh:2", because: "asked" }),
      hasCode("NOT_ALLOWED"),
    );
    const [engine] = chain.repository.engines();
    assert.ok(engine !== undefined);
    await assert.rejects(
      chain.operations.removeEngine({ fleet, engine: engine.engineId }),
      hasCode("ENGINE_IN_USE"),
    );
    const { problems, replayed } = await chain.operations.check({ fleet, replay: 1 });
    assert.deepEqual([problems, replayed], [[], 1]);
  });

  it("stops a recovery when all who wait for it have left, and recovers the next time", async () => {
    await chain.collectAfresh();
    const { versionId } = chain.version("soh:2");
    const [one, two] = [new AbortController(), new AbortController()];
    const first = chain.repository.ensureTensors(versionId, one.signal);
    const second = chain.repository.ensureTensors(versionId, two.signal);
    one.abort();
    await assert.rejects(first, hasCode("TRAINING_STOPPED"));
    two.abort();
    await assert.rejects(second, hasCode("TRAINING_STOPPED"));
    await chain.repository.ensureTensors(versionId);
    assert.ok((await chain.storedOf("soh:2")) > 0);
  });

  it("lists recoveries with their progress, and ends them where somebody cancels", async () => {
    await chain.collectAfresh();
    const listed = async (): Promise<readonly ReplayJob[]> =>
      (await chain.operations.replays({ fleet })).filter(({ kind }) => kind === "recovery");
    const until = async (number: number, isSo: (job: ReplayJob) => boolean): Promise<ReplayJob> => {
      for (let wasSeen = false; ;) {
        const job = (await listed()).find(({ version: each }) => each === number);
        if (job !== undefined && isSo(job)) return job;
        assert.ok(job !== undefined || !wasSeen, "it ended before that was seen");
        wasSeen ||= job !== undefined;
        await new Promise(setImmediate);
      }
    };
    const one = chain.repository.ensureTensors(chain.version("soh:1").versionId);
    const two = chain.repository.ensureTensors(chain.version("soh:2").versionId);
    const cancelled = [one, two].map((each) => assert.rejects(each, hasCode("RECOVERY_CANCELLED")));
    const training = await until(1, ({ progress }) => !["prepare", undefined].includes(progress?.phase));
    assert.equal(training.state, "running");
    const waiting = await until(2, () => true);
    assert.deepEqual([waiting.state, waiting.waitsFor?.version], ["waiting", 1]);
    assert.equal((await chain.operations.cancelReplay({ fleet, model: "soh:1" })).state, "cancelled");
    await Promise.all(cancelled);
    assert.deepEqual(await listed(), []);
    await assert.rejects(chain.operations.cancelReplay({ fleet, model: "soh:1" }), hasCode("NOT_FOUND"));

    const again = chain.repository.ensureTensors(chain.version("soh:2").versionId);
    const refused = assert.rejects(again, hasCode("RECOVERY_CANCELLED"));
    await until(1, ({ state }) => state === "running");
    await chain.operations.cancelReplay({ fleet, model: "soh:2" });
    await refused;
    // Nobody else waited for its base, so that is not trained either.
    while ((await listed()).length > 0) await new Promise(setImmediate);
    assert.equal(await chain.storedOf("soh:1"), 0);
    await chain.repository.ensureTensors(chain.version("soh:2").versionId);
    assert.ok((await chain.storedOf("soh:2")) > 0);
  });

  it("stores tensors again", async () => {
    await chain.operations.keepTensors({ fleet, model: "soh:1" });
    assert.equal(chain.version("soh:1").dropped, undefined);
    await chain.collectAfresh();
    assert.equal(await chain.storedOf("soh:1"), (await chain.tensorsOf("soh:1")).length);
    assert.equal(await chain.storedOf("soh:2"), 0);
    const { verifiedRoot, record } = await chain.repository.recover(chain.version("soh:2").versionId);
    assert.equal(verifiedRoot, record.root);
  });
});
