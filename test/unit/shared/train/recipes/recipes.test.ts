/**
 * The promises of recipes: checked parameters, and a held-out metric that improves over the base for every
 * vehicle.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { isStemmaError } from "../../../../../shared/errors.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { fuseActivations } from "../../../../../shared/train/backends/fused-layers.js";
import { startWasmBackend, type StartedBackend } from "../../../../../shared/train/backends/wasm.js";
import { listRecipes, recipeByName, recipes } from "../../../../../shared/train/recipes/registry.js";
import type { Parameters } from "../../../../../shared/train/recipes/recipe.js";
import { describeMetric } from "../../../../../shared/train/result-metadata.js";
import { runTraining, type TrainedModel } from "../../../../../shared/train/run-training.js";
import { jobFormat, type DatasetReference } from "../../../../../shared/train/training.js";
import { drawn, isFull } from "../../../../helpers/test-depth.js";

const dataFolder = resolve(process.env["STEMMA_DATA"] ?? "../shared/data");
const real = (name: string): string | false =>
  existsSync(join(dataFolder, name)) ? false : `no ${name} below ${dataFolder}; set STEMMA_DATA`;

let backend: StartedBackend;
before(async () => {
  backend = await startWasmBackend();
});
after(() => {
  backend.close();
});

function train(
  recipe: string,
  dataset: DatasetReference,
  base?: TrainedModel,
  parameters: Parameters = {},
): Promise<TrainedModel> {
  return runTraining(
    { format: jobFormat, recipe, parameters, dataset, seed: "1", invocation: 0 },
    base && { model: base.model },
    {
      tf: backend.tf,
      files: nodeFiles(),
      monotonic: () => performance.now(),
      engine: "0".repeat(64) as Hash,
      backend: { backend: "wasm", reason: "test" },
      environment: {},
      fuseActivations,
    },
  );
}

/**
 * Asserts that base training learns and fine-tuning improves a vehicle that the run's seed draws (each with
 * STEMMA_TEST_FULL=1); prints the metrics.
 */
async function gains(
  recipe: string,
  base: DatasetReference,
  vehicles: readonly DatasetReference[],
  parameters: Parameters = {},
): Promise<void> {
  const trained = await train(recipe, base);
  const better = ({ metric }: TrainedModel["result"]): boolean =>
    metric!.lowerIsBetter ? metric!.after < metric!.before : metric!.after > metric!.before;
  const show = (name: string, { metric, epochs, durationMs }: TrainedModel["result"]): string =>
    `${recipe} ${name}: ${describeMetric(metric)} (${epochs} epochs, ${durationMs} ms)`;
  console.log(show("base", trained.result));
  assert.ok(better(trained.result));
  for (const dataset of drawn(vehicles, 1)) {
    const { result } = await train(recipe, dataset, trained, parameters);
    console.log(show(`${dataset.reader} ${JSON.stringify(dataset.parameters)}`, result));
    assert.ok(better(result), `${recipe} on ${JSON.stringify(dataset.parameters)}`);
  }
}

const simulated = (vehicle: number): DatasetReference => ({
  reader: "battery-simulated",
  parameters: { vehicle },
});
const generated = (vehicle: number): DatasetReference => ({
  reader: "images-generated",
  parameters: { vehicle, count: 400 },
});
const nasa = (...cells: string[]): DatasetReference => ({
  reader: "nasa-battery",
  location: join(dataFolder, "nasa-battery"),
  parameters: { cells },
});
const digits = (vehicle: number): DatasetReference => ({
  reader: "mnist",
  location: join(dataFolder, "mnist"),
  parameters: { vehicle },
});

describe("recipes", () => {
  it("have unique names, versions, and valid defaults", () => {
    assert.equal(new Set(recipes.map(({ name }) => name)).size, recipes.length);
    for (const recipe of recipes)
      for (const fineTuning of [false, true]) {
        const defaults = recipe.resolve({}, fineTuning);
        assert.deepEqual(recipe.resolve(defaults, fineTuning), defaults, recipe.name);
        assert.deepEqual(
          Object.keys(defaults),
          recipe.parameterInfo(fineTuning).map(({ name }) => name),
        );
      }
    assert.deepEqual(
      listRecipes().map(({ name, version }) => [name, version]),
      recipes.map(({ name, version }) => [name, version]),
    );
  });
  it("reject unknown and invalid parameters", () => {
    const refused = (passed: Parameters): void => {
      assert.throws(
        () => recipeByName("battery-soh").resolve(passed, true),
        (error) => isStemmaError(error, "RECIPE_PARAMETERS_INVALID"),
        JSON.stringify(passed),
      );
    };
    const wrong: Parameters[] = [
      { colour: 1 },
      { epochs: 0 },
      { epochs: 1.5 },
      { epochs: "3" },
      { learningRate: -1 },
      { trainable: "some" },
      { keepOptimizer: "yes" },
      Object.fromEntries([["constructor", 1]]),
    ];
    wrong.forEach(refused);
    assert.throws(
      () => recipeByName("nothing"),
      (error) => isStemmaError(error, "RECIPE_UNKNOWN"),
    );
  });
  it("stop a battery training as ModelX does: patience 5, at most 50 epochs (CH5)", () => {
    const { epochs, patience } = recipeByName("battery-soh").resolve({}, true);
    assert.deepEqual({ epochs, patience }, { epochs: 50, patience: 5 });
  });
  it("battery-soh: simulated vehicles improve", () =>
    gains("battery-soh", simulated(0), [1, 2, 3, 4].map(simulated)));
  it("battery-soh-gru: simulated vehicles improve", () =>
    gains("battery-soh-gru", simulated(0), [1, 2].map(simulated)));
  it("battery-soh: NASA's cells improve", { skip: real("nasa-battery") }, () =>
    gains("battery-soh", nasa("B0005", "B0006"), [nasa("B0007"), nasa("B0018")]),
  );
  it("image-classify: vehicles with generated images improve", () =>
    gains("image-classify", generated(0), [1, 2].map(generated)));
  it(
    "image-classify: vehicles with MNIST gain, with the head alone",
    { skip: real("mnist") || (isFull ? false : "a long one: set STEMMA_TEST_FULL=1") },
    () => gains("image-classify", digits(0), [1, 2, 3].map(digits), { trainable: "head" }),
  );
  it(
    "image-classify: vehicles with MNIST improve",
    { skip: real("mnist") || (isFull ? false : "a long one: set STEMMA_TEST_FULL=1") },
    () => gains("image-classify", digits(0), [1, 2, 3].map(digits)),
  );
  it(
    "image-mobilenet: learns, and a vehicle gains",
    { skip: isFull ? false : "a long one: set STEMMA_TEST_FULL=1" },
    () =>
      gains("image-mobilenet", { reader: "images-generated", parameters: { count: 800 } }, [
        { reader: "images-generated", parameters: { vehicle: 1, count: 300 } },
      ]),
  );
});
