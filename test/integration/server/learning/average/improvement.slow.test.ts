/**
 * Four vehicles fine-tune one base, each on its own pictures through its own camera: on the held-out pictures of all of
 * them, the average is better than the base and than each vehicle's model alone.
 */
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { AveragedFleet, fleet } from "./averaged-fleet.js";

const vehicles = [1, 2, 3, 4];
const metricOf = ({ metric }: { readonly metric: { readonly value: number | null } }): number =>
  metric.value ?? Number.NaN;

let home: AveragedFleet;
before(async () => {
  home = await AveragedFleet.open();
});
after(() => home.remove());

it("is better than each of its models over all vehicles", async (t) => {
  const { operations } = home;
  const recipe = "image-classify";
  for (const vehicle of [0, ...vehicles])
    await operations.addDataset({
      fleet,
      name: `v${vehicle}`,
      kind: "images-generated",
      location: "",
      parameters: { vehicle },
    });
  const base = { name: "base", data: "v0", seed: "1", parameters: { epochs: 2, filters: 4 } };
  await operations.train({ fleet, recipe, ...base });
  for (const vehicle of vehicles)
    await operations.train({
      fleet,
      recipe,
      data: `v${vehicle}`,
      base: "base",
      name: `m${vehicle}`,
      seed: String(vehicle),
      parameters: { epochs: 3 },
    });
  await operations.mergeModels({ fleet, models: vehicles.map((vehicle) => `m${vehicle}`), name: "average" });
  const accuracyOf = async (model: string): Promise<number> => {
    let sum = 0;
    for (const vehicle of vehicles)
      sum += metricOf(await operations.evaluate({ fleet, model, data: `v${vehicle}`, store: false }));
    return sum / vehicles.length;
  };
  const average = await accuracyOf("average");
  t.diagnostic(`average ${average.toFixed(1)} %`);
  for (const model of ["base", ...vehicles.map((vehicle) => `m${vehicle}`)]) {
    const alone = await accuracyOf(model);
    t.diagnostic(`${model} ${alone.toFixed(1)} %`);
    assert.ok(average > alone, model);
  }
  assert.equal((await operations.replay({ fleet, model: "average" })).verdict, "proved");
});
