/** Differences of real trainings, as MERIT's listings 1, 2, 3 and 5 state them (MERIT 2023, §5.6 and app. C; ME11). */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { exampleTable } from "../../../../helpers/example-table.js";

const fleet = "local";
let folder: string;
let operations: ServerOperations;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "stemma-listings-"));
  operations = await openLocalOperations({ home: join(folder, "home") });
  const location = join(folder, "table.csv");
  await writeFile(location, exampleTable());
  const parameters = { task: "classification", ignored: "sum,odd,large", scaling: "standard" };
  await operations.addDataset({ fleet, name: "words", kind: "csv", location, parameters });
});
after(async () => {
  await operations.close();
  await rm(folder, { recursive: true, force: true });
});

async function train(
  name: string,
  recipe: string,
  parameters: Readonly<Record<string, number | string>> = {},
): Promise<void> {
  await operations.train({ fleet, name, recipe, data: "words", parameters, seed: "12345" });
}

/** All differences but times, which must be there: two trainings never take place at the same time. */
async function differencesOf(a: string, b: string): Promise<Record<string, unknown>> {
  const { provenance } = await operations.diff({ fleet, a, b, labels: "original,reproduced" });
  assert.ok(provenance !== undefined);
  const { times, ...others } = provenance.differences as Record<string, Record<string, object>>;
  assert.deepEqual(Object.keys(times?.["endedAtMs"] ?? {}), ["original", "reproduced"]);
  assert.equal(provenance.sameStory, Object.keys(others).length === 0);
  return others;
}

const of = (original: unknown, reproduced: unknown): object => ({ original, reproduced });

describe("MERIT's listings", () => {
  before(() => train("model", "logistic-regression"));

  it("1: of a model and its reproduction, times alone", async () => {
    await train("again", "logistic-regression");
    assert.deepEqual(await differencesOf("model", "again"), {});
  });

  it("2: of two kinds of ensemble, the parameters of both, and nothing of the inner trainer that they share", async () => {
    await train("bagging", "bagging", { members: 2 });
    await train("subspaces", "random-subspaces", { members: 2 });
    const { recipe, parameters, random, course, ...others } = await differencesOf("bagging", "subspaces");
    assert.deepEqual(recipe, { name: of("bagging", "random-subspaces") });
    assert.deepEqual(parameters, { shareThousandths: { value: of(1000, 500) } });
    const [samples, columns] = [{ original: 72 }, { reproduced: 2 }];
    assert.deepEqual(random, {
      streams: {
        "member/0/samples": samples,
        "member/1/samples": samples,
        "member/0/columns": columns,
        "member/1/columns": columns,
      },
    });
    assert.deepEqual(
      Object.keys(course as object),
      ["frozenLayers"],
      "layers of zeros and ones are not trained",
    );
    assert.deepEqual(others, {});
  });

  it("3: of 5 and 15 epochs, that parameter and its consequences", async () => {
    await train("longer", "logistic-regression", { epochs: 15 });
    const { parameters, course, random, ...others } = await differencesOf("model", "longer");
    assert.deepEqual(parameters, { epochs: { value: of(5, 15), from: of("default", "call") } });
    assert.deepEqual((course as Record<string, unknown>)["epochs"], of(5, 15));
    assert.deepEqual(Object.keys((random as { streams: object }).streams), ["order"]);
    assert.deepEqual(others, {});
  });

  it("5: of two optimizers, their settings", async () => {
    await train("adam", "logistic-regression", { optimizer: "adam" });
    const { parameters, state, ...others } = await differencesOf("model", "adam");
    assert.deepEqual(parameters, {
      optimizer: { value: of("adagrad", "adam"), from: of("default", "call") },
    });
    // Every optimizer's record has the settings of all kinds.
    assert.deepEqual(state, {
      optimizer: {
        settings: {
          name: of("adagrad", "adam"),
          initialAccumulator: of(0, 0.1),
        },
      },
    });
    assert.deepEqual(others, {});
  });
});
