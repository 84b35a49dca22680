/**
 * A repository is stored in fixed planes and converted back: every model is recovered bit for bit at each
 * step, whatever other operations run in it.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "node:test";
import { readArchivePlan } from "../../../../../server/storage/archive/archive-plan.js";
import { estimateFixedPlanesBytes } from "../../../../../shared/delta/fixed-planes-estimate.js";
import { encodingCodes } from "../../../../../shared/delta/encoded.js";
import { tensorOfSource, type Hash } from "../../../../../shared/tensor/tensor.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { restoreBackup } from "../../../../../server/storage/repository/backup/restore.js";
import {
  alteredModels,
  applyToFleet,
  planFleet,
  saveModels,
  testFleetModels,
  type FleetModel,
} from "../../../../helpers/archive-fleet.js";
import { fineTuned, noiseTensor, weights } from "../../../../helpers/related-tensors.js";
import { diskHome, openRepository } from "../repository/harness.js";

const { planes, fixedPlanes } = encodingCodes;

/** The test fleet, plus a matrix with a NaN in it, a long vector, integers, and a small matrix. */
function models(): readonly FleetModel[] {
  const odd = weights([64, 40], 71);
  new Uint32Array(odd.bytes.buffer)[77] = 0x7fc00001;
  const others = [
    { ...odd, name: "odd.weight" },
    { ...weights([3000], 72), name: "long.bias" },
    { ...noiseTensor("I32", [40, 40], 73), name: "ids" },
    { ...weights([8, 4], 74), name: "small.weight" },
  ];
  return [
    ...testFleetModels(),
    { name: "odd0", tensors: others },
    {
      name: "odd1",
      base: "odd0",
      tensors: others.map((tensor) =>
        tensor.dtype === "F32" ? { ...fineTuned(tensor, 1e-5, 75), name: tensor.name } : tensor,
      ),
    },
  ];
}

function codesOf({ objects }: FleetRepository): ReadonlyMap<Hash, number> {
  return new Map(
    [...objects.list()]
      .filter(({ kind }) => kind === "tensor")
      .map(({ id }) => [id, objects.encodingOf(id)!.code]),
  );
}

/**
 * Every large float32 matrix is stored in fixed planes if they can encode it, every other large tensor in byte
 * planes.
 */
async function assertFixed({ objects }: FleetRepository): Promise<void> {
  let fixed = 0;
  let inPlanes = 0;
  for (const { id, kind, byteLength } of objects.list()) {
    if (kind !== "tensor" || byteLength < 4096) continue;
    const { code, base } = objects.encodingOf(id)!;
    const tensor = await tensorOfSource(objects.openTensor(id));
    assert.equal(
      code,
      estimateFixedPlanesBytes(tensor) === undefined ? planes : fixedPlanes,
      `${tensor.dtype} [${tensor.shape.join(", ")}]`,
    );
    if (code === planes) {
      inPlanes++;
      continue;
    }
    assert.equal(base, undefined);
    fixed++;
  }
  assert.ok(fixed >= 13 && inPlanes >= 4, `${fixed} in fixed planes, ${inPlanes} in byte planes`);
}

it("is planned, applied, checked, backed up, collected and converted back, and changes no model", async (context) => {
  const { home, ports, path } = await diskHome(context);
  const all = models();
  let repository = await openRepository(home, "fleet-a");
  const ids = await saveModels(repository, all);
  const unaltered = async (): Promise<void> => {
    assert.deepEqual(await alteredModels(repository, all, ids), []);
    assert.deepEqual((await repository.check()).problems, []);
  };
  const plan = readArchivePlan(
    JSON.parse(JSON.stringify(await planFleet(repository, { ratio: null, layout: "fixed" }))),
  );
  assert.ok(
    plan.summary.kinds.some(({ kind, tensors }) => kind === "fixed" && tensors >= 15),
    JSON.stringify(plan.summary.kinds),
  );
  const report = await applyToFleet(repository, plan);
  assert.deepEqual(
    [report.stopped, report.left, report.failed, report.stale, report.notSmaller],
    [null, 0, [], [], 0],
  );
  assert.ok(
    report.bytesReached < report.bytesBefore &&
      Math.abs(report.bytesReached - report.bytesPredicted) < 0.02 * report.bytesBefore,
    `${report.bytesReached} where ${report.bytesPredicted} was predicted`,
  );
  await assertFixed(repository);
  await unaltered();
  // The same plan again has nothing to do.
  assert.equal((await planFleet(repository, { ratio: null, layout: "fixed" })).summary.rewrittenTensors, 0);
  assert.equal((await applyToFleet(repository, plan)).rewritten, 0);

  // New saves, a retired version, a collection, a backup, another opening.
  await repository.retire(ids.get("b3")!, "test");
  ports.clock.advance(120_000);
  await repository.collect(await repository.planCollection());
  const kept = all.filter(({ name }) => name !== "b3");
  const folder = join(path, "..", "backup");
  await repository.backup(folder);
  await repository.close();
  repository = await openRepository(home, "fleet-a");
  await assertFixed(repository);
  assert.deepEqual(await alteredModels(repository, kept, ids), []);
  const target = join(path, "..", "restored");
  await restoreBackup(folder, target, ports);
  const restoredHome = await openHome(target, ports);
  const restored = await openRepository(restoredHome, "fleet-a");
  await assertFixed(restored);
  assert.deepEqual(await alteredModels(restored, kept, ids), []);
  await restored.close();
  await restoredHome.close();

  // Applying another layout converts it back.
  for (const layout of ["planes", "fixed", "packed"] as const) {
    const { failed, left } = await applyToFleet(
      repository,
      await planFleet(repository, { ratio: null, layout }),
    );
    assert.deepEqual([failed, left], [[], 0]);
    assert.equal([...codesOf(repository).values()].includes(fixedPlanes), layout === "fixed", layout);
    assert.deepEqual(await alteredModels(repository, kept, ids), [], layout);
  }
  assert.deepEqual((await repository.check()).problems, []);
  await repository.close();
  await home.close();
});
