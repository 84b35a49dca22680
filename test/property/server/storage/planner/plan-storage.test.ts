/**
 * Every plan of random graphs is a spanning arborescence, keeps its budgets, has costs that add up, is never
 * worse than an algorithm of the paper, and is optimal where all trees can be tried.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../../helpers/property-seed.js";
import {
  budgetsByRatio,
  isWithin,
  limitsOf,
  LimitMeter,
} from "../../../../../server/storage/planner/budgets.js";
import { minimumStorageTree } from "../../../../../server/storage/planner/minimum-arborescence.js";
import { referenceTrees } from "../../../../../server/storage/planner/plan-storage.js";
import { planStorage } from "../../../../helpers/plan-storage.js";
import {
  planningSchemes,
  snapshotCosts,
  type PlanningScheme,
} from "../../../../../server/storage/planner/retrieval.js";
import {
  minRecreationCosts,
  shortestPathTree,
} from "../../../../../server/storage/planner/shortest-path-tree.js";
import { checkPlan, type StoragePlan } from "../../../../../server/storage/planner/storage-plan.js";
import { StorageTree } from "../../../../../server/storage/planner/storage-tree.js";
import { TreeEditor } from "../../../../../server/storage/planner/tree-editor.js";
import { seededNumbers } from "../../../../helpers/manual-clock.js";
import { storageBound } from "../../../../helpers/storage-bound.js";
import { costsOfPlan, exhaustiveOptimum, randomStorageGraph } from "../../../../helpers/storage-graphs.js";
import { depth, isFull } from "../../../../helpers/test-depth.js";

const seeds = fc.integer({ min: 0, max: 2 ** 31 - 1 });
const schemes = fc.constantFrom<PlanningScheme>(...planningSchemes);

test("a plan stores every vertex once, has the costs that it states, keeps budgets, survives JSON, and is no worse than any algorithm of the paper", () => {
  fc.assert(
    fc.property(
      fc.tuple(
        seeds,
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 1, max: 12 }),
        schemes,
        fc.array(fc.integer({ min: 4, max: 16 }), { minLength: 12, maxLength: 12 }),
      ),
      ([seed, vertices, snapshots, scheme, quarters]) => {
        const graph = randomStorageGraph(seed, { vertices, edgesPerVertex: 4, snapshots });
        const least = snapshotCosts(graph, minRecreationCosts(graph), scheme);
        const budgets = least.map((cost, s) => (cost * quarters[s]!) / 4);
        const plan = planStorage(graph, { costs: budgets }, { scheme, effort: 5000, seed });
        const { storage, recreationOf } = costsOfPlan(plan);
        assert.deepEqual(plan.vertices.map(({ vertex }) => vertex).sort(), graph.vertexIds.slice(1).sort());
        assert.equal(storage, plan.storageCost);
        const seen = new Set<string | null>([null]);
        for (const { vertex, from } of plan.vertices) {
          assert.ok(seen.has(from), "a source is listed before what is rebuilt from it");
          seen.add(vertex);
        }
        plan.snapshots.forEach((snapshot, s) => {
          const costs = [
            ...graph.members.items.subarray(graph.members.start[s], graph.members.start[s + 1]),
          ].map((v) => recreationOf(graph.vertexIds[v]!));
          assert.equal(
            snapshot.independent,
            costs.reduce((a, b) => a + b, 0),
          );
          assert.equal(snapshot.parallel, Math.max(0, ...costs));
          assert.ok(snapshot.reusable <= snapshot.independent && snapshot.reusable >= snapshot.parallel);
          assert.ok(isWithin(snapshot[scheme], budgets[s]!), `${snapshot[scheme]} within ${budgets[s]}`);
        });
        checkPlan(graph, JSON.parse(JSON.stringify(plan)) as StoragePlan);
        for (const { algorithm, tree } of referenceTrees(graph, budgets, { scheme })) {
          const reference = new StorageTree(graph, tree);
          const keeps = snapshotCosts(graph, reference.recreation, scheme).every((cost, s) =>
            isWithin(cost, budgets[s]!),
          );
          if (algorithm === "spt" || algorithm === "last")
            assert.ok(keeps, `${algorithm} always keeps budgets`);
          if (keeps)
            assert.ok(
              plan.storageCost <= reference.storageCost,
              `${algorithm} stores ${reference.storageCost}, the plan ${plan.storageCost}`,
            );
          if (algorithm === "mst")
            assert.ok(
              plan.storageCost >= reference.storageCost && plan.leastStorageCost === reference.storageCost,
            );
        }
      },
    ),
    { numRuns: depth(30, 2_000) },
  );
});

test("on tiny graphs the plan is the best of all trees", () => {
  let optimal = 0;
  let tried = 0;
  fc.assert(
    fc.property(
      seeds,
      fc.integer({ min: 4, max: 7 }),
      schemes,
      fc.constantFrom(1, 1.1, 1.25, 1.5, 2),
      (seed, vertices, scheme, ratio) => {
        const graph = randomStorageGraph(seed, { vertices, edgesPerVertex: 3, snapshots: 3 });
        const budgets = budgetsByRatio(graph, minRecreationCosts(graph), ratio, scheme);
        const optimum = exhaustiveOptimum(graph, budgets, scheme);
        const bound = storageBound(graph, { budgets, scheme, planned: 2 * optimum, steps: 20 });
        assert.ok(bound <= optimum * (1 + 1e-6), `a bound of ${bound}, the optimum is ${optimum}`);
        const { storageCost } = planStorage(graph, { ratio }, { scheme, effort: 2e5 });
        assert.ok(storageCost >= optimum, "nothing beats trying all");
        tried++;
        if (storageCost === optimum) optimal++;
        assert.ok(storageCost <= optimum * 1.1, `seed ${seed}: ${storageCost}, the optimum is ${optimum}`);
      },
    ),
    { numRuns: depth(60, 2_000), seed: 20_260 },
  );
  // The sample is fixed and so are the plans; in the full count the search misses a few (measured: 4 of
  // 2,000, at this effort).
  assert.ok(optimal >= (isFull ? 0.995 * tried : tried), `${optimal} of ${tried} plans are optimal`);
});

test("non-integer costs keep budgets and add up too", () => {
  fc.assert(
    fc.property(seeds, schemes, fc.double({ min: 1, max: 3, noNaN: true }), (seed, scheme, ratio) => {
      const integerCosts = randomStorageGraph(seed, { vertices: 40, edgesPerVertex: 4, snapshots: 6 });
      const random = seededNumbers(seed);
      const graph = {
        ...integerCosts,
        storage: integerCosts.storage.map((cost) => cost * (0.5 + random())),
        recreation: integerCosts.recreation.map((cost) => cost * (0.5 + random())),
      };
      for (let v = 0; v < graph.vertexCount; v++)
        graph.incoming.items
          .subarray(graph.incoming.start[v], graph.incoming.start[v + 1])
          .sort((a, b) => graph.storage[a]! - graph.storage[b]!);
      checkPlan(graph, planStorage(graph, { ratio }, { scheme, effort: 2e4, seed }));
    }),
    { numRuns: depth(20, 1_000) },
  );
});

test("the bookkeeping of limits stays correct under any moves, and moves are undone completely", () => {
  fc.assert(
    fc.property(seeds, schemes, fc.integer({ min: 1, max: 3 }), (seed, scheme, ratio) => {
      const graph = randomStorageGraph(seed, { vertices: 20, edgesPerVertex: 4, snapshots: 5 });
      const random = seededNumbers(seed);
      const limits = limitsOf(graph, budgetsByRatio(graph, minRecreationCosts(graph), ratio, scheme), scheme);
      const editor = new TreeEditor(new LimitMeter(new StorageTree(graph, shortestPathTree(graph)), limits), {
        steps: Number.POSITIVE_INFINITY,
      });
      const { meter, tree } = editor;
      const before = { edges: tree.parentEdge.slice(), cost: meter.cost.slice(), storage: tree.storageCost };
      for (let i = 0; i < 30; i++) {
        const edge = Math.floor(random() * graph.edgeCount);
        const v = graph.to[edge]!;
        if (edge === tree.parentEdge[v] || tree.isBelow(graph.from[edge]!, v)) continue;
        const admitted = meter.admits(v, edge);
        const exceededBefore = meter.exceeded;
        editor.move(v, edge);
        if (exceededBefore === 0) assert.equal(meter.exceeded === 0, admitted);
        const recomputed = new LimitMeter(new StorageTree(graph, tree.parentEdge), limits);
        assert.deepEqual(
          [meter.cost, meter.exceeded, tree.recreation],
          [recomputed.cost, recomputed.exceeded, recomputed.tree.recreation],
        );
        assert.equal(before.storage + editor.added, tree.storageCost);
      }
      editor.undoTo(0);
      assert.deepEqual([tree.parentEdge, meter.cost, meter.exceeded], [before.edges, before.cost, 0]);
    }),
    { numRuns: depth(50, 2_000) },
  );
});

test("budgets that the cheapest tree keeps add no cost", () => {
  fc.assert(
    fc.property(seeds, schemes, (seed, scheme) => {
      const graph = randomStorageGraph(seed, { vertices: 30, edgesPerVertex: 4, snapshots: 5 });
      const cheapest = new StorageTree(graph, minimumStorageTree(graph));
      const plan = planStorage(
        graph,
        { costs: snapshotCosts(graph, cheapest.recreation, scheme) },
        { scheme },
      );
      assert.deepEqual([plan.algorithm, plan.storageCost], ["mst", cheapest.storageCost]);
    }),
    { numRuns: 50 },
  );
});
