/** Trials of a fleet's own recipes. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { checkRecipe, tryRecipe } from "../../../../server/learning/training/check-recipe.js";
import { recipeWithOwnLoss } from "../../../helpers/recipe-with-own-loss.js";
import { nodeClock } from "../../../../shared/adapters/node-ports.js";
import { scaffold } from "../../../../shared/train/own-recipes/scaffold.js";

const bundle = Buffer.from(scaffold.replace("default: 30", "default: 2"));

describe("a trial of a recipe", () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-trial-"));
  });
  after(() => rm(folder, { recursive: true, force: true }));
  const trial = (source: string | Buffer, name: string): Parameters<typeof checkRecipe>[0] => ({
    bundle: Buffer.from(source),
    confinement: "interpreter",
    parameters: { epochs: 1 },
    seed: "1",
    folder: join(folder, name),
    clock: nodeClock(),
    limits: { maxMinutes: 5, mostMinutes: 5, memoryLimitMb: 1024 },
  });

  it("gives the same tensors in two processes with one and two threads", async () => {
    const { tensors, threads } = await checkRecipe(trial(bundle, "exact"));
    assert.deepEqual([tensors, threads], [4, [1, 2]]);
  });

  it("gives the same tensors by a loss of its own, on samples that it moves and makes noisy", async () => {
    const own = recipeWithOwnLoss.replace("default: 30", "default: 2");
    const { outcome } = await checkRecipe(trial(own, "own"));
    const { loss, augmentation, random } = outcome.result.provenance as Record<string, unknown>;
    assert.deepEqual([loss, augmentation], ["own", "own"]);
    const drawn = (random as { streams: Record<string, number> }).streams["augmentation"] ?? 0;
    assert.ok(drawn > 31 * outcome.result.samples.train, "a word or more for each number of each sample");
    const { metric } = outcome.result;
    assert.ok(metric !== null && metric.after < metric.before, JSON.stringify(metric));
    const twice = own.replace("frozenLayers: []", 'frozenLayers: [], loss: "mean-absolute-error"');
    await assert.rejects(tryRecipe(trial(twice, "twice")), { code: "RECIPE_INVALID" });
    const wide = own.replace(".mean();", ";");
    await assert.rejects(tryRecipe(trial(wide, "wide-loss")), /operation|result/);
  });

  it("ends with a typed error where the network does not fit the data, or layers are frozen that are not there", async () => {
    const wide = scaffold.replace("data.targetSize, data.targetMeans", "3");
    await assert.rejects(tryRecipe(trial(wide, "wide")), { code: "ARCHITECTURE_MISMATCH" });
    const frozen = scaffold.replace("frozenLayers: []", "frozenLayers: [99]");
    await assert.rejects(tryRecipe(trial(frozen, "frozen")), { code: "RECIPE_INVALID" });
  });
});
