/**
 * A process that saves, retires, collects and backs up is killed with SIGKILL at random moments, repeatedly
 * on the same home. After each kill the home opens, everything acknowledged is recovered bit for bit, nothing
 * is damaged, and the last finished backup is complete.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { nodeHomePorts, openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { restoreBackup } from "../../../../../server/storage/repository/backup/restore.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import {
  hasUsesOfSeed,
  sameTensors,
  temporaryFolder,
} from "../../../../integration/server/storage/repository/harness.js";
import { hasUses, modelOfSeed, seededDraw } from "./kill-models.js";
import { workUntilKilled } from "../../../../helpers/work-until-killed.js";

interface WorkerReport {
  readonly open?: boolean;
  readonly recorded?: Hash;
  readonly seed?: string;
  readonly name?: string;
  readonly version?: number;
  readonly stored?: Hash;
  readonly retiring?: Hash;
  readonly retired?: Hash;
  readonly backup?: number;
}

test("a home killed at any moment opens and has everything that was acknowledged", async (context) => {
  const full = process.env["STEMMA_TEST_FULL"] === "1";
  const seed = process.env["STEMMA_TEST_SEED"] ?? `kill-${process.pid}-${Date.now()}`;
  const kills = full ? 100 : 2;
  context.diagnostic(`STEMMA_TEST_SEED=${seed}, ${kills} kills`);
  const draw = seededDraw(seed);
  const folder = await temporaryFolder(context);
  const path = join(folder, "home");
  const backup = join(folder, "backup");
  const recorded = new Map<
    Hash,
    { readonly seed: string; readonly name: string; readonly version: number }
  >();
  const retiring = new Set<Hash>();
  const retired = new Set<Hash>();
  const stored = new Set<Hash>();
  let backedUp = 0;
  for (let kill = 0; kill < kills; kill++) {
    for (const report of await workUntilKilled<WorkerReport>(
      new URL("kill-worker.js", import.meta.url),
      [path, backup, `${seed}/${kill}`],
      // The first one works long enough that there is something to lose.
      (kill === 0 ? 25 : 1) + draw(40),
      draw(25),
    )) {
      if (report.recorded !== undefined)
        recorded.set(report.recorded, { seed: report.seed!, name: report.name!, version: report.version! });
      if (report.stored !== undefined) stored.add(report.stored);
      if (report.retiring !== undefined) retiring.add(report.retiring);
      if (report.retired !== undefined) retired.add(report.retired);
      if (report.backup !== undefined) backedUp = Math.max(backedUp, report.backup);
    }
    const where = `seed ${seed}, kill ${kill}`;
    const home = await openNodeHome(path);
    const repository = await openRepository(home, "fleet-a");
    assert.deepEqual((await repository.check()).problems, [], where);
    const sample = [...recorded].filter(
      (_, index) => recorded.size < 60 || index >= recorded.size - 30 || draw(5) === 0,
    );
    for (const [versionId, { seed: modelSeed, name, version }] of sample) {
      const summary = repository.get(versionId);
      assert.ok(summary !== undefined, `${where}: the acknowledged ${name}:${version} is gone`);
      assert.deepEqual([summary.name, summary.version], [name, version], where);
      if (retired.has(versionId)) assert.equal(summary.state, "retired", where);
      if (summary.state === "retired") assert.ok(retiring.has(versionId), where);
      else
        assert.ok(
          (await sameTensors(repository, versionId, modelOfSeed(modelSeed))) &&
            (!hasUses(modelSeed) || (await hasUsesOfSeed(repository, versionId, modelSeed))),
          `${where}: ${name}:${version} came back altered`,
        );
      if (stored.has(versionId)) assert.notEqual(summary.state, "recorded", where);
    }
    await repository.close();
    await home.close();
    if (backedUp > 0) {
      const target = join(folder, "not-made");
      const [dry] = await restoreBackup(backup, target, nodeHomePorts(), { dryRun: true });
      assert.ok(dry!.position >= backedUp, where);
      assert.deepEqual(dry!.problems, [], where);
    }
  }
  assert.ok(recorded.size > kills, "the worker hardly did anything");
  if (backedUp > 0)
    assert.ok(
      (await restoreBackup(backup, join(folder, "restored"), nodeHomePorts()))[0]!.position >= backedUp,
    );
  context.diagnostic(`${recorded.size} acknowledged, ${retired.size} retired, backed up to ${backedUp}`);
});
