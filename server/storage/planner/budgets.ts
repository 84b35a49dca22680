/**
 * Recreation budgets of snapshots, and the limits on groups of vertices that follow from them.
 * - Independent scheme: a budget bounds the sum of the members' recreation costs, so a snapshot is a group.
 * - Parallel scheme: a budget bounds each member's recreation cost, so each vertex is a group of its own. Its
 *   limit is the smallest budget of the snapshots that it belongs to.
 *
 * The planning algorithms use these limits; this file does not depend on any of them.
 */
import { StemmaError } from "../../../shared/errors.js";
import { snapshotCosts, type PlanningScheme } from "./retrieval.js";
import { sumRoundingShare } from "./rounding.js";
import { rowsOf, type Rows, type StorageGraph } from "./storage-graph.js";
import type { StorageTree } from "./storage-tree.js";

/** True if a cost is at most its budget. A plan that really breaks a budget exceeds it by more than rounding. */
export function isWithin(cost: number, budget: number): boolean {
  return cost <= budget * (1 + sumRoundingShare);
}

/**
 * The budget of every snapshot s is α · C_r(SPT, s) (MH §V-B): `ratio` is α, and `minCosts` has the
 * recreation cost of each vertex in the shortest-path tree. Every ratio of 1 or more can be met.
 * @throws BUDGET_UNREACHABLE where the ratio is below 1
 */
export function budgetsByRatio(
  graph: StorageGraph,
  minCosts: Float64Array,
  ratio: number,
  scheme: PlanningScheme,
): Float64Array {
  if (!(ratio >= 1))
    throw new StemmaError(
      "BUDGET_UNREACHABLE",
      `A recreation budget of ${ratio} times the minimum cannot be met. Give a ratio of 1 or more.`,
      { ratio },
    );
  return snapshotCosts(graph, minCosts, scheme).map((cost) => cost * ratio);
}

/**
 * @throws BUDGET_UNREACHABLE where no plan can meet a budget (names the snapshot that exceeds its budget
 *   most), USAGE where the number of budgets is not the number of snapshots
 */
export function requireBudgetsReachable(
  graph: StorageGraph,
  minCosts: Float64Array,
  budgets: Float64Array,
  scheme: PlanningScheme,
): void {
  if (budgets.length !== graph.snapshotIds.length)
    throw new StemmaError(
      "USAGE",
      `There are ${graph.snapshotIds.length} snapshots and ${budgets.length} budgets. Give one for each, Infinity where there is none.`,
    );
  const costs = snapshotCosts(graph, minCosts, scheme);
  let worst = -1;
  let maxExcess = 0;
  costs.forEach((cost, s) => {
    const excess = cost - budgets[s]!;
    if (!isWithin(cost, budgets[s]!) && !(excess <= maxExcess)) {
      worst = s;
      maxExcess = excess;
    }
  });
  if (worst >= 0)
    throw new StemmaError(
      "BUDGET_UNREACHABLE",
      `The snapshot ${graph.snapshotIds[worst]} cannot be rebuilt for ${budgets[worst]}: even stored for speed it costs ${costs[worst]} (${scheme}). Raise its budget.`,
      { snapshot: graph.snapshotIds[worst], budget: budgets[worst], least: costs[worst] },
    );
}

/** Groups of vertices; the sum of the recreation costs of each group's members is bounded. */
export interface Limits {
  /** Number of groups. */
  readonly count: number;
  /** Bound of each group. */
  readonly limit: Float64Array;
  /** Vertices of each group. */
  readonly members: Rows;
  /** Groups of each vertex. */
  readonly groupsOf: Rows;
}

