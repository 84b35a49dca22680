/** The planner is offered no difference that it could never gain by. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { withoutDominated } from "../../../../../server/storage/archive/measure-graph.js";
import { minimumArborescence } from "../../../../../server/storage/planner/minimum-arborescence.js";
import { buildStorageGraph, type EdgeInput } from "../../../../../server/storage/planner/storage-graph.js";
import { minRecreationCosts } from "../../../../../server/storage/planner/shortest-path-tree.js";
import { StorageTree } from "../../../../../server/storage/planner/storage-tree.js";

const edge = (kind: string, storageCost: number, recreationCost: number, from?: string): EdgeInput => ({
  to: "t",
  kind,
  storageCost,
  recreationCost,
  ...(from === undefined ? {} : { from }),
});
const kindsLeft = (edges: readonly EdgeInput[]): readonly string[] =>
  withoutDominated(edges).map(({ kind }) => kind);

test("a difference that is neither smaller nor faster than a form alone is left out", () => {
  const raw = edge("raw", 100, 10);
  assert.deepEqual(kindsLeft([raw, edge("delta", 100, 10, "b")]), ["raw"]);
  assert.deepEqual(kindsLeft([raw, edge("delta", 99, 90, "b")]), ["raw", "delta"], "smaller");
  assert.deepEqual(kindsLeft([raw, edge("delta", 200, 9, "b")]), ["raw", "delta"], "faster");
  const packed = edge("packed", 60, 30);
  assert.deepEqual(kindsLeft([raw, packed, edge("delta", 80, 20, "b")]), ["raw", "packed", "delta"]);
});

test("the present storage stays, and an average's parts do not count for its time", () => {
  const raw = edge("raw", 100, 10);
  assert.deepEqual(kindsLeft([raw, edge("current", 150, 50, "b")]), ["raw", "current"]);
  const average = { ...edge("delta", 120, 60, "b"), detail: { previous: "c", apart: true, apartUs: 55 } };
  assert.deepEqual(kindsLeft([raw, average]), ["raw", "delta"]);
});

test("the smallest and the fastest storage are the same without them", () => {
  const cost = fc.integer({ min: 0, max: 20 });
  const vertices = ["a", "b", "c", "d"].map((id) => ({ id, byteLength: 1 }));
  const edgesInto = (to: string): fc.Arbitrary<EdgeInput[]> =>
    fc
      .tuple(
        cost,
        cost,
        fc.array(
          fc.record({ from: fc.constantFrom("a", "b", "c", "d"), storageCost: cost, recreationCost: cost }),
        ),
      )
      .map(([storageCost, recreationCost, deltas]) => [
        { to, kind: "raw", storageCost, recreationCost },
        ...deltas.filter(({ from }) => from !== to).map((delta) => ({ ...delta, to, kind: "delta" })),
      ]);
  fc.assert(
    fc.property(fc.tuple(...vertices.map(({ id }) => edgesInto(id))), (lists) => {
      const [all, fewer] = [lists, lists.map(withoutDominated)].map((edges) =>
        buildStorageGraph({ vertices, edges: edges.flat(), snapshots: [] }),
      );
      const [least, leastOfFewer] = [all!, fewer!].map((graph) => {
        const tree = minimumArborescence(graph, { first: graph.storage, second: graph.recreation });
        return new StorageTree(graph, tree).storageCost;
      });
      assert.equal(leastOfFewer, least);
      assert.deepEqual(minRecreationCosts(fewer!), minRecreationCosts(all!));
    }),
  );
});
