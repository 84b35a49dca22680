/**
 * A storage plan as data: how every vertex is stored, its storage cost, and the recreation cost of each
 * snapshot. A plan can be shown and saved as JSON; it is checked against a graph again before it is applied.
 */
import { defined } from "../../../shared/defined.js";
import { StemmaError } from "../../../shared/errors.js";
import { isWithin } from "./budgets.js";
import { retrieveShared, snapshotCosts, type PlanningScheme } from "./retrieval.js";
import { sumRoundingShare } from "./rounding.js";
import type { EdgeDetail, ParentEdges, StorageGraph } from "./storage-graph.js";
import { StorageTree } from "./storage-tree.js";

export const storagePlanFormat = 1;

/**
 * The origins of a plan's tree. `mst`, `spt` and `last` are the paper's baselines. `search` is the local
 * search of exchange.ts, started from the best tree of the others. `current` is the current storage with few
 * changes (archive/make-plan.ts).
 */
export const planAlgorithms = ["mst", "spt", "last", "pas-mt", "pas-pt", "search", "current"] as const;
export type PlanAlgorithm = (typeof planAlgorithms)[number];

/** The algorithms in words for people, who need not know the papers. */
export const planAlgorithmTexts: Readonly<Record<PlanAlgorithm, string>> = {
  mst: "smallest",
  spt: "fastest",
  last: "balanced",
  "pas-mt": "smallest, then faster where needed",
  "pas-pt": "grown within the budget",
  search: "local search",
  current: "few changes to what is stored",
};

/** The planned storage of one vertex. */
export interface PlannedVertex {
  readonly vertex: string;
  /** The vertex that it is recreated from; null where it is materialised. */
  readonly from: string | null;
  readonly kind: string;
  readonly storageCost: number;
  readonly recreationCost: number;
  readonly detail?: EdgeDetail | undefined;
}
export interface PlannedSnapshot {
  readonly snapshot: string;
  /** Bound on its recreation cost under the plan's scheme; null for no budget. */
  readonly budget: number | null;
  /** Predicted recreation cost under each retrieval scheme; `reusable` is without a memory bound. */
  readonly independent: number;
  readonly parallel: number;
  readonly reusable: number;
}
/** The result of one algorithm, for the comparison that a plan shows. */
export interface PlanCandidate {
  readonly algorithm: PlanAlgorithm;
  readonly storageCost: number;
  readonly isWithinBudgets: boolean;
}
export interface StoragePlan {
  readonly format: typeof storagePlanFormat;
  readonly scheme: PlanningScheme;
  /** The algorithm that found the plan's tree. */
  readonly algorithm: PlanAlgorithm;
  /** True if the tree was improved afterwards by swaps within the budgets. */
  readonly isRefined: boolean;
  /** True if the time bound ended the search early. */
  readonly isCutShort: boolean;
  readonly storageCost: number;
  /** Storage cost of the minimum-storage tree, which ignores budgets: no plan has a smaller one. */
  readonly leastStorageCost: number;
  readonly candidates: readonly PlanCandidate[];
  /** Every vertex once; a vertex comes after the one that it is recreated from. */
  readonly vertices: readonly PlannedVertex[];
  readonly snapshots: readonly PlannedSnapshot[];
}

export type PlanHeader = Pick<
  StoragePlan,
  "scheme" | "algorithm" | "isRefined" | "isCutShort" | "leastStorageCost" | "candidates"
>;

/** Describes a tree as a plan. All costs are summed again from the graph. */
export function describePlan(
  graph: StorageGraph,
  parentEdge: ParentEdges,
  budgets: Float64Array,
  header: PlanHeader,
): StoragePlan {
  const tree = new StorageTree(graph, parentEdge);
  const [independent, parallel] = [
    snapshotCosts(graph, tree.recreation, "independent"),
    snapshotCosts(graph, tree.recreation, "parallel"),
  ];
  return {
    format: storagePlanFormat,
    ...header,
    storageCost: tree.storageCost,
    vertices: Array.from(tree.subtree(0).slice(1), (v) => {
      const edge = parentEdge[v]!;
      const detail = graph.details[edge];
      return {
        vertex: graph.vertexIds[v]!,
        from: graph.from[edge] === 0 ? null : graph.vertexIds[graph.from[edge]!]!,
        kind: graph.kinds[edge]!,
        storageCost: graph.storage[edge]!,
        recreationCost: graph.recreation[edge]!,
        ...defined({ detail }),
      };
    }),
    snapshots: graph.snapshotIds.map((snapshot, s) => ({
      snapshot,
      budget: Number.isFinite(budgets[s]!) ? budgets[s]! : null,
      independent: independent[s]!,
      parallel: parallel[s]!,
      reusable: retrieveShared(graph, parentEdge, s).cost,
    })),
  };
}

