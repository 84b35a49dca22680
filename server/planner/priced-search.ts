/**
 * Search by prices (Lagrangian relaxation): every budget gets a price on its recreation cost, a tree of
 * low storage plus priced recreation is found by moving each vertex with all that hangs below it to its
 * best parent, and prices rise where budgets are exceeded and fall where there is room. What results is
 * repaired, descended, and the best of all rounds kept. Goes beyond the paper's two algorithms, which fix
 * one vertex at a time and never take a decision back.
 */
import { LimitMeter, type Limits } from "./budgets.js";
import { descend } from "./descend.js";
import { reparentUntilWithin } from "./pas-mt.js";
import { StorageTree } from "./storage-tree.js";
import type { ParentEdges, StorageGraph } from "./storage-graph.js";

export interface PricedSearchOptions {
  readonly rounds: number;
  readonly isTimeUp: () => boolean;
  /** Uniform in [0, 1), seeded; varies starts between restarts. */
  readonly random: () => number;
  /** Every tree within all limits that is cheaper than any before. */
  readonly onBetter: (tree: ParentEdges, storageCost: number) => void;
}

/** Sweeps over all vertices for one set of prices; it settles in two or three. */
const sweepsPerRound = 4;
/** Rounds after which prices and step are set anew when nothing better was found. */
const roundsPerRestart = 24;

export function searchByPrices(graph: StorageGraph, start: ParentEdges, startCost: number, limits: Limits, { rounds, isTimeUp, random, onBetter }: PricedSearchOptions): void {
  let best = startCost, bestTree = start;
  const groups = limitedGroups(limits);
  let prices: Float64Array = new Float64Array(limits.count), bestPrices = prices;
  let meter = new LimitMeter(new StorageTree(graph, start), limits);
  for (let round = 0, since = 0; round < rounds && !isTimeUp(); round++, since++) {
    if (round === 0 || since >= roundsPerRestart) {
      prices = round === 0 ? firstPrices(meter, groups) : varied(bestPrices, groups, random);
      meter = new LimitMeter(new StorageTree(graph, bestTree), limits);
      since = 0;
    }
    settle(meter, prices, random);
    const repaired = new LimitMeter(new StorageTree(graph, meter.tree.parentEdge), limits);
    if (reparentUntilWithin(repaired, { isTimeUp })) {
      descend(repaired, isTimeUp);
      repaired.recompute();
      const cost = repaired.tree.storageCost;
      if (repaired.exceeded === 0 && cost < best) {
        best = cost; bestTree = repaired.tree.parentEdge; bestPrices = prices.slice(); since = 0;
        onBetter(bestTree, cost);
      }
    }
    adjust(prices, meter, groups, 1 / (1 + since / 6));
  }
}

function limitedGroups({ count, limit, members }: Limits): number[] {
  return Array.from({ length: count }, (_, group) => group).filter((group) => Number.isFinite(limit[group]!) && members.start[group]! < members.start[group + 1]!);
}

/** A first guess: what saving all storage above the tree's cheapest edges would be worth, spread over all recreation. */
function firstPrices(meter: LimitMeter, groups: readonly number[]): Float64Array {
  const { tree, limits } = meter;
  let recreation = 0;
  for (const group of groups) recreation += meter.cost[group]!;
  const price = recreation > 0 ? 0.1 * tree.storageCost / recreation : 0;
  const prices = new Float64Array(limits.count);
  for (const group of groups) prices[group] = price;
  return prices;
}

function varied(prices: Float64Array, groups: readonly number[], random: () => number): Float64Array {
  const next = prices.slice(), whole = 0.5 + random();
  for (const group of groups) next[group]! *= whole * (0.6 + 0.8 * random());
  return next;
}

/** Raises prices of exceeded budgets and lowers the others, in proportion to the miss, within a factor of 2. */
function adjust(prices: Float64Array, meter: LimitMeter, groups: readonly number[], step: number): void {
  for (const group of groups) {
    const limit = meter.limits.limit[group]!;
    const miss = limit > 0 ? (meter.cost[group]! - limit) / limit : 0;
    prices[group]! *= Math.min(2, Math.max(0.5, 1 + 2 * step * miss));
  }
}

/** Moves vertices, each with everything below it, to the parent of least storage plus priced recreation until that settles. */
function settle(meter: LimitMeter, prices: Float64Array, random: () => number): void {
  const { tree, tree: { graph, recreation, parentEdge }, limits: { groupsOf } } = meter;
  const { from, storage, recreation: apply, incoming: { start, items } } = graph;
  const below = new Float64Array(graph.vertexCount);
  for (const v of [...tree.subtree(0)].reverse()) {
    for (let at = groupsOf.start[v]!; at < groupsOf.start[v + 1]!; at++) below[v]! += prices[groupsOf.items[at]!]!;
    if (v !== 0) below[tree.parent(v)]! += below[v]!;
  }
  const addAlong = (v: number, by: number): void => { for (; v > 0; v = tree.parent(v)) below[v]! += by; };
  const order = Int32Array.from({ length: graph.vertexCount - 1 }, (_, at) => at + 1);
  for (let at = order.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [order[at], order[other]] = [order[other]!, order[at]!];
  }
  for (let sweep = 0, moved = 1; sweep < sweepsPerRound && moved > 0; sweep++) {
    moved = 0;
    for (const v of order) {
      const price = below[v]!;
      let best = parentEdge[v]!;
      let bestScore = (storage[best]! + price * recreation[v]!) * (1 - 1e-9);
      for (let at = start[v]!; at < start[v + 1]!; at++) {
        const edge = items[at]!;
        if (storage[edge]! >= bestScore) break;
        const score = storage[edge]! + price * (recreation[from[edge]!]! + apply[edge]!);
        if (score < bestScore && !tree.isBelow(from[edge]!, v)) { best = edge; bestScore = score; }
      }
      if (best === parentEdge[v]) continue;
      addAlong(tree.parent(v), -price);
      meter.move(v, best);
      addAlong(tree.parent(v), price);
      moved++;
    }
  }
  meter.recompute();
}
