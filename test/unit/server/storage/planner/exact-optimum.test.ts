/**
 * Plans of small repositories against the optimum. An integer program solver (HiGHS 1.x, run once by hand) found the
 * optima, each proved to 0.02 %; its program has a variable for every edge, and recreation costs along them.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { searchTree } from "../../../../../server/storage/planner/plan-storage.js";
import { StorageTree } from "../../../../../server/storage/planner/storage-tree.js";
import { generateRepository, rdLike } from "../../../../helpers/generated-repository.js";

/** Of the two repositories like RD whose plans are farthest from their lower bound: seed, storage of the optimum. */
const smallDeltas = [
  [1, 117_981_240],
  [4, 121_548_612],
  [5, 119_903_782],
  [6, 92_946_282],
] as const;
const manyCheckpoints = [
  [1, 122_407_749],
  [6, 134_648_156],
] as const;

function storageOf(name: string, options: Parameters<typeof generateRepository>[0]): number {
  const graph = generateRepository(options);
  const { tree, header } = searchTree(graph, { ratio: 1.6 });
  assert.equal(header.isCutShort, false, name);
  return new StorageTree(graph, tree).storageCost;
}

test("plans of small repositories are within 0.3 % of the optimum", () => {
  const cases = [
    ...smallDeltas.map(([seed, optimum]) => {
      const size = { seed, versions: 2, checkpoints: 4, tensors: 3 };
      return {
        optimum,
        storage: storageOf(`small deltas, ${seed}`, { ...rdLike["small deltas"]!, ...size }),
      };
    }),
    ...manyCheckpoints.map(([seed, optimum]) => {
      const size = { seed, versions: 1, checkpoints: 8, tensors: 3 };
      const options = { ...rdLike["few versions, many checkpoints"]!, ...size };
      return { optimum, storage: storageOf(`many checkpoints, ${seed}`, options) };
    }),
  ];
  for (const { optimum, storage } of cases) {
    assert.ok(storage <= 1.003 * optimum, `${storage} of ${optimum}`);
    assert.ok(storage >= (1 - 0.0003) * optimum, `${storage} is below the optimum ${optimum}`);
  }
});
