/**
 * For any tree that the planner returns: once settled, it can be written into packs, keeps its budgets, and
 * is hardly worse.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import "../../../../helpers/property-seed.js";
import { isApart, previousOf } from "../../../../../server/storage/archive/archive-plan.js";
import { makePlan } from "../../../../../server/storage/archive/make-plan.js";
import { settleTree } from "../../../../../server/storage/archive/settle-tree.js";
import { isWithin } from "../../../../../server/storage/planner/budgets.js";
import { minimumStorageTree } from "../../../../../server/storage/planner/minimum-arborescence.js";
import { snapshotCosts } from "../../../../../server/storage/planner/retrieval.js";
import {
  buildStorageGraph,
  type EdgeInput,
  type StorageGraph,
  type StorageGraphInput,
} from "../../../../../server/storage/planner/storage-graph.js";
import { StorageTree } from "../../../../../server/storage/planner/storage-tree.js";
import { depth } from "../../../../helpers/test-depth.js";

const runs = depth(80, 5_000);
const manual = { now: () => 0, monotonic: () => 0, after: () => () => undefined };

/**
 * Every tensor can be raw or a delta against any other, some with a third as `previous`; some tensors are
 * already encoded.
 */
const graphs = fc.integer({ min: 2, max: 9 }).chain((count) =>
  fc
    .record({
      edges: fc.array(
        fc.record({
          from: fc.integer({ min: 0, max: count - 1 }),
          to: fc.integer({ min: 0, max: count - 1 }),
          previous: fc.option(fc.integer({ min: 0, max: count - 1 }), { nil: undefined }),
          isApart: fc.boolean(),
          storage: fc.integer({ min: 1, max: 90 }),
          recreation: fc.integer({ min: 1, max: 40 }),
          isCurrent: fc.boolean(),
        }),
        { maxLength: 30 },
      ),
      ratio: fc.option(fc.double({ min: 1, max: 6, noNaN: true }), { nil: null }),
      maxDepth: fc.integer({ min: 0, max: 5 }),
      scheme: fc.constantFrom("independent" as const, "parallel" as const),
    })
    .map(({ edges, ...rest }) => {
      const encoded = new Set<number>();
      const made = edges
        .filter(({ from, to }) => from !== to)
        .map(({ from, to, previous, isApart, storage, recreation, isCurrent }): EdgeInput => {
          // A stored `previous` is in a chain of its own. An encoded tensor has a base that came before it, so
          // there is no cycle.
          const current = isCurrent && from < to && !encoded.has(to);
          if (current) encoded.add(to);
          const named =
            previous === undefined || previous === from || previous === to || current
              ? undefined
              : { previous: `t${previous}`, ...(isApart ? { apart: true } : {}) };
          return {
            from: `t${from}`,
            to: `t${to}`,
            kind: current ? "current" : "delta",
            storageCost: storage,
            recreationCost: recreation,
            ...(named === undefined ? {} : { detail: named }),
          };
        });
      const raw = Array.from({ length: count }, (_, t): EdgeInput => ({
        to: `t${t}`,
        kind: encoded.has(t) ? "raw" : "current",
        storageCost: 100,
        recreationCost: 10,
      }));
      return {
        ...rest,
        input: {
          vertices: raw.map(({ to }) => ({ id: to, byteLength: 100 })),
          edges: [...raw, ...made],
          snapshots: [
            { id: "s0", members: raw.filter((_, t) => t % 2 === 0).map(({ to }) => to) },
            { id: "s1", members: raw.map(({ to }) => to) },
          ],
        } satisfies StorageGraphInput,
      };
    }),
);

function assertWritable(graph: StorageGraph, edges: Int32Array, maxDepth: number): void {
  const tree = new StorageTree(graph, edges);
  const number = new Map(graph.vertexIds.map((id, v) => [id, v]));
  assert.equal(tree.subtree(0).length, graph.vertexCount, "everything is rebuilt from nothing in the end");
  /** Vertices that are decoded before one, on the longest way; fails where one needs itself. */
  const depthOf = (v: number, waiting: ReadonlySet<number>): number => {
    if (v === 0) return -1;
    assert.ok(!waiting.has(v), `${graph.vertexIds[v]} needs itself`);
    const previous = previousOf({ detail: graph.details[edges[v]!] });
    const needed = [tree.parent(v), ...(previous === undefined ? [] : [number.get(previous)!])];
    return 1 + Math.max(...needed.map((next) => depthOf(next, new Set([...waiting, v]))));
  };
  for (let v = 1; v < graph.vertexCount; v++) {
    const depth = depthOf(v, new Set());
    assert.ok(depth <= maxDepth, `${graph.vertexIds[v]} is ${depth} deep`);
    const above = new Set<number>();
    for (let at = v; at > 0; at = tree.parent(at)) above.add(at);
    const detail = graph.details[edges[v]!];
    const previous = previousOf({ detail });
    if (previous !== undefined && !isApart({ detail }))
      assert.ok(
        number.get(previous) !== v && above.has(number.get(previous)!),
        `${graph.vertexIds[v]} is predicted with what is not needed for its base`,
      );
  }
}