/** The limits for budgets by snapshot (Infinity where there is none). */
export function limitsOf(graph: StorageGraph, budgets: Float64Array, scheme: PlanningScheme): Limits {
  // Half of what `isWithin` tolerates: a tree whose updated costs keep these limits also passes `isWithin` after its
  // costs are summed again.
  const padded = (budget: number): number => budget * (1 + sumRoundingShare / 2);
  if (scheme === "independent")
    return {
      count: budgets.length,
      limit: budgets.map(padded),
      members: graph.members,
      groupsOf: graph.memberships,
    };
  const limit = new Float64Array(graph.vertexCount).fill(Number.POSITIVE_INFINITY);
  for (let v = 0; v < graph.vertexCount; v++) {
    for (let index = graph.memberships.start[v]!; index < graph.memberships.start[v + 1]!; index++)
      limit[v] = Math.min(limit[v]!, padded(budgets[graph.memberships.items[index]!]!));
  }
  const alone = rowsOf(
    graph.vertexCount,
    Int32Array.from({ length: graph.vertexCount }, (_, v) => v),
  );
  return { count: graph.vertexCount, limit, members: alone, groupsOf: alone };
}

/** Keeps the recreation cost of every group up to date while the tree changes. */
export class LimitMeter {
  /** Recreation cost of each group: the sum over its members. */
  readonly cost: Float64Array;
  /** The number of groups over their limit. */
  exceeded = 0;
  /** Work arrays of `admits`: by how much a move would raise each group, and the groups that it raises. */
  readonly #rise: Float64Array;
  readonly #touched: Int32Array;

  constructor(
    readonly tree: StorageTree,
    readonly limits: Limits,
  ) {
    this.cost = new Float64Array(limits.count);
    this.#rise = new Float64Array(limits.count);
    this.#touched = new Int32Array(limits.count);
    this.recompute();
  }

  /** Computes the recreation costs of all vertices and groups again, which removes accumulated rounding. */
  recompute(): void {
    const {
      tree,
      limits: { count, members },
    } = this;
    tree.recompute();
    this.exceeded = 0;
    for (let group = 0; group < count; group++) {
      let sum = 0;
      for (let index = members.start[group]!; index < members.start[group + 1]!; index++)
        sum += tree.recreation[members.items[index]!]!;
      this.cost[group] = sum;
      if (this.isOver(group)) this.exceeded++;
    }
  }

  isOver(group: number): boolean {
    return this.cost[group]! > this.limits.limit[group]!;
  }

  /**
   * True if v may move to `edge`: no group whose cost rises may end over its limit. A move that raises no
   * cost is admitted even while groups are over their limits.
   */
  admits(v: number, edge: number): boolean {
    const change = this.tree.recreationChange(v, edge);
    if (change <= 0) return true;
    const { groupsOf, limit } = this.limits;
    let touchedCount = 0;
    let isAdmitted = true;
    search: for (const x of this.tree.subtree(v)) {
      for (let index = groupsOf.start[x]!; index < groupsOf.start[x + 1]!; index++) {
        const group = groupsOf.items[index]!;
        if (this.#rise[group] === 0) this.#touched[touchedCount++] = group;
        this.#rise[group]! += change;
        if (this.cost[group]! + this.#rise[group]! > limit[group]!) {
          isAdmitted = false;
          break search;
        }
      }
    }
    for (let index = 0; index < touchedCount; index++) this.#rise[this.#touched[index]!] = 0;
    return isAdmitted;
  }

  /**
   * Moves v and updates all costs. Returns how many vertices have a new recreation cost. Calls `onCross` for
   * every group that the move takes over its limit or back within it.
   */
  move(v: number, edge: number, onCross?: (group: number, isOver: boolean) => void): number {
    const change = this.tree.recreationChange(v, edge);
    this.tree.move(v, edge);
    if (change === 0) return 0;
    const { groupsOf } = this.limits;
    const crossed: number[] = [];
    const changed = this.tree.subtree(v);
    for (const x of changed) {
      for (let index = groupsOf.start[x]!; index < groupsOf.start[x + 1]!; index++) {
        const group = groupsOf.items[index]!;
        const wasOver = this.isOver(group);
        this.cost[group]! += change;
        if (this.isOver(group) === wasOver) continue;
        this.exceeded += wasOver ? -1 : 1;
        crossed.push(group);
      }
    }
    if (onCross !== undefined) for (const group of crossed) onCross(group, this.isOver(group));
    return changed.length;
  }
}