/** True if two sums of the same costs agree, whatever the order of their additions. */
function isAbout(a: number, b: number): boolean {
  return Math.abs(a - b) <= sumRoundingShare * Math.max(Math.abs(a), Math.abs(b));
}

/** The fault of a plan; `details.problem` of PLAN_INVALID. */
type PlanProblem =
  | "format"
  | "vertex-unknown"
  | "vertex-repeated"
  | "vertex-missing"
  | "edge-unknown"
  | "cycle"
  | "storage-cost"
  | "snapshots"
  | "recreation-cost"
  | "budget";

function refuse(problem: PlanProblem, reason: string): StemmaError {
  return new StemmaError("PLAN_INVALID", `The storage plan cannot be used: ${reason}. Make a new plan.`, {
    problem,
  });
}

/**
 * Checks a plan from any source against a graph, and returns the edges that it consists of. Every vertex must
 * be stored once, by an edge that the graph has at the stated costs, and be recreated from the empty vertex
 * in the end. The stated sums must be right, and the budgets must hold.
 * @throws PLAN_INVALID with the reason; a new plan must be made then
 */
export function checkPlan(graph: StorageGraph, plan: StoragePlan): ParentEdges {
  if (plan.format !== storagePlanFormat)
    throw refuse(
      "format",
      `it has the format ${String(plan.format)}, and this Stemma reads the format ${String(storagePlanFormat)}`,
    );
  const vertexNumbers = new Map(graph.vertexIds.map((id, v) => [id, v]));
  const parentEdge: ParentEdges = new Int32Array(graph.vertexCount).fill(-1);
  for (const planned of plan.vertices) {
    const v = planned.vertex === "" ? undefined : vertexNumbers.get(planned.vertex);
    if (v === undefined)
      throw refuse("vertex-unknown", `it stores the tensor ${planned.vertex}, which no kept version has`);
    if (parentEdge[v]! >= 0) throw refuse("vertex-repeated", `it stores the tensor ${planned.vertex} twice`);
    const edge = findEdge(graph, v, planned, planned.from === null ? 0 : vertexNumbers.get(planned.from));
    if (edge < 0)
      throw refuse(
        "edge-unknown",
        `it stores the tensor ${planned.vertex} as ${planned.kind} from ${planned.from ?? "nothing"} at a storage cost of ${planned.storageCost} and a recreation cost of ${planned.recreationCost}, and the tensor can no longer be stored so`,
      );
    parentEdge[v] = edge;
  }
  const missing = parentEdge.indexOf(-1, 1);
  if (missing >= 0) throw refuse("vertex-missing", `it leaves out the tensor ${graph.vertexIds[missing]}`);
  const tree = new StorageTree(graph, parentEdge);
  if (tree.subtree(0).length < graph.vertexCount)
    throw refuse("cycle", "some tensors are rebuilt only from one another, in a cycle");
  if (!isAbout(tree.storageCost, plan.storageCost))
    throw refuse(
      "storage-cost",
      `its tensors have the storage cost ${tree.storageCost}, and it states ${plan.storageCost}`,
    );
  checkSnapshots(graph, tree, plan);
  return parentEdge;
}

function findEdge(
  graph: StorageGraph,
  v: number,
  planned: PlannedVertex,
  source: number | undefined,
): number {
  const { start, items } = graph.incoming;
  for (let index = start[v]!; index < start[v + 1]!; index++) {
    const edge = items[index]!;
    if (
      graph.from[edge] === source &&
      graph.kinds[edge] === planned.kind &&
      graph.storage[edge] === planned.storageCost &&
      graph.recreation[edge] === planned.recreationCost &&
      JSON.stringify(graph.details[edge]) === JSON.stringify(planned.detail)
    )
      return edge;
  }
  return -1;
}

function checkSnapshots(graph: StorageGraph, tree: StorageTree, plan: StoragePlan): void {
  if (plan.snapshots.length !== graph.snapshotIds.length)
    throw refuse(
      "snapshots",
      `it lists ${plan.snapshots.length} snapshots, and the storage graph has ${graph.snapshotIds.length}`,
    );
  for (const scheme of ["independent", "parallel"] as const) {
    const costs = snapshotCosts(graph, tree.recreation, scheme);
    plan.snapshots.forEach((planned, s) => {
      if (planned.snapshot !== graph.snapshotIds[s])
        throw refuse("snapshots", `its snapshot ${s} is ${planned.snapshot} and not ${graph.snapshotIds[s]}`);
      if (!isAbout(costs[s]!, planned[scheme]))
        throw refuse(
          "recreation-cost",
          `the snapshot ${planned.snapshot} costs ${costs[s]} to rebuild (${scheme}), and the plan states ${planned[scheme]}`,
        );
      if (scheme === plan.scheme && planned.budget !== null && !isWithin(costs[s]!, planned.budget))
        throw refuse(
          "budget",
          `the snapshot ${planned.snapshot} costs ${costs[s]} to rebuild, over its budget of ${planned.budget}`,
        );
    });
  }
}
