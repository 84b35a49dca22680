/**
 * Searches for a storage plan: the smallest storage cost with every snapshot's recreation cost within its budget (MH
 * Problem 1). Runs the paper's algorithms, improves their trees, continues with a local search, and returns
 * the cheapest tree found that keeps all budgets. Pure except for the clock that may bound the search, so it
 * can run in a worker.
 */
import { seededNumbers } from "../../../shared/random/seeded-numbers.js";
import { StemmaError } from "../../../shared/errors.js";
import type { Clock } from "../../../shared/ports.js";
import {
  budgetsByRatio,
  isWithin,
  limitsOf,
  LimitMeter,
  requireBudgetsReachable,
  type Limits,
} from "./budgets.js";
import { descend } from "./descend.js";
import { disturb, exchange } from "./exchange.js";
import { lastTree } from "./last-tree.js";
import { minimumStorageTree } from "./minimum-arborescence.js";
import { pasMt } from "./pas-mt.js";
import { pasPt } from "./pas-pt.js";
import { snapshotCosts, type PlanningScheme } from "./retrieval.js";
import { minRecreationCosts, shortestPathTree } from "./shortest-path-tree.js";
import type { ParentEdges, StorageGraph } from "./storage-graph.js";
import { type PlanAlgorithm, type PlanCandidate, type PlanHeader } from "./storage-plan.js";
import { StorageTree } from "./storage-tree.js";

/**
 * The recreation budgets of all snapshots: a ratio α to each snapshot's minimum recreation cost, or one cost
 * per snapshot in the graph's order (Infinity for no budget).
 */
export type Budgets = { readonly ratio: number } | { readonly costs: ArrayLike<number> };

export interface PlanProgress {
  readonly step: PlanAlgorithm;
  /** Smallest storage cost found within the budgets so far. */
  readonly storageCost: number;
}
export interface PlanOptions {
  readonly scheme?: PlanningScheme;
  /** `minRecreationCosts` of the graph, where the caller has them already. */
  readonly minCosts?: Float64Array;
  /**
   * Ends the search for better plans after this time; the returned plan keeps the budgets in any case. When
   * absent, the same input always gives the same plan.
   */
  readonly time?: { readonly clock: Clock; readonly limitMs: number };
  /**
   * Work of the local search, counted in edges looked at and vertices moved; 0 for single swaps only. The
   * default depends on the number of edges and takes a few seconds at most.
   */
  readonly effort?: number | undefined;
  readonly seed?: number | undefined;
  readonly onProgress?: (progress: PlanProgress) => void;
}

/** A tree that an algorithm returned. */
export interface ReferenceTree {
  readonly algorithm: PlanAlgorithm;
  readonly tree: ParentEdges;
}

/** The default effort: per edge of the graph, and its maximum. */
const effortPerEdge = 2e4;
const maxEffort = 6e7;
/** The number of improved trees that are searched by exchanges, and the share of the effort for each. */
const maxExchanged = 3;
const exchangeShare = 0.5;

/** The best tree found, and the budgets that it keeps. */
export interface FoundTree {
  readonly tree: ParentEdges;
  readonly budgets: Float64Array;
  readonly header: PlanHeader;
}

/** @throws BUDGET_UNREACHABLE where no plan can keep a budget */
export function searchTree(graph: StorageGraph, budgets: Budgets, options: PlanOptions = {}): FoundTree {
  const scheme = options.scheme ?? "independent";
  const minCosts = options.minCosts ?? minRecreationCosts(graph);
  const costs =
    "ratio" in budgets
      ? budgetsByRatio(graph, minCosts, budgets.ratio, scheme)
      : Float64Array.from(budgets.costs);
  requireBudgetsReachable(graph, minCosts, costs, scheme);
  const limits = limitsOf(graph, costs, scheme);
  const isTimeUp = deadline(options.time);
  const keeper = new BestKeeper(graph, costs, scheme, options.onProgress);
  for (const { algorithm, tree } of referenceTrees(graph, costs, {
    scheme,
    isTimeUp,
    limits,
    minCosts,
  })) {
    // The minimum-storage tree keeps the budgets: no plan is better.
    if (keeper.offer(algorithm, tree) && algorithm === "mst") break;
  }
  const leastStorageCost = keeper.storageOf("mst");
  if (keeper.best.algorithm !== "mst")
    search(graph, limits, keeper, { effort: options.effort, seed: options.seed, isTimeUp });
  const { algorithm, tree, isRefined } = keeper.best;
  return {
    tree,
    budgets: costs,
    header: {
      scheme,
      algorithm,
      isRefined,
      isCutShort: isTimeUp(),
      leastStorageCost,
      candidates: keeper.candidates,
    },
  };
}

/**
 * The trees of the paper's algorithms, quickest to compute first. Those of MST, PAS-MT and PAS-PT may break
 * budgets; those of SPT and LAST never do. LAST gets the largest ratio that all budgets admit.
 */
