/**
 * A lower bound on the storage of every plan within its budgets, by Lagrangian relaxation. A plan that takes
 * little more is nearly optimal, whatever algorithm found it.
 *
 * The recreation cost of each vertex is divided into levels; a level stands for all costs from its lower end on.
 * A tree then has one edge into each vertex, and an edge that starts at a level of its source needs the source to
 * have that level. Two kinds of constraints are relaxed, and get prices that are not negative:
 * - the budgets of snapshots (independent scheme; under the parallel one they bound the levels themselves)
 * - that an edge starts at the level that its source really has
 * With any prices, the cheapest arborescence under the priced costs, less the price of all budgets, is at most the
 * storage of the best plan. A subgradient method with Polyak's step raises this bound.
 */
import { limitsOf, type Limits } from "../../server/storage/planner/budgets.js";
import {
  minimumArborescence,
  minimumStorageTree,
} from "../../server/storage/planner/minimum-arborescence.js";
import type { PlanningScheme } from "../../server/storage/planner/retrieval.js";
import { minRecreationCosts } from "../../server/storage/planner/shortest-path-tree.js";
import type { ParentEdges, StorageGraph } from "../../server/storage/planner/storage-graph.js";
import { StorageTree } from "../../server/storage/planner/storage-tree.js";

export interface BoundRequest {
  /** Budget of every snapshot; Infinity for none. */
  readonly budgets: Float64Array;
  readonly scheme: PlanningScheme;
  /** Storage of a known plan, which the steps aim at. */
  readonly planned: number;
  /** Steps of the subgradient method for each number of levels; each takes one arborescence. */
  readonly steps?: number;
  /** Levels of recreation cost per vertex: they are doubled until there are so many. */
  readonly levels?: number;
}

/** Relative slack for costs that are summed in different orders. */
const roundingShare = 1e-9;

/** Levels of recreation cost per vertex at first. */
const firstLevels = 4;

/** A storage cost that no plan within the budgets is below, up to rounding. */
export function storageBound(graph: StorageGraph, request: BoundRequest): number {
  const { planned, steps = 100, levels: maxLevels = 16 } = request;
  let best = new StorageTree(graph, minimumStorageTree(graph)).storageCost;
  let coarser: Relaxation | undefined;
  for (let levels = firstLevels; levels <= maxLevels && best < planned; levels *= 2) {
    const relaxation: Relaxation = new Relaxation(graph, request, { levels, coarser });
    best = Math.max(best, climb(relaxation, { best, planned, steps }));
    coarser = relaxation;
  }
  return Math.min(best, planned);
}

/** The best bound of some steps. */
function climb(
  relaxation: Relaxation,
  { best, planned, steps }: { readonly best: number; readonly planned: number; readonly steps: number },
): number {
  let stepShare = 1;
  let stalled = 0;
  for (let step = 0; step < steps && best < planned; step++) {
    const bound = relaxation.solve();
    if (bound > best * (1 + 1e-4)) stalled = 0;
    else if (++stalled % 8 === 0) stepShare /= 1.5;
    if (bound > best) relaxation.remember();
    best = Math.max(best, bound);
    if (!relaxation.raisePrices(stepShare * (planned - bound))) break;
  }
  return best;
}

class Relaxation {
  readonly #levels: number;
  readonly #limits: Limits;
  /** Whether budgets bound sums over several vertices. */
  readonly #isSummed: boolean;
  /** Lower end of each vertex's levels. */
  readonly #levelCost: Float64Array;
  /** The level of its target that an edge reaches from each level of its source; −1: over the target's limit. */
  readonly #reached: Int8Array;
  /** Price of starting an edge at each level of its source, and the direction in which it changes. */
  readonly #levelPrice: Float64Array;
  readonly #levelDirection: Float64Array;
  /** Price of each budget, in bytes per unit of cost, and the direction in which it changes, in bytes. */
  readonly #budgetPrice: Float64Array;
  readonly #budgetDirection: Float64Array;
  /** What makes directions of different quantities comparable: squares of storage, and bytes per cost. */
  readonly #edgeScale: Float64Array;
  readonly #budgetScale: Float64Array;
  /** The prices of the best bound so far. */
  readonly best: { readonly levels: Float64Array; readonly budgets: Float64Array };
  /** Of the last solution: the tree, and the level at which each edge starts at best. */
  #tree: ParentEdges = new Int32Array(0);
  readonly #startLevel: Int8Array;

