/** Replays of true stories, and of stories that lie: other bytes, data or engine. */
import assert from "node:assert/strict";
import { realpathSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { opaqueModelSource } from "../../../../../shared/save/model-source.js";
import { decodeTree } from "../../../../../shared/model/tree-object.js";
import { canonicalMeasurements } from "../../../../../shared/provenance/measurement-forms.js";
import { hashFile } from "../../../../../shared/programs/hash-file.js";
import {
  encodeProgram,
  programAttachment,
  programId,
} from "../../../../../shared/programs/program-bundle.js";
import { writeApprovedPrograms } from "../../../../../server/learning/replay/approved-programs.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import { Claims, fleet, ReplayedFleet } from "./replayed-fleet.js";

describe("a replay", () => {
  let trained: ReplayedFleet;
  before(async () => {
    trained = await ReplayedFleet.train();
  });
  after(() => trained.remove());

  it("proves what was trained, from scratch and from a base, and keeps the verdict", async () => {
    for (const model of ["soh:1", "soh:2"]) {
      const { verdict, grade, difference, dataFrom } = await trained.replay(model);
      assert.deepEqual([verdict, grade, difference], ["proved", "bit-exact", undefined]);
      assert.ok(["stored", "generator"].includes(dataFrom ?? ""));
    }
    await trained.close();
    await trained.open();
    assert.equal((await trained.operations.model({ fleet, model: "soh:2" })).replayed?.verdict, "proved");
  });

  it("refutes one flipped bit, naming what differs", async () => {
    const flipped = await trained.replay(await trained.saveLie("flipped", { flipped: 3 }));
    assert.deepEqual([flipped.verdict, flipped.grade], ["refuted", "execution-exact"]);
    assert.equal(flipped.difference?.tensors, 1);
    assert.equal(
      flipped.difference?.first,
      (await trained.operations.model({ fleet, model: "soh:2" })).leaves[3]?.name,
    );
  });

  it("says why it cannot be done, and records no verdict", async () => {
    const unknown = sha256("unknown");
    await trained.repository.save(opaqueModelSource([]), { name: "empty" });
    for (const [model, reason] of [
      ["empty", "no-provenance"],
      [await trained.saveLie("engine", { plain: { engine: unknown } }), "engine-missing"],
      [await trained.saveLie("external", { plain: { exactness: "none" } }), "other-trainer"],
      [await trained.saveLie("native", { plain: { exactness: "native" } }), "other-class"],
      [await trained.saveLie("own", { plain: { recipe: { bundle: unknown } } }), "recipe-not-approved"],
      [await trained.saveLie("base", { plain: { bases: [unknown] } }), "base-missing"],
      [
        await trained.saveLie("data", {
          plain: { data: [unknown] },
          committed: ({ data: _, ...all }) => all,
        }),
        "data-missing",
      ],
      [await trained.saveLie("hidden", { committed: ({ parameters: _, ...all }) => all }), "redacted"],
    ] as const) {
      const ended = await trained.replay(model);
      assert.deepEqual([ended.verdict, ended.reason], ["unreplayable", reason], ended.text);
      assert.equal((await trained.operations.model({ fleet, model })).replayed, undefined);
    }
    await trained.operations.redact({ fleet, model: "soh:1" });
    assert.equal((await trained.replay("soh:1")).reason, "redacted");
    await assert.rejects(
      trained.operations.replayChanged({ fleet, model: "soh:1", name: "wrong", set: { epochs: 2 } }),
      { code: "REPLAY_INCOMPLETE", message: /redacted/ },
    );
  });

  it("runs no program that is not as it was stated and approved, and frees no tensors for one", async () => {
    const mark = join(trained.path, "it-ran");
    const bytes = encodeProgram({
      exec: [{ interpreter: "sh" }, { text: "-c" }, { text: `touch ${mark}` }],
      files: [],
      variables: {},
      withheld: [],
    });
    const id = programId(bytes);
    const limits = { memoryLimitMb: 64, threads: 1, timeoutSeconds: 5, maxOutputBytes: 4096 };
    const machine = { os: "Linux", arch: "x64", cpu: "c", libc: "2" };
    const lie = (member: object, content = bytes) =>
      trained.saveLie("programs", {
        plain: { engine: undefined, recipe: undefined, exactness: "none" },
        committed: (all) => ({ ...all, program: { bundle: id, job: id, limits, machine, ...member } }),
        attachments: [{ name: programAttachment, bytes: content }],
      });
    const sh = realpathSync("/bin/sh");
    const interpreter = { path: sh, sha256: (await hashFile(sh)) as Hash };
    const noted = { model: "", because: "", by: "", atMs: 0 };
    const forged = sha256("a program that was approved elsewhere");
    await writeApprovedPrograms(
      trained.home.ports.files,
      trained.path,
      [id, forged].map((program) => ({ program, interpreter, ...noted })),
    );
    for (const [model, reason] of [
      [await lie({}), "job-differs"],
      [await lie({ bundle: forged }), "program-missing"],
      [await lie({}, Buffer.from("not a program")), "program-missing"],
      [await lie({ bundle: programId(Buffer.from("no")) }, Buffer.from("no")), "program-not-approved"],
      [await lie({ limits: { ...limits, timeoutSeconds: 2 ** 40 } }), "unsupported"],
    ] as const) {
      const ended = await trained.replay(model);
      assert.deepEqual([ended.verdict, ended.reason], ["unreplayable", reason], ended.text);
    }
    assert.equal(await trained.home.ports.files.stat(mark), undefined);
    const { kept } = await trained.operations.dropTensors({ fleet, models: ["programs:1"] });
    assert.match(kept[0]?.because ?? "", /not approved any more/);
  });

  describe("of a claim", () => {
    let claims: Claims;
    before(async () => {
      claims = await Claims.open(trained);
    });
    after(() => claims.close());

    it("refutes a metric that is too good, and losses that no training had", async () => {
      const { measurements = [] } = await trained.operations.model({ fleet, model: "soh:2" });
      const [metric, losses] = [
        await claims.claim(await trained.saveLie("metric", { metadata: { "metric.after": 0.0001 } })),
        await claims.claim(
          await trained.saveLie("losses", {
            measurements: canonicalMeasurements(measurements.map((each) => ({ ...each, loss: 1e-9 }))),
          }),
        ),
      ];
      const truth = await claims.claim(
        await trained.saveLie("truth", { measurements: canonicalMeasurements(measurements) }),
      );
      await claims.run();
      for (const [versionId, member] of [
        [metric, "metadata.metric.after"],
        [losses, "record.objects.measurements"],
      ] as const) {
        assert.deepEqual(await claims.factsOf(versionId), ["recorded", "refuted"]);
        assert.ok(claims.repository.claim(versionId)?.ended?.because.includes(member));
      }
      assert.deepEqual(claims.repository.get(truth)?.replayed?.verdict, "proved");
    });

    it("stores nothing of a story that lies", async () => {
      const versionId = await claims.claim(await trained.saveLie("flipped-claim", { flipped: 2 }));
      await claims.run();
      assert.deepEqual(await claims.factsOf(versionId), ["recorded", "refuted"]);
      const { ended, record } = claims.repository.claim(versionId)!;
      assert.match(ended?.because ?? "", /1 tensor has other bytes/);
      const { leaves } = decodeTree(await claims.repository.objects.read("tree", record.objects.tree));
      assert.equal(claims.repository.objects.has(leaves[2]!.tensor), false);
    });
  });
});
