/** Replays of changed stories, of other seeds, data and counts, that are queued, stopped or killed. */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { ReplayRunner } from "../../../../../server/learning/replay/replay-runner.js";
import { isStemmaError, StemmaError } from "../../../../../shared/errors.js";
import { opaqueModelSource } from "../../../../../shared/save/model-source.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { Claims, fleet, ReplayedFleet, runnerParts, type Lie } from "./replayed-fleet.js";

describe("a replay", () => {
  let trained: ReplayedFleet;
  before(async () => {
    trained = await ReplayedFleet.train();
  });
  after(() => trained.remove());

  it("refutes another seed, other data and other counts, naming what differs", async () => {
    const seeded = await trained.saveLie("seed", {
      committed: (all) => ({ ...all, random: { ...(all["random"] as object), seed: "9" } }),
    });
    const otherSeed = await trained.replay(seeded);
    assert.deepEqual([otherSeed.verdict, otherSeed.grade], ["refuted", "different"]);
    assert.ok((otherSeed.difference?.tensors ?? 0) > 1);

    await trained.operations.addDataset({
      fleet,
      name: "others",
      kind: "battery-simulated",
      location: "",
      parameters: { vehicle: 2 },
    });
    const { hash } = (await trained.operations.datasets({ fleet })).find(({ name }) => name === "others")!;
    const otherData = await trained.replay(
      await trained.saveLie("others", {
        plain: { data: [hash as Hash] },
        committed: (all) => ({ ...all, data: [{ reader: "battery-simulated", parameters: { vehicle: 2 } }] }),
      }),
    );
    assert.deepEqual([otherData.verdict, otherData.grade], ["refuted", "different"]);

    const counted = await trained.saveLie("counts", {
      committed: (all) => ({ ...all, course: { ...(all["course"] as object), iterations: 1 } }),
    });
    const otherCount = await trained.replay(counted);
    assert.deepEqual([otherCount.verdict, otherCount.grade], ["refuted", "bit-exact"]);
    assert.deepEqual(otherCount.members, ["course.iterations"]);
    assert.equal((await trained.operations.model({ fleet, model: counted })).replayed?.verdict, "refuted");
  });

  it("replays a changed story into a version whose record tells what was changed (ME2)", async () => {
    const set = { "trainer.epochs": 2 };
    const report = await trained.operations.replayChanged({ fleet, model: "soh:2", name: "longer", set });
    assert.deepEqual(report.changes, [{ parameter: "epochs", before: 1, after: 2 }]);
    assert.deepEqual(report.summary.record.bases, trained.repository.resolve("soh:2").record.bases);
    const { provenance } = await trained.operations.diff({ fleet, a: "soh:2", b: "longer:1" });
    assert.deepEqual(provenance?.differences["parameters"], { epochs: { value: { a: 1, b: 2 } } });
    const made = await trained.operations.model({ fleet, model: "longer" });
    assert.deepEqual((made.provenance as { notes?: unknown }).notes, {
      "replay.of": trained.repository.resolve("soh:2").versionId,
      "replay.changed": "epochs: 1 → 2",
    });
    assert.equal(
      (await trained.replay("longer:1")).verdict,
      "proved",
      "the new story is a story like any other",
    );
    for (const wrong of [{}, { "trainer.epoch": 2 }, { epochs: "many" }, { epochs: 1 }, { toString: 1 }])
      await assert.rejects(
        trained.operations.replayChanged({ fleet, model: "soh:2", name: "wrong", set: wrong }),
        {
          code: "RECIPE_PARAMETERS_INVALID",
          message: /epochs=1, /,
        },
      );
    await assert.rejects(
      trained.operations.replayChanged({ fleet, model: "soh:2", name: "wrong", set: { epochs: 0 } }),
      {
        code: "REPLAY_INCOMPLETE",
      },
    );
    assert.deepEqual(trained.repository.versions({ name: "wrong" }), []);
  });

  it("refuses what takes too long by its record", async () => {
    const times = (workMs: number): Lie => ({
      committed: (all) => ({ ...all, times: { endedAtMs: 1, workMs } }),
    });
    const long = await trained.saveLie("long", times(7 * 60_000));
    for (const ask of [
      () => trained.operations.replay({ fleet, model: long, maxMinutes: 5 }),
      () => trained.operations.queueReplay({ fleet, model: long, maxMinutes: 5 }),
      () => trained.operations.replayChanged({ fleet, model: long, name: "x", set: { epochs: 100 } }),
    ])
      await assert.rejects(ask(), { code: "REPLAY_TOO_LONG", message: /--max-minutes/ });
    assert.equal((await trained.replay(long)).verdict, "proved", "an hour is allowed");
  });

  it("ends when it is stopped, and leaves nothing in the work folder", async () => {
    const stop = new AbortController();
    const ends = [1, 2].map(() =>
      trained.operations
        .replay({ fleet, model: "soh:2" }, { signal: stop.signal })
        .then(() => "done")
        .catch((error: unknown) => {
          if (!isStemmaError(error)) return String(error);
          if (error.code === "QUOTA_EXCEEDED") assert.match(error.message, /--detach/);
          return error.code;
        }),
    );
    assert.equal(await Promise.race(ends), "QUOTA_EXCEEDED");
    stop.abort();
    assert.deepEqual((await Promise.all(ends)).sort(), ["QUOTA_EXCEEDED", "TRAINING_STOPPED"]);
    assert.equal((await trained.replay("soh:2")).verdict, "proved");
  });

  it("runs what is queued, also after a kill, and nothing twice", async () => {
    await trained.repository.save(opaqueModelSource([]), { name: "empty" });
    const runner = (): ReplayRunner =>
      new ReplayRunner({ ...runnerParts(trained.home), home: trained.home, fleets: trained.fleets });
    const states = async (): Promise<readonly (readonly [string, string | undefined])[]> =>
      (await trained.operations.replays({ fleet })).map(({ name, state, report }) => [
        name,
        report?.verdict ?? state,
      ]);
    await trained.operations.queueReplay({ fleet, model: "soh:2" });
    await trained.operations.queueReplay({ fleet, model: "empty", priority: 9 });
    const stopped = runner();
    stopped.wake();
    await stopped.close();
    await trained.close();
    await trained.open();
    const queueFile = join(trained.home.fleetFolder(fleet), "replays.json");
    const beforeRun = await readFile(queueFile);
    assert.equal((await trained.operations.replays({ fleet })).at(-1)?.state, "waiting");
    const first = runner();
    first.wake();
    await first.idle();
    assert.deepEqual(await states(), [
      ["soh", "proved"],
      ["empty", "unreplayable"],
    ]);

    // Killed after the verdict was written, before the queue was.
    await writeFile(queueFile, beforeRun);
    const { length } = trained.repository.journal.head();
    const second = runner();
    second.wake();
    await second.idle();
    assert.deepEqual((await states())[0], ["soh", "proved"]);
    assert.equal(trained.repository.journal.head().length, length, "the replay ran twice");

    await trained.operations.queueReplay({ fleet, model: "soh:2" });
    assert.equal((await trained.operations.cancelReplay({ fleet, model: "soh:2" })).state, "cancelled");
    await assert.rejects(trained.operations.cancelReplay({ fleet, model: "soh:2" }), { code: "NOT_FOUND" });
    assert.deepEqual((await states())[0], ["soh", "cancelled"]);
  });

  describe("of a claim", () => {
    let claims: Claims;
    before(async () => {
      claims = await Claims.open(trained);
    });
    after(() => claims.close());

    it("goes on after a kill in any state, and proves it once", async () => {
      const versionId = await claims.claim("soh:2");
      // Killed in the training.
      const { rules } = runnerParts(claims.home);
      const inTraining: ReplayRunner = claims.runner({
        rules: Object.assign(rules, {
          maxMs: () => {
            void inTraining.close();
            return 600_000;
          },
        }),
      });
      await claims.run(inTraining);
      assert.equal(claims.repository.claim(versionId)?.ended, undefined);
      // Killed between the tensors and the fact of the proof.
      await claims.run(
        claims.runner({ proveClaim: () => Promise.reject(new StemmaError("STORE_FAILED", "killed")) }),
      );
      assert.deepEqual(await claims.factsOf(versionId), ["recorded"]);
      // Killed between the fact and what the device is told.
      await claims.run(
        claims.runner({ fleetOf: () => Promise.reject(new StemmaError("STORE_FAILED", "killed")) }),
      );
      await claims.run();
      assert.deepEqual(await claims.factsOf(versionId), ["recorded", "proved", "recorded"]);
      assert.equal((await claims.repository.confirmStored(versionId)).state, "stored");
    });
  });
});
