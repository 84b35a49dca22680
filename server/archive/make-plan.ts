/**
 * Makes the plan of a measured graph: the planner's best, in a form that packs can hold, unless what lies
 * there is nearly as good with a few changes. Pure but for the clock that bounds the search.
 */
import type { Clock } from "../../shared/ports.js";
import { isWithin, limitsOf } from "../planner/budgets.js";
import { minimumArborescence } from "../planner/minimum-arborescence.js";
import { pasMt } from "../planner/pas-mt.js";
import { planStorage } from "../planner/plan-storage.js";
import { snapshotCosts, type PlanningScheme } from "../planner/retrieval.js";
import { minRecreationCosts } from "../planner/shortest-path-tree.js";
import {
  buildStorageGraph,
  type ParentEdges,
  type StorageGraph,
  type StorageGraphInput,
} from "../planner/storage-graph.js";
import { checkPlan, describePlan, type PlanAlgorithm, type StoragePlan } from "../planner/storage-plan.js";
import { StorageTree } from "../planner/storage-tree.js";
import { previousOf } from "./archive-plan.js";
import { settleTree } from "./settle-tree.js";

export interface PlanRequest {
  readonly scheme: PlanningScheme;
  /** α; null: none. */
  readonly ratio: number | null;
  /**
   * How long better plans are looked for; as long again at most for bringing them into a form that can be
   * written.
   */
  readonly timeLimitMs: number;
  /** Tensors to decode before any other one, at most. */
  readonly maxDepth: number;
}
/**
 * Costs of every snapshot under the plan's scheme: stored for speed, and as it lies now (null where some
 * tensor cannot stay as it lies).
 */
export interface PlanResult {
  readonly plan: StoragePlan;
  readonly members: readonly (readonly number[])[];
  readonly leastCosts: readonly number[];
  readonly currentCosts: readonly number[] | null;
}

/** Everything is not rearranged for less than this share: estimates and measured rates move by as much. */
const rearrangingShare = 0.02;
/** … and not rearranged in another way where that writes nearly as much. */
const writtenShare = 0.5;

/** @throws BUDGET_UNREACHABLE, STORAGE_GRAPH_INVALID */
export function makePlan(
  input: StorageGraphInput,
  { scheme, ratio, timeLimitMs, maxDepth }: PlanRequest,
  clock: Clock,
  onProgress: (line: string) => void = () => undefined,
): PlanResult {
  const graph = buildStorageGraph(input);
  const endMs = clock.monotonic() + 2 * timeLimitMs;
  const isTimeUp = (): boolean => clock.monotonic() >= endMs;
  const none = new Float64Array(graph.snapshotIds.length).fill(Number.POSITIVE_INFINITY);
  const found = planStorage(graph, ratio === null ? { costs: none } : { ratio }, {
    scheme,
    time: { clock, limitMs: timeLimitMs },
    onProgress: ({ step, storageCost }) => {
      onProgress(`${step}: ${Math.round(storageCost)} bytes`);
    },
  });
  const budgets = Float64Array.from(found.snapshots, ({ budget }) => budget ?? Number.POSITIVE_INFINITY);
  const settling = { budgets, scheme, maxDepth, isTimeUp };
  const settle = (tree: ParentEdges): ParentEdges => settleTree(graph, tree, settling);
  const repair = (tree: ParentEdges): ParentEdges =>
    pasMt(graph, tree, limitsOf(graph, budgets, scheme), {
      isTimeUp,
      ...(scheme === "parallel" ? { snapshotsOnce: graph.members } : {}),
    });
  const storage = (tree: ParentEdges): number => new StorageTree(graph, tree).storageCost;
  // What the planner found leans on predictions that may not stand together; what was found without any has
  // room for those that do.
  const first = settle(checkPlan(graph, found));
  const second = settle(repair(plainTree(graph)));
  const settled =
    isWithinBudgets(graph, second, budgets, scheme) && storage(second) < storage(first) ? second : first;
  const lies = currentTree(graph);
  const near = lies === undefined ? undefined : settle(repair(lies));
  const isNearEnough =
    near !== undefined &&
    isWithinBudgets(graph, near, budgets, scheme) &&
    storage(near) <= (1 + rearrangingShare) * storage(settled) &&
    writtenBytes(graph, near) < writtenShare * writtenBytes(graph, settled);
  const algorithm: PlanAlgorithm = isNearEnough ? "current" : found.algorithm;
  const plan = describePlan(graph, isNearEnough ? near : settled, budgets, { ...found, algorithm });
  return {
    plan,
    members: membersOf(graph, plan),
    leastCosts: [...snapshotCosts(graph, minRecreationCosts(graph), scheme)],
    currentCosts:
      lies === undefined ? null : [...snapshotCosts(graph, new StorageTree(graph, lies).recreation, scheme)],
  };
}

/** The tree that is cheapest to store where nothing is predicted with a second tensor. */
function plainTree(graph: StorageGraph): ParentEdges {
  return minimumArborescence(graph, {
    first: graph.storage,
    second: graph.recreation,
    usable: (edge) => previousOf({ detail: graph.details[edge] }) === undefined,
  });
}

function isWithinBudgets(
  graph: StorageGraph,
  edges: ParentEdges,
  budgets: Float64Array,
  scheme: PlanningScheme,
): boolean {
  return snapshotCosts(graph, new StorageTree(graph, edges).recreation, scheme).every((cost, s) =>
    isWithin(cost, budgets[s]!),
  );
}

/** Bytes that are to be written for a tree. */
function writtenBytes(graph: StorageGraph, edges: ParentEdges): number {
  return edges.reduce(
    (sum, edge) => (edge < 0 || graph.kinds[edge] === "current" ? sum : sum + graph.storage[edge]!),
    0,
  );
}

/** How everything lies; undefined where some tensor cannot stay so. */
function currentTree(graph: StorageGraph): ParentEdges | undefined {
  const lies = new Int32Array(graph.vertexCount).fill(-1);
  graph.kinds.forEach((kind, edge) => {
    if (kind === "current") lies[graph.to[edge]!] = edge;
  });
  return lies.indexOf(-1, 1) >= 0 || new StorageTree(graph, lies).subtree(0).length < graph.vertexCount
    ? undefined
    : lies;
}

function membersOf(
  { snapshotIds, members, vertexIds }: StorageGraph,
  { vertices }: StoragePlan,
): readonly (readonly number[])[] {
  const place = new Map(vertices.map(({ vertex }, at) => [vertex, at]));
  return snapshotIds.map((_, s) =>
    Array.from(members.items.subarray(members.start[s], members.start[s + 1]), (v) =>
      place.get(vertexIds[v]!)!,
    ),
  );
}