  constructor(
    private readonly graph: StorageGraph,
    { budgets, scheme }: BoundRequest,
    /** @param coarser a solved relaxation with half as many levels, whose prices are as good here */
    { levels, coarser }: { readonly levels: number; readonly coarser?: Relaxation | undefined },
  ) {
    const { vertexCount, edgeCount } = graph;
    this.#levels = levels;
    this.#limits = limitsOf(graph, budgets, scheme);
    this.#isSummed = scheme === "independent";
    const minCosts = minRecreationCosts(graph);
    const maxCosts = this.#maxCosts(minCosts);
    this.#levelCost = this.#divide(minCosts, maxCosts);
    this.#reached = this.#findReached(maxCosts);
    this.#levelPrice = new Float64Array(edgeCount * levels);
    this.#levelDirection = new Float64Array(edgeCount * levels);
    const count = this.#isSummed ? this.#limits.count : 0;
    this.#budgetPrice = new Float64Array(count);
    this.#budgetDirection = new Float64Array(count);
    if (coarser !== undefined) this.#takePrices(coarser);
    this.best = { levels: this.#levelPrice.slice(), budgets: this.#budgetPrice.slice() };
    this.#startLevel = new Int8Array(edgeCount);
    this.#edgeScale = new Float64Array(edgeCount);
    const smallest = new Float64Array(vertexCount);
    for (let v = 1; v < vertexCount; v++) {
      const into = this.#edgesInto(v).map((edge) => graph.storage[edge]!);
      smallest[v] = into[0]!;
      for (const edge of this.#edgesInto(v)) this.#edgeScale[edge] = (into.at(-1)! - into[0]!) ** 2;
    }
    this.#budgetScale = this.#budgetPrice.map((_, group) => {
      const limit = this.#limits.limit[group]!;
      return Number.isFinite(limit) && limit > 0 ? this.#sumOver(group, (v) => smallest[v]!) / limit : 0;
    });
  }

