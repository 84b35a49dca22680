/**
 * Local search for less storage. Takes a tree that keeps its limits and swaps single parents until no swap
 * within the limits saves storage: a local optimum.
 */
import type { LimitMeter } from "./budgets.js";
import { costRoundingShare, moveRoundingShare } from "./rounding.js";

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
  let waiting = Int32Array.from({ length: graph.vertexCount - 1 }, (_, index) => index + 1);
  for (let hasChanged = true; hasChanged && !isTimeUp();) {
    hasChanged = false;
    const savings = Float64Array.from({ length: graph.vertexCount }, (_, v) => (v === 0 ? 0 : saving(v)));
    waiting = waiting.sort((a, b) => savings[b]! - savings[a]! || a - b);
    for (const v of waiting) {
      const current = tree.parentEdge[v]!;
      for (let index = start[v]!; index < start[v + 1]!; index++) {
        const edge = items[index]!;
        const saved = storage[current]! - storage[edge]!;
        if (saved < 0) break;
        const isCheaper = saved > storage[current]! * costRoundingShare;
        if (
          edge === current ||
          (!isCheaper && tree.recreationChange(v, edge) >= -tree.recreation[v]! * moveRoundingShare)
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