describe("a settled tree", () => {
  it("can be written, for any tree", () => {
    fc.assert(
      fc.property(graphs, ({ input, maxDepth, scheme }) => {
        const graph = buildStorageGraph(input);
        const cheapest = minimumStorageTree(graph);
        const none = new Float64Array(2).fill(Number.POSITIVE_INFINITY);
        assertWritable(graph, settleTree(graph, cheapest, { budgets: none, scheme, maxDepth }), maxDepth);
      }),
      { numRuns: runs },
    );
  });
  it("is the tree of a plan, and keeps every budget", () => {
    fc.assert(
      fc.property(graphs, ({ input, maxDepth, scheme, ratio }) => {
        const { plan, members, minCosts } = makePlan(
          input,
          { scheme, ratio, timeLimitMs: 1000, maxDepth },
          manual,
        );
        const graph = buildStorageGraph(input);
        const edges = new Int32Array(graph.vertexCount).fill(-1);
        const number = new Map(graph.vertexIds.map((id, v) => [id, v]));
        for (const { vertex, from, kind, storageCost, recreationCost, detail } of plan.vertices) {
          edges[number.get(vertex)!] = graph.kinds.findIndex(
            (own, edge) =>
              own === kind &&
              graph.to[edge] === number.get(vertex) &&
              graph.from[edge] === (from === null ? 0 : number.get(from)) &&
              graph.storage[edge] === storageCost &&
              (isApart({ detail }) || graph.recreation[edge] === recreationCost) &&
              JSON.stringify(graph.details[edge]) === JSON.stringify(detail),
          );
        }
        assertWritable(graph, edges, maxDepth);
        /** With every reference that is recreated apart, and its own. */
        const costOf = (v: number): number => {
          if (v === 0) return 0;
          const edge = edges[v]!;
          const detail = graph.details[edge];
          const apart = isApart({ detail }) ? costOf(number.get(previousOf({ detail })!)!) : 0;
          return costOf(graph.from[edge]!) + graph.recreation[edge]! + apart;
        };
        const costs = snapshotCosts(
          graph,
          Float64Array.from({ length: graph.vertexCount }, (_, v) => costOf(v)),
          scheme,
        );
        plan.snapshots.forEach((snapshot, s) => {
          assert.ok(Math.abs(snapshot[scheme] - costs[s]!) <= 1e-9 * costs[s]!, "the plan states its costs");
        });
        costs.forEach((cost, s) => {
          assert.ok(
            ratio === null || isWithin(cost, ratio * minCosts[s]!),
            `snapshot ${s} costs ${cost}, least ${minCosts[s]}, ratio ${ratio}`,
          );
        });
        assert.deepEqual(
          members.map((own) => own.map((at) => plan.vertices[at]!.vertex).sort()),
          input.snapshots.map((snapshot) => [...snapshot.members].sort()),
        );
      }),
      { numRuns: runs },
    );
  });
  it("leaves every tensor's encoding unchanged when that is nearly as good", () => {
    const raw = (id: string): EdgeInput => ({ to: id, kind: "raw", storageCost: 100, recreationCost: 10 });
    const current: EdgeInput[] = [
      { to: "a", kind: "current", storageCost: 83, recreationCost: 15 },
      { from: "a", to: "b", kind: "current", storageCost: 60, recreationCost: 15 },
    ];
    const input = {
      vertices: ["a", "b"].map((id) => ({ id, byteLength: 100 })),
      edges: [
        ...current,
        raw("a"),
        raw("b"),
        { to: "b", kind: "packed", storageCost: 82.5, recreationCost: 15 },
        { from: "b", to: "a", kind: "delta", storageCost: 59.5, recreationCost: 15 },
      ],
      snapshots: [{ id: "s", members: ["a", "b"] }],
    };
    const { plan } = makePlan(
      input,
      { scheme: "independent", ratio: null, timeLimitMs: 1000, maxDepth: 8 },
      manual,
    );
    assert.deepEqual(
      [plan.algorithm, plan.vertices.map(({ kind }) => kind)],
      ["current", ["current", "current"]],
    );
  });
});
