/**
 * A process that applies retention rules and collects is killed with SIGKILL at random moments, repeatedly.
 * After each kill every version to keep is recovered bit for bit, only planned versions are retired, and
 * applying the rules again gives the same result as an uninterrupted run.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { sameTensors, temporaryFolder } from "../../../../integration/server/storage/repository/harness.js";
import { modelOfSeed, seededDraw } from "./kill-models.js";

interface WorkerReport {
  readonly versionId?: Hash;
  readonly seed?: string;
  readonly going?: readonly Hash[];
  readonly retired?: readonly Hash[];
  readonly freedBytes?: number;
}

/** Runs the worker to its end, or kills it `killAfterMs` after it reported what it will retire. */
async function run(
  home: string,
  seed: string,
  action: "grow" | "apply",
  killAfterMs?: number,
): Promise<{ readonly reports: readonly WorkerReport[]; readonly killed: boolean }> {
  const worker = spawn(
    process.execPath,
    [fileURLToPath(new URL("retention-worker.js", import.meta.url)), home, seed, action],
    { stdio: ["ignore", "pipe", "pipe"] },
  );
  const reports: WorkerReport[] = [];
  let complaint = "";
  worker.stderr.on("data", (chunk: Buffer) => {
    complaint += chunk.toString();
  });
  const ended = new Promise<string | number | null>((resolve) => {
    worker.on("exit", (code, signal) => {
      resolve(signal ?? code);
    });
  });
  for await (const line of createInterface({ input: worker.stdout })) {
    const one = JSON.parse(line) as WorkerReport;
    reports.push(one);
    if (one.going !== undefined && killAfterMs !== undefined)
      setTimeout(() => worker.kill("SIGKILL"), killAfterMs);
  }
  const how = await ended;
  assert.ok(
    how === 0 || (killAfterMs !== undefined && how === "SIGKILL"),
    `the worker ended with ${String(how)}: ${complaint}`,
  );
  return { reports, killed: how === "SIGKILL" };
}

test("kills while rules are applied: no version to keep is lost, and applying them again finishes", async (context) => {
  const seed = process.env["STEMMA_TEST_SEED"] ?? `retention-${process.pid}-${Date.now()}`;
  const kills = process.env["STEMMA_TEST_FULL"] === "1" ? 100 : 2;
  context.diagnostic(`STEMMA_TEST_SEED=${seed}, ${kills} kills`);
  const draw = seededDraw(seed);
  const folder = await temporaryFolder(context);
  const grown = join(folder, "grown");
  const path = join(folder, "home");
  const versions = new Map(
    (await run(grown, seed, "grow")).reports.map(({ versionId, seed: modelSeed }) => [
      versionId!,
      modelSeed!,
    ]),
  );
  await cp(grown, path, { recursive: true });
  const undisturbed = (await run(path, seed, "apply")).reports;
  const going = new Set(undisturbed[0]?.going);
  assert.ok(going.size > 30 && going.size < versions.size - 20, `${going.size} of ${versions.size} go`);
  assert.deepEqual(undisturbed[1]?.retired, undisturbed[0]?.going);
  assert.ok((undisturbed[2]?.freedBytes ?? 0) > 0);
  let cutShort = 0;
  let partly = 0;
  for (let kill = 0; kill < kills; kill++) {
    const where = `seed ${seed}, kill ${kill}`;
    await rm(path, { recursive: true, force: true });
    await cp(grown, path, { recursive: true });
    const { reports, killed } = await run(path, seed, "apply", draw(60));
    if (killed) cutShort++;
    const acknowledged = reports.find(({ retired }) => retired !== undefined)?.retired ?? [];
    for (const again of [false, true]) {
      if (again)
        for (const versionId of (await run(path, seed, "apply")).reports[0]?.going ?? [])
          assert.ok(going.has(versionId), where);
      const home = await openNodeHome(path);
      const repository = await openRepository(home, "fleet-a");
      assert.deepEqual((await repository.check()).problems, [], where);
      const retired = new Set(
        [...versions.keys()].filter((versionId) => repository.get(versionId)?.state === "retired"),
      );
      for (const versionId of retired) assert.ok(going.has(versionId), `${where}: ${versionId} was to stay`);
      for (const versionId of acknowledged)
        assert.ok(retired.has(versionId), `${where}: ${versionId} was acknowledged`);
      if (again) assert.deepEqual(retired, going, where);
      else if (retired.size > 0 && retired.size < going.size) partly++;
      for (const [versionId, modelSeed] of versions)
        if (!going.has(versionId) && draw(again ? 2 : 4) === 0)
          assert.ok(
            await sameTensors(repository, versionId, modelOfSeed(modelSeed)),
            `${where}: ${versionId} came back altered`,
          );
      await repository.close();
      await home.close();
    }
  }
  assert.ok(cutShort > 0, "no kill came before the worker's end");
  context.diagnostic(
    `${going.size} of ${versions.size} go; ${cutShort} of ${kills} cut short, ${partly} with some retired and some not`,
  );
});
