/**
 * The planner's interface: the paper's toy, budgets, schemes, tiers, segments, time limits, and plans as
 * data.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type PlanProgress } from "../../../../../server/storage/planner/plan-storage.js";
import { planStorage } from "../../../../helpers/plan-storage.js";
import { buildStorageGraph, type EdgeInput } from "../../../../../server/storage/planner/storage-graph.js";
import {
  checkPlan,
  planAlgorithms,
  type StoragePlan,
} from "../../../../../server/storage/planner/storage-plan.js";
import { manualClock } from "../../../../helpers/manual-clock.js";
import { randomStorageGraph, toyOfFigure5 } from "../../../../helpers/storage-graphs.js";

const large = (): ReturnType<typeof randomStorageGraph> =>
  randomStorageGraph(7, { vertices: 300, edgesPerVertex: 6, snapshots: 40 });
const independent = (plan: StoragePlan): number[] => plan.snapshots.map((snapshot) => snapshot.independent);
const kindOf = (plan: StoragePlan, vertex: string): string =>
  plan.vertices.find((planned) => planned.vertex === vertex)!.kind;

test("the toy of the paper's figure 5 gives its published costs", () => {
  const graph = toyOfFigure5();
  const free = planStorage(graph, { costs: [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY] });
  assert.equal(free.storageCost, 19);
  assert.deepEqual(independent(free), [3, 7.5]);
  assert.equal(free.algorithm, "mst");
  assert.deepEqual(
    free.snapshots.map(({ budget }) => budget),
    [null, null],
  );
  const bounded = planStorage(graph, { costs: [3, 6] });
  assert.equal(bounded.storageCost, 24);
  assert.deepEqual(independent(bounded), [3, 6]);
  assert.equal(bounded.leastStorageCost, 19);
});

test("a budget that no plan can keep is refused with the snapshot's name", () => {
  assert.throws(() => planStorage(toyOfFigure5(), { costs: [3, 4] }), {
    code: "BUDGET_UNREACHABLE",
    message: /s2/,
  });
  assert.throws(() => planStorage(toyOfFigure5(), { costs: [3, Number.NaN] }), {
    code: "BUDGET_UNREACHABLE",
    message: /s2/,
  });
  assert.throws(() => planStorage(toyOfFigure5(), { ratio: 0.99 }), { code: "BUDGET_UNREACHABLE" });
  assert.throws(() => planStorage(toyOfFigure5(), { ratio: Number.NaN }), { code: "BUDGET_UNREACHABLE" });
  assert.throws(() => planStorage(toyOfFigure5(), { costs: [3] }), { code: "USAGE" });
});

test("every algorithm that a plan names is one of those that a saved plan may have", () => {
  const { candidates } = planStorage(toyOfFigure5(), { costs: [3, 6] });
  assert.deepEqual(
    [...candidates.map(({ algorithm }) => algorithm), "search", "current"].sort(),
    [...planAlgorithms].sort(),
  );
});

test("LAST is tried at the smallest ratio of a budget to what the snapshot costs at least", () => {
  const graph = large();
  const storage = (ratio: number, algorithm: string): number =>
    planStorage(graph, { ratio }, { effort: 0 }).candidates.find((each) => each.algorithm === algorithm)!
      .storageCost;
  assert.ok(storage(1.5, "last") < storage(1.5, "spt"));
  assert.ok(storage(3, "last") < storage(1.5, "last"));
});

test("a ratio of 1 stores everything for speed, and as cheaply as that allows", () => {
  const plan = planStorage(toyOfFigure5(), { ratio: 1 });
  assert.deepEqual(independent(plan), [3, 4.5]);
  // m2 costs 2 either way and is cheaper to keep as a delta of m1.
  assert.equal(kindOf(plan, "m2"), "delta");
  assert.equal(plan.storageCost, 2 + 2 + 10 + 10 + 12);
});

const tiers = (): EdgeInput[] =>
  ["a", "b"].flatMap((to): EdgeInput[] => [
    { to, kind: "local", storageCost: 100, recreationCost: 1, detail: { tier: "ssd" } },
    { to, kind: "remote", storageCost: 20, recreationCost: 30, detail: { tier: "object-store" } },
  ]);

test("of parallel edges for tiers it takes the one that the budget affords (MH7)", () => {
  const graph = buildStorageGraph({
    vertices: [
      { id: "a", byteLength: 100 },
      { id: "b", byteLength: 100 },
    ],
    edges: tiers(),
    snapshots: [
      { id: "hot", members: ["a"] },
      { id: "cold", members: ["b"] },
    ],
  });
  const plan = planStorage(graph, { costs: [5, 40] });
  assert.deepEqual(plan.vertices.map(({ vertex, kind, detail }) => [vertex, kind, detail]).sort(), [
    ["a", "local", { tier: "ssd" }],
    ["b", "remote", { tier: "object-store" }],
  ]);
  checkPlan(graph, JSON.parse(JSON.stringify(plan)) as StoragePlan);
});

test("byte segments are separate vertices: high bytes near, low bytes far, a replay where it pays", () => {
  const edges: EdgeInput[] = [
    { to: "high", kind: "planes", storageCost: 10, recreationCost: 2 },
    { to: "high", kind: "remote", storageCost: 2, recreationCost: 20 },
    { to: "low", kind: "planes", storageCost: 30, recreationCost: 6 },
    { to: "low", kind: "remote", storageCost: 6, recreationCost: 60 },
    { from: "high", to: "low", kind: "replay", storageCost: 1, recreationCost: 500 },
  ];
  const graph = buildStorageGraph({
    vertices: [
      { id: "high", byteLength: 10 },
      { id: "low", byteLength: 30 },
    ],
    edges,
    snapshots: [
      { id: "preview", members: ["high"] },
      { id: "full", members: ["high", "low"] },
    ],
  });
  const plan = planStorage(graph, { costs: [2, 70] });
  assert.deepEqual([kindOf(plan, "high"), kindOf(plan, "low")], ["planes", "remote"]);
  assert.equal(kindOf(planStorage(graph, { costs: [2, 600] }), "low"), "replay");
});

test("under the parallel scheme the most expensive member counts, not the sum", () => {
  const graph = toyOfFigure5();
  const plan = planStorage(graph, { costs: [2, 2.5] }, { scheme: "parallel" });
  assert.equal(plan.scheme, "parallel");
  assert.ok(plan.snapshots.every(({ parallel }, s) => parallel <= [2, 2.5][s]!));
  assert.equal(plan.storageCost, 24, "only m5, at 3, was too dear");
});

test("without snapshots, and without tensors, there is a plan", () => {
  const graph = buildStorageGraph({
    vertices: [{ id: "a", byteLength: 1 }],
    edges: [{ to: "a", kind: "raw", storageCost: 0, recreationCost: 0 }],
    snapshots: [],
  });
  assert.equal(planStorage(graph, { ratio: 1 }).vertices.length, 1);
  assert.equal(
    planStorage(buildStorageGraph({ vertices: [], edges: [], snapshots: [] }), { ratio: 2 }).storageCost,
    0,
  );
});

test("budgets of zero are kept if everything is free", () => {
  const graph = buildStorageGraph({
    vertices: [
      { id: "a", byteLength: 1 },
      { id: "b", byteLength: 1 },
    ],
    edges: [
      { to: "a", kind: "raw", storageCost: 5, recreationCost: 0 },
      { to: "b", kind: "raw", storageCost: 5, recreationCost: 0 },
      { from: "a", to: "b", kind: "delta", storageCost: 1, recreationCost: 0 },
      { from: "b", to: "a", kind: "delta", storageCost: 1, recreationCost: 0 },
    ],
    snapshots: [{ id: "s", members: ["a", "b"] }],
  });
  assert.equal(planStorage(graph, { ratio: 1 }).storageCost, 6);
});

test("the same input and seed give the same plan; the reported cost only falls", () => {
  const reports: PlanProgress[] = [];
  const plan = planStorage(
    large(),
    { ratio: 1.3 },
    { effort: 2e5, seed: 3, onProgress: (progress) => reports.push(progress) },
  );
  assert.deepEqual(planStorage(large(), { ratio: 1.3 }, { effort: 2e5, seed: 3 }), plan);
  assert.ok(
    reports.length > 2 &&
      reports.every(({ storageCost }, at) => at === 0 || storageCost < reports[at - 1]!.storageCost),
  );
  assert.equal(reports.at(-1)!.storageCost, plan.storageCost);
  assert.equal(plan.isCutShort, false);
});

test("when the time limit is zero there still is a plan within the budgets", () => {
  const graph = large();
  const plan = planStorage(graph, { ratio: 1.3 }, { time: { clock: manualClock(), limitMs: 0 } });
  checkPlan(graph, plan);
  assert.equal(plan.isCutShort, true);
  const uninterrupted = planStorage(
    graph,
    { ratio: 1.3 },
    { time: { clock: manualClock(), limitMs: 1 }, effort: 1e5 },
  );
  assert.equal(uninterrupted.isCutShort, false, "the clock never moved");
  assert.ok(uninterrupted.storageCost <= plan.storageCost);
});

type Draft = { -readonly [Key in keyof StoragePlan]: StoragePlan[Key] };
const tampered: readonly (readonly [string, (plan: Draft) => void, string])[] = [
  [
    "another format",
    (plan) => {
      (plan as { format: number }).format = 2;
    },
    "format",
  ],
  [
    "a vertex left out",
    (plan) => {
      plan.vertices = plan.vertices.slice(1);
    },
    "vertex-missing",
  ],
  [
    "a vertex twice",
    (plan) => {
      plan.vertices = [...plan.vertices, plan.vertices[0]!];
    },
    "vertex-repeated",
  ],
  [
    "an unknown vertex",
    (plan) => {
      plan.vertices = [...plan.vertices, { ...plan.vertices[0]!, vertex: "m9" }];
    },
    "vertex-unknown",
  ],
  [
    "a cost that is not on offer",
    (plan) => {
      plan.vertices = plan.vertices.map((planned) => ({ ...planned, storageCost: 1 }));
    },
    "edge-unknown",
  ],
  [
    "a source that is not there",
    (plan) => {
      plan.vertices = plan.vertices.map((planned) => ({
        ...planned,
        from: planned.from === null ? "m9" : planned.from,
      }));
    },
    "edge-unknown",
  ],
  [
    "a sum that is not",
    (plan) => {
      plan.storageCost--;
    },
    "storage-cost",
  ],
  [
    "a snapshot's cost that is not",
    (plan) => {
      plan.snapshots = plan.snapshots.map((snapshot) => ({ ...snapshot, parallel: 0 }));
    },
    "recreation-cost",
  ],
  [
    "a budget that is not kept",
    (plan) => {
      plan.snapshots = plan.snapshots.map((snapshot) => ({ ...snapshot, budget: 1 }));
    },
    "budget",
  ],
  [
    "a snapshot left out",
    (plan) => {
      plan.snapshots = plan.snapshots.slice(1);
    },
    "snapshots",
  ],
  [
    "a cycle",
    (plan) => {
      plan.vertices = plan.vertices.map((planned) =>
        planned.vertex === "m1"
          ? { vertex: "m1", from: "m2", kind: "delta", storageCost: 2, recreationCost: 1 }
          : planned,
      );
    },
    "cycle",
  ],
];
for (const [fault, tamper, problem] of tampered) {
  test(`a plan with ${fault} is not used`, () => {
    const graph = toyOfFigure5();
    const plan: Draft = { ...planStorage(graph, { costs: [3, 6] }) };
    checkPlan(graph, plan);
    tamper(plan);
    assert.throws(() => checkPlan(graph, plan), { code: "PLAN_INVALID", details: { problem } });
  });
}

test("a plan that has any one of its vertices twice is not used", () => {
  const graph = toyOfFigure5();
  const plan = planStorage(graph, { costs: [3, 6] });
  for (const planned of plan.vertices) {
    const twice = { ...plan, vertices: [...plan.vertices, planned] };
    assert.throws(() => checkPlan(graph, twice), {
      code: "PLAN_INVALID",
      details: { problem: "vertex-repeated" },
    });
  }
});

test("a plan that stores a vertex as another one is stored is not used", () => {
  const graph = toyOfFigure5();
  const plan = planStorage(graph, { costs: [3, 6] });
  for (let v = 1; v < graph.vertexCount; v++)
    for (let other = 1; other < graph.vertexCount; other++) {
      if (other === v) continue;
      const edge = graph.incoming.items[graph.incoming.start[other]!]!;
      const stated = {
        vertex: graph.vertexIds[v]!,
        from: graph.from[edge] === 0 ? null : graph.vertexIds[graph.from[edge]!]!,
        kind: graph.kinds[edge]!,
        storageCost: graph.storage[edge]!,
        recreationCost: graph.recreation[edge]!,
      };
      const isOwn = Array.from(graph.incoming.items)
        .slice(graph.incoming.start[v], graph.incoming.start[v + 1])
        .some(
          (own) =>
            graph.from[own] === graph.from[edge] &&
            graph.kinds[own] === stated.kind &&
            graph.storage[own] === stated.storageCost &&
            graph.recreation[own] === stated.recreationCost,
        );
      if (isOwn) continue;
      const vertices = plan.vertices.map((planned) => (planned.vertex === stated.vertex ? stated : planned));
      assert.throws(
        () => checkPlan(graph, { ...plan, vertices }),
        { code: "PLAN_INVALID", details: { problem: "edge-unknown" } },
        `${stated.vertex} as ${graph.vertexIds[other]}`,
      );
    }
});
