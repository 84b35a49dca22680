/** Plans store what follows from another tensor as what it follows from. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import { derive, type Derivation } from "../../../../shared/delta/derived/derivation.js";
import { alteredModels, applyToFleet, planFleet, type FleetModel } from "../../../helpers/archive-fleet.js";
import { weights } from "../../../helpers/related-tensors.js";
import { memoryFleet } from "./memory-fleet.js";

const dense = weights([96, 64], 1);
const child = (how: Partial<Derivation>): ReturnType<typeof derive> =>
  derive([dense], { averaged: 1, dtype: "F32", ...how });
const models: readonly FleetModel[] = [
  { name: "base", tensors: [{ name: "w", ...dense }] },
  { name: "half", base: "base", tensors: [{ name: "w", ...child({ dtype: "BF16" }) }] },
  { name: "turned", base: "base", tensors: [{ name: "w", ...child({ axes: [1, 0] }) }] },
];

it("a cast and a transposed tensor take a few bytes, stay so, and every model is given back", async () => {
  const { repository, ids } = await memoryFleet(models);
  const report = await applyToFleet(repository, await planFleet(repository, { ratio: null }));
  assert.deepEqual(report.failed, []);
  for (const name of ["half", "turned"]) {
    const [leaf] = await repository.leaves(ids.get(name)!);
    const encoding = repository.objects.encodingOf(leaf!.tensor) ?? assert.fail();
    assert.equal(encoding.code, encodingCodes.derived, name);
    assert.ok(encoding.storedBytes < 10, `${name}: ${encoding.storedBytes} bytes`);
  }
  assert.deepEqual(await alteredModels(repository, models, ids), []);
  const again = await planFleet(repository, { ratio: null });
  assert.ok(again.plan.vertices.every(({ kind }) => kind === "current"));
});
