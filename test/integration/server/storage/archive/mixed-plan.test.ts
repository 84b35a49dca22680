/** Plans count that mixed bits take long to decode. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { encodingCodes } from "../../../../../shared/delta/encoded.js";
import { typeCases } from "../../../../bench/type-cases.js";
import {
  alteredModels,
  applyToFleet,
  planFleet,
  testRates,
  type FleetModel,
} from "../../../../helpers/archive-fleet.js";
import { memoryFleet } from "./memory-fleet.js";

const { tensor } = typeCases(16).find(({ name }) => name === "I32 tokens alone") ?? assert.fail();
const models: readonly FleetModel[] = [{ name: "tokens", tensors: [{ name: "ids", ...tensor }] }];

it("mixed bits are planned without a budget, at their cost, and not within a short one", async () => {
  const { repository, ids } = await memoryFleet(models);
  const bounded = await planFleet(repository, { ratio: 2 });
  assert.deepEqual(
    bounded.plan.vertices.map(({ kind }) => kind),
    ["current"],
  );
  const free = await planFleet(repository, { ratio: null });
  const [vertex] = free.plan.vertices;
  assert.equal(vertex?.kind, "packed");
  assert.ok(vertex.recreationCost >= testRates.mixedUsPerByte * tensor.bytes.length);
  assert.deepEqual((await applyToFleet(repository, free)).failed, []);
  const [leaf] = await repository.leaves(ids.get("tokens")!);
  assert.equal(repository.objects.encodingOf(leaf!.tensor)?.code, encodingCodes.mixed);
  assert.deepEqual(await alteredModels(repository, models, ids), []);
  const again = await planFleet(repository, { ratio: null });
  assert.ok((again.plan.vertices[0]?.recreationCost ?? 0) >= testRates.mixedUsPerByte * tensor.bytes.length);
});