  /** Prices with which the bound is at least that of the coarser levels: each is split in two. */
  #takePrices({ best }: Relaxation): void {
    for (let i = 0; i < best.levels.length; i++) this.#levelPrice.fill(best.levels[i]!, 2 * i, 2 * i + 2);
    this.#budgetPrice.set(best.budgets);
  }
  /** Keeps the prices of the last solution as the best ones. */
  remember(): void {
    this.best.levels.set(this.#levelPrice);
    this.best.budgets.set(this.#budgetPrice);
  }

  #edgesInto(v: number): readonly number[] {
    const { start, items } = this.graph.incoming;
    return Array.from(items.subarray(start[v], start[v + 1]));
  }
  #sumOver(group: number, valueOf: (v: number) => number): number {
    const { start, items } = this.#limits.members;
    let sum = 0;
    for (let index = start[group]!; index < start[group + 1]!; index++) sum += valueOf(items[index]!);
    return sum;
  }

  /** What each vertex may cost where all others of its groups cost their minimum. */
  #maxCosts(minCosts: Float64Array): Float64Array {
    const { count, limit, members } = this.#limits;
    const maxCosts = new Float64Array(this.graph.vertexCount).fill(Number.POSITIVE_INFINITY);
    for (let group = 0; group < count; group++) {
      const slack = limit[group]! - this.#sumOver(group, (v) => minCosts[v]!);
      for (let index = members.start[group]!; index < members.start[group + 1]!; index++) {
        const v = members.items[index]!;
        maxCosts[v] = Math.min(maxCosts[v]!, minCosts[v]! + slack);
      }
    }
    return maxCosts.map((cost) => cost * (1 + roundingShare));
  }

  /** Levels of equal width up to the cost in the minimum-storage tree; the last one has no upper end. */
  #divide(minCosts: Float64Array, maxCosts: Float64Array): Float64Array {
    const { graph } = this;
    const levels = this.#levels;
    const { recreation } = new StorageTree(graph, minimumStorageTree(graph));
    const levelCost = new Float64Array(graph.vertexCount * levels);
    for (let v = 1; v < graph.vertexCount; v++) {
      const width = Math.max(0, Math.min(maxCosts[v]!, 1.05 * recreation[v]!) - minCosts[v]!) / levels;
      for (let level = 0; level < levels; level++)
        levelCost[v * levels + level] = minCosts[v]! + width * level;
    }
    return levelCost;
  }

  #findReached(maxCosts: Float64Array): Int8Array {
    const { from, to, edgeCount } = this.graph;
    const levels = this.#levels;
    const levelCost = this.#levelCost;
    const reached = new Int8Array(edgeCount * levels).fill(-1);
    for (let edge = 0; edge < edgeCount; edge++) {
      const v = to[edge]!;
      const first = v * levels;
      const width = levelCost[first + Math.min(1, levels - 1)]! - levelCost[first]!;
      for (let level = 0; level < (from[edge] === 0 ? 1 : levels); level++) {
        const cost = this.#costBy(edge, level);
        if (cost > maxCosts[v]!) break;
        const above = width > 0 ? (cost * (1 - roundingShare) - levelCost[first]!) / width : 0;
        reached[edge * levels + level] = Math.min(levels - 1, Math.max(0, Math.floor(above)));
      }
    }
    return reached;
  }

  /** The smallest recreation cost of an edge's target where its source has a level. */
  #costBy(edge: number, level: number): number {
    const { from, recreation } = this.graph;
    return this.#levelCost[from[edge]! * this.#levels + level]! + recreation[edge]!;
  }

  /** The bound for the current prices. */
  solve(): number {
    const { graph } = this;
    const { edgeCount, from, to, storage } = graph;
    const levels = this.#levels;
    const reached = this.#reached;
    const credit = new Float64Array(graph.vertexCount * levels);
    for (let edge = 0; edge < edgeCount; edge++)
      for (let level = 0; level < levels; level++)
        credit[from[edge]! * levels + level]! += this.#levelPrice[edge * levels + level]!;
    const { weight, priceOfBudgets } = this.#weighVertices();
    const cost = new Float64Array(edgeCount);
    for (let edge = 0; edge < edgeCount; edge++) {
      const v = to[edge]!;
      let least = Number.POSITIVE_INFINITY;
      for (let level = 0; level < levels; level++) {
        const at = reached[edge * levels + level]!;
        if (at < 0) break;
        const priced =
          this.#levelPrice[edge * levels + level]! +
          weight[v]! * this.#costBy(edge, level) -
          credit[v * levels + at]!;
        if (priced >= least) continue;
        least = priced;
        this.#startLevel[edge] = level;
      }
      cost[edge] = storage[edge]! + least;
    }
    this.#tree = minimumArborescence(graph, {
      first: cost,
      second: storage,
      isUsable: (edge) => reached[edge * levels]! >= 0,
    });
    return this.#tree.reduce((sum, edge) => (edge < 0 ? sum : sum + cost[edge]!), -priceOfBudgets);
  }

  /** Bytes that a unit of each vertex's recreation cost is worth, and what all budgets are worth together. */
  #weighVertices(): { readonly weight: Float64Array; readonly priceOfBudgets: number } {
    const { limit, members } = this.#limits;
    const weight = new Float64Array(this.graph.vertexCount);
    let priceOfBudgets = 0;
    this.#budgetPrice.forEach((price, group) => {
      if (price === 0) return;
      priceOfBudgets += price * limit[group]!;
      for (let index = members.start[group]!; index < members.start[group + 1]!; index++)
        weight[members.items[index]!]! += price;
    });
    return { weight, priceOfBudgets };
  }

  /** Moves the prices so that the bound would rise by `rise`, were it linear. Returns whether any can move. */
  raisePrices(rise: number): boolean {
    this.#turn();
    const levels = this.#levels;
    const [prices, directions] = [this.#levelPrice, this.#levelDirection];
    const [budgetPrices, budgetDirections] = [this.#budgetPrice, this.#budgetDirection];
    let norm = 0;
    for (let i = 0; i < prices.length; i++)
      if (directions[i]! > 0 || prices[i]! > 0)
        norm += directions[i]! ** 2 * this.#edgeScale[Math.floor(i / levels)]!;
    for (let group = 0; group < budgetPrices.length; group++)
      if (budgetDirections[group]! > 0 || budgetPrices[group]! > 0) norm += budgetDirections[group]! ** 2;
    if (norm === 0) return false;
    const step = rise / norm;
    for (let i = 0; i < prices.length; i++)
      if (directions[i] !== 0)
        prices[i] = Math.max(
          0,
          prices[i]! + step * directions[i]! * this.#edgeScale[Math.floor(i / levels)]!,
        );
    for (let group = 0; group < budgetPrices.length; group++)
      budgetPrices[group] = Math.max(
        0,
        budgetPrices[group]! + step * budgetDirections[group]! * this.#budgetScale[group]!,
      );
    return true;
  }

  /** Adds to the directions how far the last solution breaks each relaxed constraint. */
  #turn(): void {
    const { vertexCount, from, outgoing } = this.graph;
    const levels = this.#levels;
    const direction = this.#levelDirection;
    const kept = 0.6;
    for (let i = 0; i < direction.length; i++) direction[i]! *= kept;
    for (let v = 1; v < vertexCount; v++) {
      const edge = this.#tree[v]!;
      const start = edge * levels + this.#startLevel[edge]!;
      if (from[edge] !== 0) direction[start]! += 1;
      for (let index = outgoing.start[v]!; index < outgoing.start[v + 1]!; index++)
        direction[outgoing.items[index]! * levels + this.#reached[start]!]! -= 1;
    }
    this.#budgetDirection.forEach((before, group) => {
      const cost = this.#sumOver(group, (v) =>
        this.#costBy(this.#tree[v]!, this.#startLevel[this.#tree[v]!]!),
      );
      const scale = this.#budgetScale[group]!;
      this.#budgetDirection[group] =
        kept * before + (scale === 0 ? 0 : cost - this.#limits.limit[group]!) * scale;
    });
  }
}
