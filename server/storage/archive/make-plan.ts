/**
 * Makes the plan for a measured graph. This is the planner's best tree, changed so that packs can store it
 * (settle-tree.ts). Where the current storage with a few changes is nearly as good, that is the plan instead.
 * Pure except for the clock that bounds the search.
 */
import type { Clock } from "../../../shared/ports.js";
import { isWithin as isCostWithin, limitsOf } from "../planner/budgets.js";
import { minimumArborescence } from "../planner/minimum-arborescence.js";
import { pasMt } from "../planner/pas-mt.js";
import { searchTree, type Budgets } from "../planner/plan-storage.js";
import { snapshotCosts, type PlanningScheme } from "../planner/retrieval.js";
import { minRecreationCosts } from "../planner/shortest-path-tree.js";
import {
  buildStorageGraph,
  type ParentEdges,
  type StorageGraph,
  type StorageGraphInput,
} from "../planner/storage-graph.js";
import {
  describePlan,
  planAlgorithmTexts,
  type PlanAlgorithm,
  type StoragePlan,
} from "../planner/storage-plan.js";
import { StorageTree } from "../planner/storage-tree.js";
import { autoBudgetRatio, previousOf, type BudgetRatio } from "./archive-plan.js";
import { ReferenceCosts } from "./reference-costs.js";
import { settleTree } from "./settle-tree.js";

export interface PlanRequest {
  readonly scheme: PlanningScheme;
  /** The budget of every snapshot, as a ratio; see BudgetRatio. */
  readonly ratio: BudgetRatio;
  /**
   * Time to search for better plans. Changing them so that packs can store them takes at most as long again.
   */
  readonly timeLimitMs: number;
  /** Longest chain of tensors to decode before another one. */
  readonly maxDepth: number;
}
export interface PlanResult {
  readonly plan: StoragePlan;
  /** The tensors of each snapshot, as indices into `plan.vertices`. */
  readonly members: readonly (readonly number[])[];
  /** Minimum recreation cost of each snapshot, in µs (everything stored for speed). */
  readonly minCosts: readonly number[];
  /** Recreation cost of each snapshot as stored now; null where some tensor cannot stay as it is. */
  readonly currentCosts: readonly number[] | null;
}

/**
 * The plan changes the current storage only a little unless another tree takes less storage by more than this
 * share. Estimates and measured rates vary by as much.
 */
const minRearrangingGain = 0.02;
/** The small change must also write less than this share of the bytes that the other tree would write. */
const maxWrittenShare = 0.5;

/** @throws BUDGET_UNREACHABLE, STORAGE_GRAPH_INVALID */
export function makePlan(
  input: StorageGraphInput,
  { scheme, ratio, timeLimitMs, maxDepth }: PlanRequest,
  clock: Clock,
  onProgress: (line: string) => void = () => undefined,
): PlanResult {
  const graph = buildStorageGraph(input);
  const references = new ReferenceCosts(graph);
  const vertexMinCosts = minRecreationCosts(graph);
  const endMs = clock.monotonic() + 2 * timeLimitMs;
  const isTimeUp = (): boolean => clock.monotonic() >= endMs;
  const current = currentTree(graph);
  const currentCosts =
    current === undefined
      ? undefined
      : snapshotCosts(graph, new StorageTree(references.countedIn(current), current).recreation, scheme);
  const found = searchTree(graph, budgetsOf(graph, ratio, { scheme, vertexMinCosts, currentCosts }), {
    scheme,
    minCosts: vertexMinCosts,
    time: { clock, limitMs: timeLimitMs },
    onProgress: ({ step, storageCost }) => {
      onProgress(`${planAlgorithmTexts[step]}: ${Math.round(storageCost)} bytes`);
    },
  });
  const { budgets } = found;
  const settling = { budgets, scheme, maxDepth, isTimeUp };
  const settle = (tree: ParentEdges): ParentEdges => settleTree(graph, tree, settling);
  const repair = (tree: ParentEdges): ParentEdges =>
    pasMt(graph, tree, limitsOf(graph, budgets, scheme), {
      isTimeUp,
      ...(scheme === "parallel" ? { snapshotsOnce: graph.members } : {}),
    });
  const isWithin = (tree: ParentEdges): boolean =>
    isWithinBudgets(references.countedIn(tree), tree, budgets, scheme);
  const storage = (tree: ParentEdges): number => new StorageTree(graph, tree).storageCost;
  // The planner's tree may use predictions that cannot all be written together, and settling then replaces
  // some. A tree without predictions is settled too, which adds those that can be written. The better result
  // counts.
  const first = settle(found.tree);
  const second = settle(repair(plainTree(graph)));
  const settled = isWithin(second) && storage(second) < storage(first) ? second : first;
  const near = current === undefined ? undefined : settle(repair(current));
  const isNearEnough =
    near !== undefined &&
    isWithin(near) &&
    (storage(near) <= storage(settled) ||
      (storage(near) <= (1 + minRearrangingGain) * storage(settled) &&
        writtenBytes(graph, near) < maxWrittenShare * writtenBytes(graph, settled)));
  const algorithm: PlanAlgorithm = isNearEnough ? "current" : found.header.algorithm;
  const chosen = isNearEnough ? near : settled;
  const plan = describePlan(references.countedIn(chosen), chosen, budgets, { ...found.header, algorithm });
  return {
    plan,
    members: membersOf(graph, plan),
    minCosts: [...snapshotCosts(graph, vertexMinCosts, scheme)],
    currentCosts: currentCosts === undefined ? null : [...currentCosts],
  };
}

