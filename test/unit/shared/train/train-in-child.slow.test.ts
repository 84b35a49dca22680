/** The engine's bundle built elsewhere, and the optimizer's state over processes. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, readFile, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { builtInEngineFolder, engineIdOfFolder } from "../../../../shared/train/engine-folder.js";
import { readOptimizerFile } from "../../../../shared/train/engine/model-files.js";
import type { TrainingOutcome } from "../../../../shared/train/train-in-child.js";
import { bytes, engineRuns, refusal } from "./engine-runs.js";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../../../..");
const { folder, run, runPlain } = engineRuns();

describe("training engine", () => {
  it("is the same when it is built in another folder, and contains no path", async () => {
    const elsewhere = join(folder(), "another place", "checkout");
    await mkdir(elsewhere, { recursive: true });
    for (const part of ["shared", "launcher", "package.json", "tsconfig.json"])
      await cp(join(root, part), join(elsewhere, part), { recursive: true });
    await symlink(join(root, "node_modules"), join(elsewhere, "node_modules"));
    const { stdout } = await promisify(execFile)(process.execPath, [join(elsewhere, "launcher/engine.mjs")], {
      cwd: tmpdir(),
    });
    assert.equal(stdout.trim(), await engineIdOfFolder(builtInEngineFolder()));
    const text = await readFile(join(elsewhere, "dist/engine/engine.mjs"), "utf8");
    for (const path of [root, elsewhere, "sourceMappingURL", "node_modules/"])
      assert.ok(!text.includes(path), path);
  });

  it("keeps the optimizer's state and continues from it as if the training had not been interrupted", async () => {
    // A resumed training draws another order of samples, so the data has one batch per epoch here.
    const oneBatch = { batchSize: 4096, patience: 0, keepOptimizer: true };
    const straight = await run({ parameters: { ...oneBatch, epochs: 4 } });
    const half = await run({ parameters: { ...oneBatch, epochs: 2, checkpointEveryEpochs: 1 } });
    assert.equal(half.checkpoints.length, 2);
    for (const { file } of half.checkpoints) assert.ok(existsSync(file), file);
    const state = await readOptimizerFile(await readFile(half.optimizerFile!), "half");
    assert.deepEqual([state.name, state.iterations], ["adam", 2]);
    const resumed = await run({
      base: { folder: half.folder },
      parameters: { ...oneBatch, epochs: 2, resumeOptimizer: true },
    });
    const fresh = await run({ base: { folder: half.folder }, parameters: { ...oneBatch, epochs: 2 } });
    const loss = (outcome: TrainingOutcome): number => outcome.result.measurements.at(-1)!.loss;
    assert.ok(
      Math.abs(loss(resumed) - loss(straight)) < 1e-5 * loss(straight),
      `${loss(resumed)} and ${loss(straight)}`,
    );
    assert.notEqual(await bytes(fresh), await bytes(resumed));
    assert.equal((await readOptimizerFile(await readFile(resumed.optimizerFile!), "resumed")).iterations, 4);
    await assert.rejects(
      run({ base: { folder: (await runPlain()).folder }, parameters: { resumeOptimizer: true } }),
      refusal("RECIPE_PARAMETERS_INVALID"),
    );
  });
});
