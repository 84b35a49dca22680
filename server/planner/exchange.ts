/**
 * Exchanges: a swap that saves storage but breaks budgets is taken all the same, other members of the
 * broken snapshots are re-parented to make room, and the whole is kept where it saves storage on balance,
 * else undone. Finds what neither single swaps nor prices can: room is a knapsack, and large tensors only
 * fit where small ones move together.
 */
import type { LimitMeter } from "./budgets.js";
import { descend } from "./descend.js";

/** Work that may still be done, in edges looked at; shared by all searches of one plan, so that it ends by count and not by the clock. */
export interface Effort { left: number }

/** Exchanges that break more budgets than this are not tried: they rearrange a whole family, which is the search by prices' work. */
const mostBroken = 24;
/** Swaps that one exchange may take to make room. */
const mostRepairs = 24;
/** An exchange must save this share of the edge it replaces, or it is rounding. */
const leastSavingShare = 1e-9;

/** Passes over all vertices, those with most to save first, until nothing changes or the effort is spent. Never adds storage, never breaks a limit. */
export function exchange(meter: LimitMeter, effort: Effort, isTimeUp: () => boolean): void {
  const { tree, tree: { graph } } = meter;
  const { storage, incoming: { start, items } } = graph;
  const room = new RoomMaker(meter, effort);
  for (let hasChanged = true; hasChanged;) {
    hasChanged = false;
    const saving = Float64Array.from({ length: graph.vertexCount }, (_, v) => (v === 0 ? 0 : storage[tree.parentEdge[v]!]! - storage[items[start[v]!]!]!));
    const order = Int32Array.from({ length: graph.vertexCount - 1 }, (_, at) => at + 1).sort((a, b) => saving[b]! - saving[a]! || a - b);
    for (const v of order) {
      if (effort.left <= 0 || isTimeUp()) return;
      if (!(saving[v]! > 0)) break;
      for (let at = start[v]!; at < start[v + 1]!; at++) {
        const edge = items[at]!, now = tree.parentEdge[v]!;
        if (storage[now]! - storage[edge]! <= storage[now]! * leastSavingShare) break;
        if (!tree.isBelow(graph.from[edge]!, v) && room.tryMove(v, edge)) { hasChanged = true; break; }
      }
    }
    if (hasChanged) { meter.recompute(); descend(meter, isTimeUp); }
  }
}

class RoomMaker {
  private readonly weight: Float64Array;
  private readonly log: { readonly vertex: number; readonly edge: number }[] = [];
  private readonly broken = new Set<number>();

  constructor(private readonly meter: LimitMeter, private readonly effort: Effort) { this.weight = new Float64Array(meter.tree.graph.vertexCount); }

  /** Moves v and makes room, or leaves everything as it was. */
  tryMove(v: number, edge: number): boolean {
    const { tree } = this.meter;
    const saved = -tree.storageChange(v, edge);
    this.log.length = 0;
    this.broken.clear();
    this.move(v, edge);
    let spent = 0;
    for (let repairs = 0; this.broken.size > 0; repairs++) {
      const swap = this.broken.size > mostBroken || repairs === mostRepairs ? -1 : this.cheapestRoom(v, saved - spent);
      if (swap < 0) { this.undo(); return false; }
      const target = tree.graph.to[swap]!;
      spent += tree.storageChange(target, swap);
      this.move(target, swap);
    }
    if (saved - spent > saved * leastSavingShare) return true;
    this.undo();
    return false;
  }

  private move(v: number, edge: number): void {
    this.log.push({ vertex: v, edge: this.meter.tree.parentEdge[v]! });
    this.effort.left -= this.meter.tree.subtree(v).length;
    this.meter.move(v, edge, (group, isOver) => { if (isOver) this.broken.add(group); else this.broken.delete(group); });
  }
  private undo(): void {
    for (const { vertex, edge } of this.log.reverse()) this.meter.move(vertex, edge);
    this.log.length = 0;
  }

  /** The swap with the most needed recreation cost taken off per storage added, for less than `most`; −1 where there is none. */
  private cheapestRoom(fixed: number, most: number): number {
    const { meter, meter: { tree, limits: { members, limit } }, weight } = this;
    const { from, storage, recreation: apply, incoming: { start, items } } = tree.graph;
    const touched: number[] = [];
    let excess = 0;
    for (const group of this.broken) {
      excess += meter.cost[group]! - limit[group]!;
      for (let at = members.start[group]!; at < members.start[group + 1]!; at++) {
        for (let x = members.items[at]!; x > 0; x = tree.parent(x)) {
          if (weight[x] === 0) touched.push(x);
          weight[x]!++;
        }
      }
    }
    let best = -1, bestRatio = 0;
    for (const x of touched) {
      const count = weight[x]!, now = tree.recreation[x]!, paid = storage[tree.parentEdge[x]!]!;
      weight[x] = 0;
      if (x === fixed) continue;
      this.effort.left -= start[x + 1]! - start[x]!;
      for (let at = start[x]!; at < start[x + 1]!; at++) {
        const edge = items[at]!, added = storage[edge]! - paid;
        if (added >= most) break;
        const gain = now - tree.recreation[from[edge]!]! - apply[edge]!;
        if (gain <= now * leastSavingShare) continue;
        // What saves storage as well is best of all; more than the excess is not needed.
        const ratio = added <= 0 ? Number.POSITIVE_INFINITY : Math.min(gain * count, excess) / added;
        if (ratio > bestRatio) { bestRatio = ratio; best = edge; }
      }
    }
    return best;
  }
}
