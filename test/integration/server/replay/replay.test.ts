/** Replays of true stories, and of stories that lie: other bytes, seed, counts, data or engine. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { ReplayReport } from "../../../../server/api/evaluation-schemas.js";
import type { ServerOperations } from "../../../../server/api/server-operations.js";
import { openFleets, type OpenFleets } from "../../../../server/context/open-fleets.js";
import { defaultTrainingLimits } from "../../../../server/context/training-limits.js";
import { readOpenedProvenance } from "../../../../server/context/opened-provenance.js";
import { localOperations } from "../../../../server/operations/local-operations.js";
import { defaultIngestLimits } from "../../../../server/ingest/limits.js";
import { ClaimRules } from "../../../../server/replay/claim-rules.js";
import { ReplayRunner, type ReplayRunnerParts } from "../../../../server/replay/replay-runner.js";
import type { VersionSummary } from "../../../../server/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../../server/repository/fleet-repository.js";
import type { Home } from "../../../../server/repository/home.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { openNodeHome } from "../../../../server/repository/node-home.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import { objectsOf } from "../../../../shared/model/record-objects.js";
import { decodeTree } from "../../../../shared/model/tree-object.js";
import { makeProvenance } from "../../../../shared/provenance/make-provenance.js";
import type { Provenance } from "../../../../shared/provenance/provenance.js";
import { modelSourceOfTensors, opaqueModelSource } from "../../../../shared/save/model-source.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { copiedTensors } from "../../../helpers/copied-tensors.js";

const fleet = "cars";

interface Lie {
  readonly plain?: Partial<Provenance>;
  /** Changes the committed members; undefined removes one. */
  readonly committed?: (members: Record<string, unknown>) => Record<string, unknown>;
  /** Flips a bit of this tensor. */
  readonly flipped?: number;
}

