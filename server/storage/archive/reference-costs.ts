/**
 * Computes what edges with several references need besides their source. References that are recreated apart
 * from the source (of averages) cost what their own chains cost, which depends on the tree; an edge's cost in
 * the graph has only an estimate of it. Pure.
 */
import type { ParentEdges, StorageGraph } from "../planner/storage-graph.js";
import { apartUsOf, isApart, othersOf, previousOf } from "./archive-plan.js";

export class ReferenceCosts {
  /** The other vertices of each edge that predicts from more tensors than its source. */
  readonly further: ReadonlyMap<number, readonly number[]>;
  /** The own cost, without the others, of each edge whose other references are recreated apart from the source. */
  readonly #ownCost: ReadonlyMap<number, number>;

  constructor(private readonly graph: StorageGraph) {
    const vertexNumbers = new Map(graph.vertexIds.map((id, v) => [id, v]));
    // An edge that needs a tensor which is not a vertex is never sound; `vertexCount` marks it.
    this.further = new Map(
      graph.details.flatMap((detail, edge): readonly (readonly [number, readonly number[]])[] => {
        const previous = previousOf({ detail });
        if (previous === undefined) return [];
        const ids = [previous, ...othersOf({ detail })];
        return [[edge, ids.map((id) => vertexNumbers.get(id) ?? graph.vertexCount)]];
      }),
    );
    this.#ownCost = new Map(
      [...this.further.keys()].flatMap((edge) => {
        const detail = graph.details[edge];
        return isApart({ detail })
          ? [[edge, Math.max(0, graph.recreation[edge]! - apartUsOf({ detail }))] as const]
          : [];
      }),
    );
  }

  get hasApart(): boolean {
    return this.#ownCost.size > 0;
  }
  isApart(edge: number): boolean {
    return this.#ownCost.has(edge);
  }

  /**
   * The recreation costs of all edges, those of the tree's edges with what their references cost in this tree.
   * Infinite where a tensor needs itself.
   */
  recreationIn(parentEdge: ParentEdges): Float64Array {
    const { from, recreation, vertexCount } = this.graph;
    const counted = recreation.slice();
    if (!this.hasApart) return counted;
    const costs = new Float64Array(vertexCount).fill(Number.NaN);
    costs[0] = 0;
    const costOf = (v: number): number => {
      if (v >= vertexCount) return 0;
      if (!Number.isNaN(costs[v]!)) return costs[v]!;
      costs[v] = Number.POSITIVE_INFINITY;
      const edge = parentEdge[v]!;
      const own = this.#ownCost.get(edge);
      if (own !== undefined)
        counted[edge] = this.further.get(edge)!.reduce((sum, other) => sum + costOf(other), own);
      return (costs[v] = costOf(from[edge]!) + counted[edge]!);
    };
    for (let v = 1; v < vertexCount; v++) costOf(v);
    return counted;
  }

  /** The graph in which the tree's edges cost what they really cost. */
  countedIn(parentEdge: ParentEdges): StorageGraph {
    return this.hasApart ? { ...this.graph, recreation: this.recreationIn(parentEdge) } : this.graph;
  }
}
