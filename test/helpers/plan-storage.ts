/** The planner's best tree described as a plan, with the costs of all snapshots. */
import { searchTree, type Budgets, type PlanOptions } from "../../server/storage/planner/plan-storage.js";
import type { StorageGraph } from "../../server/storage/planner/storage-graph.js";
import { describePlan, type StoragePlan } from "../../server/storage/planner/storage-plan.js";

/** @throws BUDGET_UNREACHABLE where no plan can keep a budget */
export function planStorage(graph: StorageGraph, budgets: Budgets, options: PlanOptions = {}): StoragePlan {
  const { tree, budgets: costs, header } = searchTree(graph, budgets, options);
  return describePlan(graph, tree, costs, header);
}