function budgetsOf(
  graph: StorageGraph,
  ratio: BudgetRatio,
  {
    scheme,
    vertexMinCosts,
    currentCosts,
  }: {
    readonly scheme: PlanningScheme;
    readonly vertexMinCosts: Float64Array;
    readonly currentCosts: Float64Array | undefined;
  },
): Budgets {
  if (ratio === null)
    return { costs: new Float64Array(graph.snapshotIds.length).fill(Number.POSITIVE_INFINITY) };
  if (ratio !== "auto") return { ratio };
  // A snapshot that is dearer to recreate as stored now is within the budget: nothing has to grow for speed.
  const costs = snapshotCosts(graph, undiffedCosts(graph, vertexMinCosts), scheme);
  return { costs: costs.map((cost, s) => Math.max(autoBudgetRatio * cost, currentCosts?.[s] ?? 0)) };
}

/** The recreation cost of each vertex in its smallest form that does not depend on another one. */
function undiffedCosts(graph: StorageGraph, vertexMinCosts: Float64Array): Float64Array {
  const { start, items } = graph.incoming;
  return vertexMinCosts.map((minCost, v) => {
    const smallest = items.subarray(start[v], start[v + 1]).find((edge) => graph.from[edge] === 0);
    return smallest === undefined ? minCost : graph.recreation[smallest]!;
  });
}

/** The minimum-storage tree among those without predictions from a second tensor. */
function plainTree(graph: StorageGraph): ParentEdges {
  return minimumArborescence(graph, {
    first: graph.storage,
    second: graph.recreation,
    isUsable: (edge) => previousOf({ detail: graph.details[edge] }) === undefined,
  });
}

function isWithinBudgets(
  graph: StorageGraph,
  edges: ParentEdges,
  budgets: Float64Array,
  scheme: PlanningScheme,
): boolean {
  return snapshotCosts(graph, new StorageTree(graph, edges).recreation, scheme).every((cost, s) =>
    isCostWithin(cost, budgets[s]!),
  );
}

/** Bytes that must be written to change the current storage to a tree. */
function writtenBytes(graph: StorageGraph, edges: ParentEdges): number {
  return edges.reduce(
    (sum, edge) => (edge < 0 || graph.kinds[edge] === "current" ? sum : sum + graph.storage[edge]!),
    0,
  );
}

/** The current storage as a tree; undefined where some tensor cannot stay as it is. */
function currentTree(graph: StorageGraph): ParentEdges | undefined {
  const edges = new Int32Array(graph.vertexCount).fill(-1);
  graph.kinds.forEach((kind, edge) => {
    if (kind === "current") edges[graph.to[edge]!] = edge;
  });
  return edges.indexOf(-1, 1) >= 0 || new StorageTree(graph, edges).subtree(0).length < graph.vertexCount
    ? undefined
    : edges;
}

function membersOf(
  { snapshotIds, members, vertexIds }: StorageGraph,
  { vertices }: StoragePlan,
): readonly (readonly number[])[] {
  const indexOf = new Map(vertices.map(({ vertex }, index) => [vertex, index]));
  return snapshotIds.map((_, s) =>
    Array.from(members.items.subarray(members.start[s], members.start[s + 1]), (v) =>
      indexOf.get(vertexIds[v]!)!,
    ),
  );
}
