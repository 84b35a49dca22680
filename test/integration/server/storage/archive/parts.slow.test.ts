/** Parts of a fleet that are stored one after the other do not make chains longer. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { maxPlannedDepth } from "../../../../../server/storage/archive/planned-depth.js";
import { alteredModels, fineTunedFamily } from "../../../../helpers/archive-fleet.js";
import { applyInParts } from "./in-parts.js";
import { memoryFleet, tensorsOf } from "./memory-fleet.js";

it("a fleet in parts has no longer chains than one plan makes", async () => {
  const { repository, ids, models } = await memoryFleet(fineTunedFamily("long", 5, maxPlannedDepth + 6));
  const { report } = await applyInParts(repository, { ratio: null });
  assert.deepEqual([report.failed, report.stale], [[], []]);
  const depths = tensorsOf(repository).map((id) => repository.objects.encodingOf(id)!.depth);
  const deepest = Math.max(...depths);
  assert.ok(deepest > 6 && deepest <= maxPlannedDepth, `${deepest}`);
  assert.deepEqual(await alteredModels(repository, models, ids), []);
});