export function* referenceTrees(
  graph: StorageGraph,
  costs: Float64Array,
  {
    scheme,
    isTimeUp = () => false,
    limits = limitsOf(graph, costs, scheme),
    minCosts = minRecreationCosts(graph),
  }: {
    readonly scheme: PlanningScheme;
    readonly isTimeUp?: () => boolean;
    readonly limits?: Limits;
    readonly minCosts?: Float64Array;
  },
): Generator<ReferenceTree> {
  const cheapest = minimumStorageTree(graph);
  yield { algorithm: "mst", tree: cheapest };
  const shortest = shortestPathTree(graph, minCosts);
  yield { algorithm: "spt", tree: shortest };
  const ratio = snapshotCosts(graph, minCosts, scheme).reduce(
    (smallest, cost, s) => (cost > 0 ? Math.min(smallest, costs[s]! / cost) : smallest),
    Number.POSITIVE_INFINITY,
  );
  yield {
    algorithm: "last",
    tree: Number.isFinite(ratio) ? lastTree(graph, cheapest, shortest, ratio) : shortest,
  };
  const options = { isTimeUp, ...(scheme === "parallel" ? { snapshotsOnce: graph.members } : {}) };
  yield { algorithm: "pas-mt", tree: pasMt(graph, cheapest, limits, options) };
  yield { algorithm: "pas-pt", tree: pasPt(graph, shortest, limits, options) };
}

function deadline(time: PlanOptions["time"]): () => boolean {
  if (time === undefined) return () => false;
  const endMs = time.clock.monotonic() + time.limitMs;
  return () => time.clock.monotonic() >= endMs;
}

interface Kept {
  readonly algorithm: PlanAlgorithm;
  readonly tree: ParentEdges;
  readonly storageCost: number;
  readonly isRefined: boolean;
}

/** Sums the costs of every candidate tree again, and remembers the cheapest tree that keeps all budgets. */
class BestKeeper {
  readonly candidates: PlanCandidate[] = [];
  readonly trees: ReferenceTree[] = [];
  #best: Kept | undefined;
  constructor(
    private readonly graph: StorageGraph,
    private readonly costs: Float64Array,
    private readonly scheme: PlanningScheme,
    private readonly onProgress: PlanOptions["onProgress"],
  ) {}

  get best(): Kept {
    if (this.#best === undefined)
      throw new StemmaError(
        "INTERNAL",
        "No tree keeps the budgets although the one stored for speed must. This is a fault of the planner.",
      );
    return this.#best;
  }
  storageOf(algorithm: PlanAlgorithm): number {
    return this.candidates.find((candidate) => candidate.algorithm === algorithm)!.storageCost;
  }

  /** Takes the tree that an algorithm of the paper returned. Returns whether it keeps the budgets. */
  offer(algorithm: PlanAlgorithm, tree: ParentEdges): boolean {
    const { storageCost, isWithinBudgets } = this.consider(algorithm, tree, false);
    this.candidates.push({ algorithm, storageCost, isWithinBudgets });
    this.trees.push({ algorithm, tree });
    return isWithinBudgets;
  }
  /** Takes a tree that was improved from an offered one (`isRefined`), or an offered one itself. */
  consider(
    algorithm: PlanAlgorithm,
    tree: ParentEdges,
    isRefined: boolean,
  ): { readonly storageCost: number; readonly isWithinBudgets: boolean } {
    const { recreation, storageCost } = new StorageTree(this.graph, tree);
    const isWithinBudgets = snapshotCosts(this.graph, recreation, this.scheme).every((cost, s) =>
      isWithin(cost, this.costs[s]!),
    );
    if (isWithinBudgets && (this.#best === undefined || storageCost < this.#best.storageCost)) {
      this.#best = { algorithm, tree: tree.slice(), storageCost, isRefined };
      this.onProgress?.({ step: algorithm, storageCost });
    }
    return { storageCost, isWithinBudgets };
  }
}

/**
 * Improves the paper's trees that keep the budgets: all by single swaps, the best few by exchanges, and the
 * best one by disturbances.
 */
function search(
  graph: StorageGraph,
  limits: Limits,
  keeper: BestKeeper,
  { isTimeUp, effort, seed = 1 }: Pick<PlanOptions, "effort" | "seed"> & { readonly isTimeUp: () => boolean },
): void {
  const descended = keeper.trees
    .map(({ algorithm, tree }) => ({
      algorithm,
      meter: new LimitMeter(new StorageTree(graph, tree), limits),
    }))
    .filter(({ meter }) => meter.exceeded === 0);
  for (const { algorithm, meter } of descended) {
    descend(meter, isTimeUp);
    keeper.consider(algorithm, meter.tree.parentEdge, true);
  }
  const total = effort ?? Math.min(maxEffort, effortPerEdge * graph.edgeCount);
  descended.sort((a, b) => a.meter.tree.storageCost - b.meter.tree.storageCost);
  for (const { algorithm, meter } of descended.slice(0, maxExchanged)) {
    exchange(meter, { steps: total * exchangeShare }, isTimeUp);
    keeper.consider(algorithm, meter.tree.parentEdge, true);
  }
  const meter = new LimitMeter(new StorageTree(graph, keeper.best.tree), limits);
  disturb(meter, { steps: total }, seededNumbers(seed), isTimeUp);
  keeper.consider("search", meter.tree.parentEdge, true);
}
