/** A fleet's own recipes: approved by hash, trained, replayed to the same bits, revoked, never run otherwise. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { ServerOperations } from "../../../../server/interface/api/server-operations.js";
import { openLocalOperations } from "../../../../server/operations/local-operations.js";
import { bundleId } from "../../../../shared/train/own-recipes/bundle.js";
import { recipeCommand } from "../../../../shared/train/own-recipes/confinement.js";
import { scaffold } from "../../../../shared/train/own-recipes/scaffold.js";
import { trainInChild } from "../../../../shared/train/train-in-child.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { jobFormat } from "../../../../shared/train/training.js";

const fleet = "cars";
const bundle = Buffer.from(scaffold.replace("default: 30", "default: 2"));
const base64 = (text: string | Buffer): string => Buffer.from(text).toString("base64");

describe("own recipes", () => {
  let home: string;
  let operations: ServerOperations;
  const open = async (): Promise<void> => {
    operations = await openLocalOperations({ home });
  };
  before(async () => {
    home = await mkdtemp(join(tmpdir(), "stemma-recipes-"));
    await open();
    // The tests are also run where there are no namespaces.
    await writeFile(join(home, "server.json"), '{"format":1,"recipes":{"confinement":"interpreter"}}');
    await operations.addDataset({
      fleet,
      name: "cells",
      kind: "battery-simulated",
      location: "",
      parameters: { cycles: 100, cells: 1 },
    });
  });
  after(async () => {
    await operations.close();
    await rm(home, { recursive: true, force: true });
  });
  const train = (recipe: string, base?: string): ReturnType<ServerOperations["train"]> =>
    operations.train({
      fleet,
      recipe,
      data: "cells",
      name: "own",
      base,
      seed: "3",
      parameters: { epochs: 1 },
    });

  it("are not run before they are approved", async () => {
    await assert.rejects(train("my-recipe"), { code: "RECIPE_UNKNOWN" });
    await assert.rejects(train(bundleId(bundle)), { code: "RECIPE_UNKNOWN" });
  });

  it("are refused where they are malformed, named like a built-in, or not what was looked at", async () => {
    const refused: readonly (readonly [string, Hash?])[] = [
      ["export const nothing = 1;"],
      ['import fs from "node:fs"; export const recipe = {};'],
      [scaffold.replace("my-recipe", "fine-tune")],
      [scaffold, bundleId(bundle)],
    ];
    for (const [text, expected] of refused)
      await assert.rejects(
        operations.approveRecipe({ fleet, bundle: base64(text), ...(expected && { expected }) }),
        (error: { code: string }) => ["RECIPE_INVALID", "RECIPE_FAILED"].includes(error.code),
      );
    assert.deepEqual(await operations.recipes({ fleet }), []);
  });

  it("train versions that are replayed to the same bits, from scratch and from a base", async () => {
    const dry = await operations.approveRecipe({ fleet, bundle: base64(bundle), dryRun: true });
    assert.equal(dry.approved, false);
    const { recipe } = await operations.approveRecipe({ fleet, bundle: base64(bundle), because: "read" });
    assert.equal(recipe, bundleId(bundle));
    const first = await train("my-recipe");
    assert.equal(first.summary.record.uses?.recipe, recipe);
    await train(recipe.slice(0, 12), "own:1");
    assert.equal((await operations.replay({ fleet, model: "own:2" })).verdict, "proved");
    // Else a revoked approval would lose them.
    const dropping = await operations.dropTensors({ fleet, models: ["own:2"], dryRun: true });
    assert.deepEqual([dropping.dropped.length, dropping.kept[0]?.isFit], [0, false]);
    const [listed] = await operations.recipes({ fleet });
    assert.deepEqual([listed?.versions, listed?.isStored, listed?.because], [2, true, "read"]);
  });

  it("stay after a restart and a collection, and are not run once they are revoked", async () => {
    await operations.close();
    await open();
    await operations.collect({ fleet, ...(await operations.planCollection({ fleet })) });
    assert.equal((await operations.replay({ fleet, model: "own:1" })).verdict, "proved");
    const left = await operations.revokeRecipe({ fleet, recipe: "my-recipe", because: "wrong" });
    assert.equal(left[0]?.revoked?.because, "wrong");
    await assert.rejects(train("my-recipe"), { code: "RECIPE_NOT_APPROVED" });
    const replayed = await operations.replay({ fleet, model: "own:1" });
    assert.deepEqual([replayed.verdict, replayed.reason], ["unreplayable", "recipe-not-approved"]);
    assert.deepEqual((await operations.check({ fleet })).problems, []);
    await assert.rejects(operations.revokeRecipe({ fleet, recipe: "my-recipe" }), {
      code: "RECIPE_NOT_APPROVED",
    });
    await operations.approveRecipe({ fleet, bundle: base64(bundle) });
    assert.equal((await operations.replay({ fleet, model: "own:2" })).verdict, "proved");
  });

  it("are refused where the bundle was changed after its hash was taken", async () => {
    const file = join(home, "changed.mjs");
    await writeFile(file, `${scaffold}\n`);
    await assert.rejects(
      trainInChild(
        {
          format: jobFormat,
          recipe: "my-recipe",
          ownRecipe: { id: bundleId(bundle), file, command: await recipeCommand("interpreter") },
          parameters: {},
          dataset: { reader: "battery-simulated", parameters: {} },
          seed: "1",
          invocation: 0,
        },
        { workFolder: join(home, "changed") },
      ),
      { code: "RECIPE_INVALID" },
    );
  });
});
