/**
 * Planning a fleet of many versions takes steps in proportion to their number, counted: not a multiple of it
 * that grows with it. The versions are one long chain of fine-tunes, or all of one base.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  candidateReferences,
  type ArchiveVersion,
} from "../../../../../server/storage/archive/candidate-references.js";
import { settleTree } from "../../../../../server/storage/archive/settle-tree.js";
import { budgetsByRatio, limitsOf } from "../../../../../server/storage/planner/budgets.js";
import { minimumStorageTree } from "../../../../../server/storage/planner/minimum-arborescence.js";
import { pasMt } from "../../../../../server/storage/planner/pas-mt.js";
import { minRecreationCosts } from "../../../../../server/storage/planner/shortest-path-tree.js";
import {
  buildStorageGraph,
  type EdgeInput,
  type StorageGraph,
} from "../../../../../server/storage/planner/storage-graph.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { TreeTable } from "../../../../../server/storage/archive/tree-leaves.js";

const table = new TreeTable();
const leavesOf = table.leavesOf.bind(table);

const isFull = process.env["STEMMA_TEST_FULL"] === "1";
/** More than the planner treats by steps that suit small graphs only. */
const few = isFull ? 10_000 : 2100;
const forms = ["chain", "star"] as const;

/** One tensor per version: raw, or a difference from the version before or from the first one, and back. */
function graphOf(form: (typeof forms)[number], versions: number): StorageGraph {
  const edges: EdgeInput[] = [];
  for (let v = 0; v < versions; v++) {
    edges.push({ to: `t${v}`, kind: "raw", storageCost: 100, recreationCost: 100 });
    if (v === 0) continue;
    const from = form === "chain" ? `t${v - 1}` : "t0";
    const storageCost = 20 + (v % 7);
    edges.push({ from, to: `t${v}`, kind: "delta", storageCost, recreationCost: 60 });
    edges.push({ from: `t${v}`, to: from, kind: "delta", storageCost: storageCost + 1, recreationCost: 60 });
  }
  return buildStorageGraph({
    vertices: Array.from({ length: versions }, (_, v) => ({ id: `t${v}`, byteLength: 100 })),
    edges,
    snapshots: Array.from({ length: versions }, (_, v) => ({ id: `v${v}`, members: [`t${v}`] })),
  });
}

/** Counts how often the graph is read while some work is done: every step along a tree or edge reads it. */
function countReads(graph: StorageGraph, work: (counted: StorageGraph) => void): number {
  let reads = 0;
  const from = new Proxy(graph.from, {
    get: (array, key) => {
      reads++;
      return Reflect.get(array, key, array) as unknown;
    },
  });
  work({ ...graph, from });
  return reads;
}

/** Steps of twice as many versions over the steps of so many. */
function growth(steps: (versions: number) => number): number {
  return steps(2 * few) / steps(few);
}

describe("twice as many versions take about twice as many steps", () => {
  for (const form of forms) {
    for (const scheme of ["independent", "parallel"] as const)
      it(`to swap parents until all budgets hold, ${scheme}, in a ${form}`, () => {
        const ratio = growth((versions) => {
          const graph = graphOf(form, versions);
          const tree = minimumStorageTree(graph);
          const limits = limitsOf(graph, budgetsByRatio(graph, minRecreationCosts(graph), 2, scheme), scheme);
          return countReads(graph, (counted) => {
            pasMt(counted, tree, limits, scheme === "parallel" ? { snapshotsOnce: graph.members } : {});
          });
        });
        assert.ok(ratio < 2.7, `${ratio} times the steps`);
      });
    it(`to settle a tree without budgets, in a ${form}`, () => {
      const ratio = growth((versions) => {
        const graph = graphOf(form, versions);
        const tree = minimumStorageTree(graph);
        const budgets = new Float64Array(versions).fill(Number.POSITIVE_INFINITY);
        return countReads(graph, (counted) => {
          settleTree(counted, tree, { budgets, scheme: "independent", maxDepth: 24 });
        });
      });
      assert.ok(ratio < 2.7, `${ratio} times the steps`);
    });
    it(`to find candidates by lineage, in a ${form}`, () => {
      const ratio = growth((versions) => {
        let reads = 0;
        const list = Array.from({ length: versions }, (_, v): ArchiveVersion => ({
          get versionId() {
            reads++;
            return `v${v}` as Hash;
          },
          label: `v${v}`,
          bases: v === 0 ? [] : [(form === "chain" ? `v${v - 1}` : "v0") as Hash],
          series: "s",
          position: v,
          architecture: "a" as Hash,
          leaves: leavesOf([{ path: "w", name: "w", tensor: `t${v}` as Hash }]),
        }));
        assert.equal(candidateReferences(list).size, versions);
        return reads;
      });
      assert.ok(ratio < 2.2, `${ratio} times the steps`);
    });
  }
});
