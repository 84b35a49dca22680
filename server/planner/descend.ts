/**
 * Local search for less storage. Takes a tree that keeps its limits and swaps single parents until no swap
 * within the limits saves storage: a local optimum.
 */
import type { LimitMeter } from "./budgets.js";

/** A saving below this share of an edge's cost is a rounding error. */
const minSavingShare = 1e-12;

/**
 * Moves each vertex to the incoming edge that is cheapest to store and that every limit admits. The vertices
 * that could save most come first. Repeats this over all vertices until nothing changes. A swap that saves no
 * storage is made where it lowers recreation costs, because that leaves more of a budget for other swaps.
 * Never adds storage, and never breaks a limit that holds.
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
