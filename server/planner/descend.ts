/**
 * Takes a tree that keeps its budgets down to one where no single swap saves storage within them. Pure local
 * search.
 */
import type { LimitMeter } from "./budgets.js";

/** Savings below this share of an edge's cost are rounding. */
const minSavingShare = 1e-12;

/**
 * Swaps each vertex to the cheapest parent that every limit admits, those with most to save first, and
 * passes over all until nothing changes. A swap that saves no storage is taken where it lowers recreation
 * cost, because that makes room. Never adds storage, never breaks a limit that holds.
 */
export function descend(meter: LimitMeter, isTimeUp: () => boolean = () => false): void {
  const {
    tree,
    tree: { graph },
  } = meter;
  const {
    storage,
    from,
    incoming: { start, items },
  } = graph;
  const saving = (v: number): number => storage[tree.parentEdge[v]!]! - storage[items[start[v]!]!]!;
  let waiting = Int32Array.from({ length: graph.vertexCount - 1 }, (_, at) => at + 1);
  for (let hasChanged = true; hasChanged && !isTimeUp();) {
    hasChanged = false;
    const most = Float64Array.from({ length: graph.vertexCount }, (_, v) => (v === 0 ? 0 : saving(v)));
    waiting = waiting.sort((a, b) => most[b]! - most[a]! || a - b);
    for (const v of waiting) {
      const now = tree.parentEdge[v]!;
      for (let at = start[v]!; at < start[v + 1]!; at++) {
        const edge = items[at]!;
        const saved = storage[now]! - storage[edge]!;
        if (saved < 0) break;
        const isCheaper = saved > storage[now]! * minSavingShare;
        if (
          edge === now ||
          (!isCheaper && tree.recreationChange(v, edge) >= -tree.recreation[v]! * minSavingShare * 100)
        )
          continue;
        if (tree.isBelow(from[edge]!, v) || !meter.admits(v, edge)) continue;
        meter.move(v, edge);
        hasChanged = true;
        break;
      }
    }
  }
}