describe("a replay", () => {
  let path: string;
  let home: Home;
  let fleets: OpenFleets;
  let operations: ServerOperations;
  let repository: FleetRepository;
  const open = async (): Promise<void> => {
    home = await openNodeHome(path);
    fleets = openFleets(home);
    operations = localOperations({ home, fleets, version: "test" });
    repository = await fleets.get(fleet, { create: true });
  };
  const close = async (): Promise<void> => {
    await fleets.close();
    await home.close();
  };
  const replay = (model: string): Promise<ReplayReport> => operations.replay({ fleet, model });

  before(async () => {
    path = await mkdtemp(join(tmpdir(), "stemma-replay-"));
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
  });
  after(async () => {
    await close();
    await rm(path, { recursive: true, force: true });
  });

  /** The second model under another name, with something in it that is not true. */
  async function saveLie(
    name: string,
    { plain = {}, committed = (all) => all, flipped }: Lie,
  ): Promise<string> {
    const truth = repository.resolve("soh:2");
    const opened = await readOpenedProvenance(repository, truth.record.objects);
    assert.ok(opened !== undefined);
    const members = Object.fromEntries(
      Object.entries(opened.openings).map(([member, { value }]) => [member, structuredClone(value)]),
    );
    const model = await repository.recover(truth.versionId);
    const tensors = await copiedTensors(model.sources, flipped);
    const { committed: _, ...shared } = opened.provenance;
    const { summary } = await repository.save(
      modelSourceOfTensors(model.architecture!, tensors, model.names),
      {
        name,
        bases: truth.record.bases,
        ...makeProvenance({ ...shared, ...plain }, committed(members), home.ports.random),
        ...(await metadataOf(truth)),
      },
    );
    return `${summary.name}:${summary.version}`;
  }
  async function metadataOf({
    versionId,
  }: VersionSummary): Promise<{ metadata: Record<string, string | number | boolean> }> {
    const { metadata = {} } = await operations.model({ fleet, model: versionId });
    return { metadata: { ...metadata } };
  }

  it("proves what was trained, from scratch and from a base, and keeps the verdict", async () => {
    for (const model of ["soh:1", "soh:2"]) {
      const { verdict, grade, difference, dataFrom } = await replay(model);
      assert.deepEqual([verdict, grade, difference], ["proved", "bit-exact", undefined]);
      assert.ok(["stored", "generator"].includes(dataFrom ?? ""));
    }
    await close();
    await open();
    assert.equal((await operations.model({ fleet, model: "soh:2" })).replayed?.verdict, "proved");
  });

  it("refutes one flipped bit, another seed and other counts, naming what differs", async () => {
    const flipped = await replay(await saveLie("flipped", { flipped: 3 }));
    assert.deepEqual([flipped.verdict, flipped.grade], ["refuted", "execution-exact"]);
    assert.equal(flipped.difference?.tensors, 1);
    assert.equal(
      flipped.difference?.first,
      (await operations.model({ fleet, model: "soh:2" })).leaves[3]?.name,
    );

    const seeded = await saveLie("seed", {
      committed: (all) => ({ ...all, random: { ...(all["random"] as object), seed: "9" } }),
    });
    const otherSeed = await replay(seeded);
    assert.deepEqual([otherSeed.verdict, otherSeed.grade], ["refuted", "different"]);
    assert.ok((otherSeed.difference?.tensors ?? 0) > 1);

    await operations.addDataset({
      fleet,
      name: "others",
      kind: "battery-simulated",
      location: "",
      parameters: { vehicle: 2 },
    });
    const { hash } = (await operations.datasets({ fleet })).find(({ name }) => name === "others")!;
    const otherData = await replay(
      await saveLie("others", {
        plain: { data: [hash as Hash] },
        committed: (all) => ({ ...all, data: [{ reader: "battery-simulated", parameters: { vehicle: 2 } }] }),
      }),
    );
    assert.deepEqual([otherData.verdict, otherData.grade], ["refuted", "different"]);

    const counted = await saveLie("counts", {
      committed: (all) => ({ ...all, course: { ...(all["course"] as object), iterations: 1 } }),
    });
    const otherCount = await replay(counted);
    assert.deepEqual([otherCount.verdict, otherCount.grade], ["refuted", "bit-exact"]);
    assert.deepEqual(otherCount.members, ["course.iterations"]);
    assert.equal((await operations.model({ fleet, model: counted })).replayed?.verdict, "refuted");
  });

  it("replays a changed story into a version whose record tells what was changed (ME2)", async () => {
    const set = { "trainer.epochs": 2 };
    const report = await operations.replayChanged({ fleet, model: "soh:2", name: "longer", set });
    assert.deepEqual(report.changes, [{ parameter: "epochs", before: 1, after: 2 }]);
    assert.deepEqual(report.summary.record.bases, repository.resolve("soh:2").record.bases);
    const { provenance } = await operations.diff({ fleet, a: "soh:2", b: "longer:1" });
    assert.deepEqual(provenance?.differences["parameters"], { epochs: { value: { a: 1, b: 2 } } });
    const made = await operations.model({ fleet, model: "longer" });
    assert.deepEqual((made.provenance as { notes?: unknown }).notes, {
      "replay.of": repository.resolve("soh:2").versionId,
      "replay.changed": "epochs: 1 → 2",
    });
    assert.equal((await replay("longer:1")).verdict, "proved", "the new story is a story like any other");
    for (const wrong of [{}, { "trainer.epoch": 2 }, { epochs: "many" }, { epochs: 1 }, { toString: 1 }])
      await assert.rejects(operations.replayChanged({ fleet, model: "soh:2", name: "wrong", set: wrong }), {
        code: "RECIPE_PARAMETERS_INVALID",
        message: /epochs=1, /,
      });
    await assert.rejects(
      operations.replayChanged({ fleet, model: "soh:2", name: "wrong", set: { epochs: 0 } }),
      {
        code: "REPLAY_INCOMPLETE",
      },
    );
    assert.deepEqual(repository.versions({ name: "wrong" }), []);
  });

  it("refuses what takes too long by its record", async () => {
    const times = (workMs: number): Lie => ({
      committed: (all) => ({ ...all, times: { endedAtMs: 1, workMs } }),
    });
    const long = await saveLie("long", times(7 * 60_000));
    for (const ask of [
      () => operations.replay({ fleet, model: long, maxMinutes: 5 }),
      () => operations.queueReplay({ fleet, model: long, maxMinutes: 5 }),
      () => operations.replayChanged({ fleet, model: long, name: "x", set: { epochs: 100 } }),
    ])
      await assert.rejects(ask(), { code: "REPLAY_TOO_LONG", message: /--max-minutes/ });
    assert.equal((await replay(long)).verdict, "proved", "an hour is allowed");
  });

  it("says why it cannot be done, and records no verdict", async () => {
    const unknown = sha256("unknown");
    await repository.save(opaqueModelSource([]), { name: "empty" });
    for (const [model, reason] of [
      ["empty", "no-provenance"],
      [await saveLie("engine", { plain: { engine: unknown } }), "engine-missing"],
      [await saveLie("external", { plain: { exactness: "none" } }), "other-trainer"],
      [await saveLie("own", { plain: { recipe: { bundle: unknown } } }), "recipe-not-approved"],
      [await saveLie("base", { plain: { bases: [unknown] } }), "base-missing"],
      [
        await saveLie("data", { plain: { data: [unknown] }, committed: ({ data: _, ...all }) => all }),
        "data-missing",
      ],
      [await saveLie("hidden", { committed: ({ parameters: _, ...all }) => all }), "redacted"],
    ] as const) {
      const ended = await replay(model);
      assert.deepEqual([ended.verdict, ended.reason], ["unreplayable", reason], ended.text);
      assert.equal((await operations.model({ fleet, model })).replayed, undefined);
    }
    await operations.redact({ fleet, model: "soh:1" });
    assert.equal((await replay("soh:1")).reason, "redacted");
    await assert.rejects(
      operations.replayChanged({ fleet, model: "soh:1", name: "wrong", set: { epochs: 2 } }),
      { code: "REPLAY_INCOMPLETE", message: /redacted/ },
    );
  });

  it("ends when it is stopped, and leaves nothing in the work folder", async () => {
    const stop = new AbortController();
    const ends = [1, 2].map(() =>
      operations
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
    assert.equal((await replay("soh:2")).verdict, "proved");
  });

  it("runs what is queued, also after a kill, and nothing twice", async () => {
    const runner = (): ReplayRunner =>
      new ReplayRunner({
        home,
        fleets,
        version: "test",
        log: silentLog(),
        events: { emit: () => undefined },
        rules: new ClaimRules({ ...defaultIngestLimits, training: defaultTrainingLimits }, home.ports.clock),
        fleetOf: () => Promise.resolve({ claimEnded: () => Promise.resolve() }),
      });
    const states = async (): Promise<readonly (readonly [string, string | undefined])[]> =>
      (await operations.replays({ fleet })).map(({ name, state, report }) => [
        name,
        report?.verdict ?? state,
      ]);
    await operations.queueReplay({ fleet, model: "soh:2" });
    await operations.queueReplay({ fleet, model: "empty", priority: 9 });
    const stopped = runner();
    stopped.wake();
    await stopped.close();
    await close();
    await open();
    const queueFile = join(home.fleetFolder(fleet), "replays.json");
    const beforeRun = await readFile(queueFile);
    assert.equal((await operations.replays({ fleet })).at(-1)?.state, "waiting");
    const first = runner();
    first.wake();
    await first.idle();
    assert.deepEqual(await states(), [
      ["soh", "proved"],
      ["empty", "unreplayable"],
    ]);

    // Killed after the verdict was written, before the queue was.
    await writeFile(queueFile, beforeRun);
    const { length } = repository.journal.head();
    const second = runner();
    second.wake();
    await second.idle();
    assert.deepEqual((await states())[0], ["soh", "proved"]);
    assert.equal(repository.journal.head().length, length, "the replay ran twice");

    await operations.queueReplay({ fleet, model: "soh:2" });
    assert.equal((await operations.cancelReplay({ fleet, model: "soh:2" })).state, "cancelled");
    await assert.rejects(operations.cancelReplay({ fleet, model: "soh:2" }), { code: "NOT_FOUND" });
    assert.deepEqual((await states())[0], ["soh", "cancelled"]);
  });

  describe("of a claim", () => {
    let claiming: Home;
    let claimingFleets: OpenFleets;
    let claims: FleetRepository;
    before(async () => {
      claiming = await openNodeHome(join(path, "claiming"));
      claimingFleets = openFleets(claiming);
      claims = await claimingFleets.get(fleet, { create: true });
      const base = await copy("soh:1", true);
      await claims.record(await repository.objects.read("record", base), { generation: 1 });
    });
    after(async () => {
      await claimingFleets.close();
      await claiming.close();
    });

    /** What a device sends of a version. */
    async function copy(model: string, withTensors: boolean): Promise<Hash> {
      const { versionId, record } = repository.resolve(model);
      const { objects } = repository;
      const pack = await claims.objects.begin();
      for (const { kind, id, streams } of objectsOf(record))
        if (objects.has(id) && kind !== "engine")
          await (streams
            ? pack.putStream(kind as "data", objects.openStream("data", id))
            : pack.put(kind, await objects.read(kind, id)));
      await pack.put("record", await objects.read("record", versionId));
      if (withTensors)
        for (const { tensor } of await repository.leaves(versionId))
          await pack.putTensor(objects.openTensor(tensor), tensor);
      await pack.commit();
      return versionId;
    }
    async function claim(model: string): Promise<Hash> {
      const versionId = await copy(model, false);
      await claims.recordClaim(await repository.objects.read("record", versionId), { generation: 1 });
      return versionId;
    }
    function runnerOf(
      parts: Partial<ReplayRunnerParts> & { readonly proveClaim?: FleetRepository["proveClaim"] } = {},
    ): ReplayRunner {
      const { proveClaim, ...others } = parts;
      const own = { ...claims, ...(proveClaim === undefined ? {} : { proveClaim }) };
      return new ReplayRunner({
        home: claiming,
        fleets: { ...claimingFleets, get: () => Promise.resolve(own) },
        version: "test",
        log: silentLog(),
        events: { emit: () => undefined },
        rules: new ClaimRules(
          { ...defaultIngestLimits, training: defaultTrainingLimits },
          claiming.ports.clock,
        ),
        fleetOf: () => Promise.resolve({ claimEnded: () => Promise.resolve() }),
        ...others,
      });
    }
    async function run(runner: ReplayRunner): Promise<void> {
      runner.wake();
      await runner.idle();
      await runner.close();
    }
    const facts = async (versionId: Hash): Promise<readonly string[]> => {
      const found: string[] = [];
      for await (const { fact } of claims.journal.entries())
        if ("versionId" in fact && fact.versionId === versionId) found.push(fact.type);
      return found;
    };

    it("goes on after a kill in any state, and proves it once", async () => {
      const versionId = await claim("soh:2");
      // Killed in the training.
      const rules = new ClaimRules(
        { ...defaultIngestLimits, training: defaultTrainingLimits },
        claiming.ports.clock,
      );
      const inTraining: ReplayRunner = runnerOf({
        rules: Object.assign(rules, {
          maxMs: () => {
            void inTraining.close();
            return 600_000;
          },
        }),
      });
      await run(inTraining);
      assert.equal(claims.claim(versionId)?.ended, undefined);
      // Killed between the tensors and the fact of the proof.
      await run(runnerOf({ proveClaim: () => Promise.reject(new StemmaError("STORE_FAILED", "killed")) }));
      assert.deepEqual(await facts(versionId), ["recorded"]);
      // Killed between the fact and what the device is told.
      await run(runnerOf({ fleetOf: () => Promise.reject(new StemmaError("STORE_FAILED", "killed")) }));
      await run(runnerOf());
      assert.deepEqual(await facts(versionId), ["recorded", "proved", "recorded"]);
      assert.equal((await claims.confirmStored(versionId)).state, "stored");
    });

    it("stores nothing of a story that lies", async () => {
      const versionId = await claim(await saveLie("flipped-claim", { flipped: 2 }));
      await run(runnerOf());
      assert.deepEqual(await facts(versionId), ["recorded", "refuted"]);
      const { ended, record } = claims.claim(versionId)!;
      assert.match(ended?.because ?? "", /1 tensors have other bytes/);
      const { leaves } = decodeTree(await claims.objects.read("tree", record.objects.tree));
      assert.equal(claims.objects.has(leaves[2]!.tensor), false);
    });
  });
});
