/**
 * Applies plans to homes: every model is recovered bit for bit, the sizes are as predicted, and concurrent
 * changes are respected.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { maxPlannedDepth } from "../../../../server/archive/plan-archive.js";
import { readArchivePlan, type ArchivePlan } from "../../../../server/archive/archive-plan.js";
import { defaultEdgeSources } from "../../../../server/archive/storage-edges.js";
import { type EdgeSource } from "../../../../server/archive/edge-costs.js";
import { openNodeHome } from "../../../../server/repository/node-home.js";
import { openRepository } from "../../../../server/repository/open-repository.js";
import type { FleetRepository } from "../../../../server/repository/fleet-repository.js";
import { maxChainDepth } from "../../../../shared/objects/object-store.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import {
  alteredModels,
  applyToFleet,
  fineTunedFamily,
  planFleet,
  saveModels,
  testFleetModels,
} from "../../../helpers/archive-fleet.js";
import type { ManualClock } from "../../../helpers/manual-clock.js";
import { memoryHome, temporaryFolder } from "../repository/harness.js";

async function memoryFleet(models = testFleetModels()): Promise<{
  readonly repository: FleetRepository;
  readonly ids: ReadonlyMap<string, Hash>;
  readonly models: typeof models;
  readonly clock: ManualClock;
}> {
  const {
    home,
    ports: { clock },
  } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  return { repository, ids: await saveModels(repository, models), models, clock };
}
function tensorsOf(repository: FleetRepository): readonly Hash[] {
  return [...repository.objects.list()].filter(({ kind }) => kind === "tensor").map(({ id }) => id);
}

describe("an applied plan", () => {
  for (const [ratio, share] of [
    [null, 0.68],
    [3, 0.75],
    [1.6, 0.97],
  ] as const) {
    it(`stores less within ${ratio === null ? "no budget" : `${ratio}x`}, as predicted, and changes no model`, async () => {
      const { repository, ids, models } = await memoryFleet();
      const before = await repository.stats();
      const plan = await planFleet(repository, { ratio });
      const report = await applyToFleet(repository, plan);
      assert.deepEqual([report.stopped, report.left, report.failed, report.stale], [null, 0, [], []]);
      assert.ok(
        report.bytesReached < share * report.bytesBefore,
        `${report.bytesReached} of ${report.bytesBefore}`,
      );
      assert.ok(
        Math.abs(report.bytesReached - report.bytesPredicted) < 0.03 * report.bytesBefore,
        `${report.bytesReached} where ${report.bytesPredicted} was predicted`,
      );
      const after = await repository.stats();
      assert.ok(
        after.packBytes < before.packBytes - 0.9 * (report.bytesBefore - report.bytesReached),
        "superseded copies are gone",
      );
      assert.deepEqual(await alteredModels(repository, models, ids), []);
      assert.deepEqual((await repository.check()).problems, []);
      for (const { snapshot, budget, independent } of plan.plan.snapshots)
        assert.ok(budget === null || independent <= budget * (1 + 1e-9), snapshot);
    });
  }
  it("leaves almost nothing to do for the same plan made again", async () => {
    const { repository } = await memoryFleet();
    const first = await planFleet(repository, { ratio: 3 });
    await applyToFleet(repository, first);
    const again = await planFleet(repository, { ratio: 3 });
    assert.ok(
      first.summary.rewrittenBytes > 20 * again.summary.rewrittenBytes,
      `${again.summary.rewrittenBytes} bytes again, ${first.summary.rewrittenBytes} at first`,
    );
    const { rewritten, already } = await applyToFleet(repository, first);
    assert.ok(
      already > 0 && rewritten < 0.1 * already,
      `${rewritten} rewritten by a plan that was already applied, ${already} were stored so`,
    );
  });
  it("codes no tensor against tensors of retired versions only, so that those can be collected", async () => {
    const { repository, ids, models, clock } = await memoryFleet();
    await applyToFleet(repository, await planFleet(repository, { ratio: null }));
    // Tensors that a writer relied on stay pinned for a minute.
    clock.advance(120_000);
    const used = new Set(
      tensorsOf(repository).flatMap((id) => {
        const { base, previous } = repository.objects.encodingOf(id)!;
        return [base, previous];
      }),
    );
    // Of the first family only the version with the longest chains is kept.
    const depths = await Promise.all(
      models
        .filter(({ name }) => name.startsWith("a"))
        .map(async ({ name }) => ({
          name,
          depth: (await repository.leaves(ids.get(name)!)).reduce(
            (sum, { tensor }) => sum + repository.objects.encodingOf(tensor)!.depth,
            0,
          ),
        })),
    );
    const [deepest, ...others] = depths.sort((a, b) => b.depth - a.depth);
    assert.ok(deepest!.depth > 0);
    for (const { name } of others) await repository.retire(ids.get(name)!, "test");
    await repository.collect(await repository.planCollection());
    const live = await repository.liveObjects();
    const stayed = tensorsOf(repository).filter((id) => !live.has(id));
    assert.ok(
      stayed.length > 0 && stayed.every((id) => used.has(id)),
      `${stayed.length} tensors of retired versions stay until what needs them is coded otherwise`,
    );
    const { failed, left } = await applyToFleet(repository, await planFleet(repository, { ratio: null }));
    assert.deepEqual([failed, left, tensorsOf(repository).filter((id) => !live.has(id))], [[], 0, []]);
    assert.deepEqual(
      await alteredModels(
        repository,
        models.filter(({ name }) => name.startsWith("b") || name === deepest!.name),
        ids,
      ),
      [],
    );
  });
  it("may contain edges from other sources, which only a caller that knows them can apply", async () => {
    const { repository } = await memoryFleet();
    const remote: EdgeSource = (_context, { id, byteLength }) =>
      byteLength < 20_000
        ? []
        : [{ to: id, kind: "remote", storageCost: 10, recreationCost: 1e6, detail: { tier: "remote" } }];
    const plan = await planFleet(repository, { ratio: null, sources: [...defaultEdgeSources, remote] });
    assert.ok(plan.summary.kinds.some(({ kind, tensors }) => kind === "remote" && tensors > 5));
    await assert.rejects(applyToFleet(repository, plan), { code: "PLAN_INVALID" });
  });
  it("in planes makes the high-order bytes of every large tensor readable alone", async () => {
    const { repository, ids, models } = await memoryFleet();
    await applyToFleet(repository, await planFleet(repository, { ratio: null, layout: "planes" }));
    for (const id of tensorsOf(repository)) {
      const { byteLength, header } = repository.objects.stat(id)!;
      const { code } = repository.objects.encodingOf(id)!;
      if (byteLength >= 4096) assert.equal(code, 4, `${header?.dtype} of ${byteLength} bytes`);
    }
    const large = tensorsOf(repository).find((id) => repository.objects.stat(id)!.byteLength > 16_000)!;
    const { readBytes } = await repository.objects.readHighPlanes(large, 1);
    assert.ok(readBytes < repository.objects.stat(large)!.byteLength / 2);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
  });
  it("keeps chains within the planned depth, for a line of any length and versions stored in any order", async () => {
    const models = fineTunedFamily("long", 77, 45);
    const { repository, ids } = await memoryFleet(models);
    const deepest = (): number =>
      Math.max(...tensorsOf(repository).map((id) => repository.objects.encodingOf(id)!.depth));
    await applyToFleet(repository, await planFleet(repository, { ratio: null }));
    assert.ok(deepest() > 4 && deepest() <= maxPlannedDepth, `${deepest()} deep`);
    // Stored for speed and by other budgets: no step from one encoding to another exceeds the depth that the
    // store reads.
    for (const ratio of [1.5, null, 1, null]) {
      const { left, failed } = await applyToFleet(repository, await planFleet(repository, { ratio }), {
        batchBytes: 8 * 1024,
      });
      assert.deepEqual([left, failed], [0, []]);
      assert.ok(deepest() <= maxChainDepth);
    }
    assert.deepEqual(await alteredModels(repository, models, ids), []);
  });
  it("gives the same bytes in a worker thread", async () => {
    const here = await memoryFleet();
    const there = await memoryFleet();
    const plan = await planFleet(here.repository, { ratio: null });
    await applyToFleet(here.repository, plan);
    const { failed } = await applyToFleet(there.repository, plan, {}, { mostInlineBytes: 0 });
    assert.deepEqual(failed, []);
    for (const id of tensorsOf(here.repository))
      assert.equal(
        Buffer.compare(
          (await here.repository.objects.readCoded(id)).bytes,
          (await there.repository.objects.readCoded(id)).bytes,
        ),
        0,
      );
    assert.deepEqual(await alteredModels(there.repository, there.models, there.ids), []);
  });
});

describe("applying ends early", () => {
  it("when its time is over, and the next application continues", async () => {
    const { repository, ids, models } = await memoryFleet();
    const plan = await planFleet(repository, { ratio: null });
    const first = await applyToFleet(repository, plan, { timeMs: 1, batchBytes: 1 });
    assert.equal(first.stopped, "time");
    assert.ok(first.left > 0);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
    const second = await applyToFleet(repository, plan);
    assert.deepEqual([second.stopped, second.left, second.already], [null, 0, first.rewritten]);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
  });
  it("when it is interrupted", async () => {
    const { repository, ids, models } = await memoryFleet();
    const abort = new AbortController();
    const report = await applyToFleet(repository, await planFleet(repository, { ratio: null }), {
      signal: abort.signal,
      onProgress: ({ done }) => {
        if (done === 5) abort.abort();
      },
    });
    assert.deepEqual([report.stopped, report.rewritten], ["interrupted", 5]);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
  });
  it("when the disk is nearly full, or its disk budget cannot be freed", async () => {
    const { repository, ids, models } = await memoryFleet();
    const plan = await planFleet(repository, { ratio: null });
    const short = await applyToFleet(repository, plan, {}, { freeBytes: () => Promise.resolve(1024) });
    assert.deepEqual([short.stopped, short.rewritten], ["disk", 0]);
    // Every collection is refused while an object is damaged or missing: copies then accumulate up to the
    // budget and no further.
    const piled = await applyToFleet(
      {
        ...repository,
        planCollection: async () => {
          await Promise.resolve();
          return repository.objects.planCollection(new Set(["0".repeat(64) as Hash]));
        },
      },
      plan,
      { diskBytes: 60_000, batchBytes: 20_000 },
    );
    assert.equal(piled.stopped, "disk");
    assert.ok(piled.writtenBytes >= 60_000 && piled.writtenBytes < 200_000, `${piled.writtenBytes}`);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
  });
  it("before it begins, if there is nothing to write", async () => {
    const { repository } = await memoryFleet();
    const before = await repository.stats();
    const report = await applyToFleet(repository, await planFleet(repository, { ratio: null }), {
      dryRun: true,
    });
    assert.ok(report.left > 10 && report.rewritten === 0 && report.dryRun);
    assert.deepEqual(await repository.stats(), before);
  });
});

describe("a plan that is older than the store", () => {
  it("skips tensors that are gone, applies to the rest, and leaves new tensors unchanged", async () => {
    const { repository, ids, models } = await memoryFleet();
    const plan = await planFleet(repository, { ratio: null });
    await repository.retire(ids.get("b3")!, "test");
    await repository.collect(await repository.planCollection());
    const more = fineTunedFamily("late", 4242, 1);
    const late = await saveModels(repository, more);
    const report = await applyToFleet(repository, plan);
    const left = models.filter(({ name }) => name !== "b3");
    assert.ok(report.stale.length > 0 && report.stale.every(({ code }) => code === "PLAN_STALE"));
    assert.ok(report.unplanned > 0 && report.rewritten > 10);
    assert.deepEqual(await alteredModels(repository, [...left, ...more], new Map([...ids, ...late])), []);
  });
  it("forms no cycle when another plan was applied in between", async () => {
    const { repository, ids, models } = await memoryFleet();
    const forward = await planFleet(repository, { ratio: null });
    await applyToFleet(repository, await planFleet(repository, { ratio: null, layout: "planes" }));
    await applyToFleet(repository, reversed(forward));
    const report = await applyToFleet(repository, forward);
    assert.deepEqual(report.failed, []);
    assert.deepEqual(await alteredModels(repository, models, ids), []);
    assert.deepEqual((await repository.check()).problems, []);
  });
  it("that was tampered with is refused, or does no harm", async () => {
    const { repository, ids, models } = await memoryFleet();
    const plan = await planFleet(repository, { ratio: null });
    const copy = (): {
      plan: {
        vertices: {
          vertex: string;
          from: string | null;
          kind: string;
          storageCost: number;
          detail?: unknown;
        }[];
        storageCost: number;
      };
      members: number[][];
      format: number;
    } => JSON.parse(JSON.stringify(plan)) as never;
    const tampered = [
      (p: ReturnType<typeof copy>) => {
        p.format = 2;
      },
      (p: ReturnType<typeof copy>) => {
        p.plan.storageCost--;
      },
      (p: ReturnType<typeof copy>) => {
        p.members[0]![0] = 1e9;
      },
      (p: ReturnType<typeof copy>) => {
        p.members.pop();
      },
      (p: ReturnType<typeof copy>) => {
        const v = p.plan.vertices.find(({ from }) => from !== null)!;
        v.from = v.vertex;
      },
      (p: ReturnType<typeof copy>) => {
        const v = p.plan.vertices.find(({ from }) => from !== null)!;
        p.plan.vertices.find(({ vertex }) => vertex === v.from)!.from = v.vertex;
      },
      (p: ReturnType<typeof copy>) => {
        p.plan.vertices[3]!.storageCost = Number.NaN;
      },
      (p: ReturnType<typeof copy>) => {
        p.plan.vertices[2]!.vertex = "../../etc/passwd";
      },
    ];
    for (const change of tampered) {
      const bad = copy();
      change(bad);
      assert.throws(() => readArchivePlan(bad), { code: "PLAN_INVALID" });
    }
    for (const bad of [null, 5, "plan", [], {}, { format: 1 }])
      assert.throws(() => readArchivePlan(bad), { code: "PLAN_INVALID" });
    const unknown = copy();
    unknown.plan.vertices[0]!.kind = "replay";
    await assert.rejects(applyToFleet(repository, unknown as never), { code: "PLAN_INVALID" });
    // `previous` is only offered to the codec: a wrong one costs bytes, not correctness.
    const nonsense = copy();
    for (const v of nonsense.plan.vertices)
      if (v.from !== null) v.detail = { previous: nonsense.plan.vertices[0]!.vertex };
    await applyToFleet(repository, readArchivePlan(nonsense));
    assert.deepEqual(await alteredModels(repository, models, ids), []);
  });
});

/**
 * The same plan with every line's tensors coded in the other direction, as a manipulated file could contain
 * it.
 */
function reversed(plan: ArchivePlan): ArchivePlan {
  const parents = new Map(plan.plan.vertices.map((vertex) => [vertex.vertex, vertex]));
  const child = new Map<string, string>();
  for (const { vertex, from } of plan.plan.vertices)
    if (from !== null && !child.has(from)) child.set(from, vertex);
  const vertices = plan.plan.vertices
    .map((vertex) => {
      const below = child.get(vertex.vertex);
      return below !== undefined && parents.get(below)?.kind === "delta"
        ? { ...vertex, from: below, kind: "delta" }
        : { ...vertex, from: null, kind: "raw" };
    })
    .map(({ detail: _detail, ...vertex }) => ({ ...vertex, storageCost: 1, recreationCost: 0 }));
  const costs = plan.plan.snapshots.map((snapshot) => ({
    ...snapshot,
    budget: null,
    independent: 0,
    parallel: 0,
    reusable: 0,
  }));
  return readArchivePlan({
    ...plan,
    plan: { ...plan.plan, vertices, storageCost: vertices.length, snapshots: costs },
  });
}

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
