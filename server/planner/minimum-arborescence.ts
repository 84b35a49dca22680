/**
 * Minimum spanning arborescence: the cheapest spanning tree of a directed graph from its root. This is the
 * algorithm of Chu, Liu and Edmonds with mergeable heaps and a union-find that can be rolled back (Tarjan
 * 1977, Gabow et al. 1986), in O(E log V). Edges are compared by a first weight, and by a second one where
 * the first is equal. Does not use snapshots or budgets.
 */
import { StemmaError } from "../../shared/errors.js";
import type { ParentEdges, StorageGraph } from "./storage-graph.js";

/**
 * Leftist heaps of edges, stored in arrays: the node of an edge has the edge's number. A number that is added
 * to all weights of a heap is noted at its root and passed down later (lazy propagation).
 */
class EdgeHeaps {
  readonly #left: Int32Array;
  readonly #right: Int32Array;
  readonly #rank: Int32Array;
  readonly #first: Float64Array;
  readonly #second: Float64Array;
  readonly #addFirst: Float64Array;
  readonly #addSecond: Float64Array;
  constructor(first: Float64Array, second: Float64Array) {
    this.#left = new Int32Array(first.length).fill(-1);
    this.#right = new Int32Array(first.length).fill(-1);
    this.#rank = new Int32Array(first.length).fill(1);
    this.#first = first.slice();
    this.#second = second.slice();
    this.#addFirst = new Float64Array(first.length);
    this.#addSecond = new Float64Array(first.length);
  }
  /** Passes a node's noted addition down to its children. */
  #push(node: number): void {
    const [byFirst, bySecond] = [this.#addFirst[node]!, this.#addSecond[node]!];
    if (byFirst === 0 && bySecond === 0) return;
    if (this.#left[node]! >= 0) this.#add(this.#left[node]!, byFirst, bySecond);
    if (this.#right[node]! >= 0) this.#add(this.#right[node]!, byFirst, bySecond);
    this.#addFirst[node] = 0;
    this.#addSecond[node] = 0;
  }
  #add(heap: number, byFirst: number, bySecond: number): void {
    this.#first[heap]! += byFirst;
    this.#second[heap]! += bySecond;
    this.#addFirst[heap]! += byFirst;
    this.#addSecond[heap]! += bySecond;
  }
  /**
   * Merges two heaps; −1 is the empty heap. The recursion follows the right spines, whose length is
   * logarithmic.
   */
  merge(a: number, b: number): number {
    if (a < 0) return b;
    if (b < 0) return a;
    if (
      this.#first[b]! < this.#first[a]! ||
      (this.#first[b] === this.#first[a] && this.#second[b]! < this.#second[a]!)
    )
      [a, b] = [b, a];
    this.#push(a);
    this.#right[a] = this.merge(this.#right[a]!, b);
    const [leftRank, rightRank] = [
      this.#left[a]! < 0 ? 0 : this.#rank[this.#left[a]!]!,
      this.#rank[this.#right[a]!]!,
    ];
    if (leftRank < rightRank) [this.#left[a], this.#right[a]] = [this.#right[a]!, this.#left[a]!];
    this.#rank[a] = 1 + Math.min(leftRank, rightRank);
    return a;
  }
  /** Removes the cheapest edge, which is the root `heap` itself; returns the remaining heap. */
  pop(heap: number): number {
    this.#push(heap);
    return this.merge(this.#left[heap]!, this.#right[heap]!);
  }
  /** As `pop`, and subtracts the removed edge's weights from all remaining edges. */
  popAndSubtract(heap: number): number {
    const rest = this.pop(heap);
    if (rest >= 0) this.#add(rest, -this.#first[heap]!, -this.#second[heap]!);
    return rest;
  }
}

/** Union-find whose joins can be undone, last one first. A root's `parent` is minus the size of its set. */
class RollbackSets {
  readonly #parent: Int32Array;
  readonly #undo: number[] = [];
  constructor(count: number) {
    this.#parent = new Int32Array(count).fill(-1);
  }
  find(x: number): number {
    while (this.#parent[x]! >= 0) x = this.#parent[x]!;
    return x;
  }
  get moment(): number {
    return this.#undo.length;
  }
  join(a: number, b: number): void {
    [a, b] = [this.find(a), this.find(b)];
    if (a === b) return;
    if (this.#parent[a]! > this.#parent[b]!) [a, b] = [b, a];
    this.#undo.push(b, this.#parent[b]!);
    this.#parent[a]! += this.#parent[b]!;
    this.#parent[b] = a;
  }
  rollback(moment: number): void {
    while (this.#undo.length > moment) {
      const size = this.#undo.pop()!;
      const b = this.#undo.pop()!;
      this.#parent[this.#parent[b]!]! -= size;
      this.#parent[b] = size;
    }
  }
}

/** A cycle that was contracted to one vertex. */
interface Contraction {
  /** Root of the joined set. */
  readonly set: number;
  /** State of the union-find before the contraction. */
  readonly moment: number;
  /** Edges of the cycle. */
  readonly edges: readonly number[];
}

export interface EdgeWeights {
  readonly first: Float64Array;
  readonly second: Float64Array;
  /** Which edges may be used; all when absent. */
  readonly usable?: (edge: number) => boolean;
}

/**
 * The spanning arborescence from vertex 0 with the smallest sum of first weights; of several such, the one
 * with the smallest sum of second weights. Exact where sums of weights are exact (integers below 2⁵³),
 * otherwise up to rounding.
 * @throws STORAGE_GRAPH_INVALID where the usable edges do not reach every vertex
 */
export function minimumArborescence(
  graph: StorageGraph,
  { first, second, usable }: EdgeWeights,
): ParentEdges {
  const { vertexCount, from, to, incoming } = graph;
  const heaps = new EdgeHeaps(first, second);
  const heap = new Int32Array(vertexCount).fill(-1);
  for (let v = 1; v < vertexCount; v++) {
    for (let at = incoming.start[v]!; at < incoming.start[v + 1]!; at++) {
      const edge = incoming.items[at]!;
      if (usable === undefined || usable(edge)) heap[v] = heaps.merge(heap[v]!, edge);
    }
  }
  const sets = new RollbackSets(vertexCount);
  const chosen: ParentEdges = new Int32Array(vertexCount).fill(-1);
  const seenFrom = new Int32Array(vertexCount).fill(-1);
  seenFrom[0] = 0;
  const contractions: Contraction[] = [];
  for (let origin = 1; origin < vertexCount; origin++) {
    let u = sets.find(origin);
    const pathSets: number[] = [];
    const pathEdges: number[] = [];
    while (seenFrom[u]! < 0) {
      let edge = heap[u]!;
      while (edge >= 0 && sets.find(from[edge]!) === u) edge = heaps.pop(edge);
      if (edge < 0)
        throw new StemmaError(
          "STORAGE_GRAPH_INVALID",
          `No usable edge leads to the vertex ${graph.vertexIds[origin]} or to what it is rebuilt from.`,
          { vertex: graph.vertexIds[origin] },
        );
      heap[u] = heaps.popAndSubtract(edge);
      pathSets.push(u);
      pathEdges.push(edge);
      seenFrom[u] = origin;
      u = sets.find(from[edge]!);
      if (seenFrom[u] !== origin) continue;
      // A cycle is contracted to one vertex. The edges into it are the edges into its members.
      const moment = sets.moment;
      const edges: number[] = [];
      let merged = -1;
      let w: number;
      do {
        w = pathSets.pop()!;
        edges.push(pathEdges.pop()!);
        merged = heaps.merge(merged, heap[w]!);
        sets.join(u, w);
      } while (w !== u);
      u = sets.find(u);
      heap[u] = merged;
      seenFrom[u] = -1;
      contractions.push({ set: u, moment, edges });
    }
    for (const edge of pathEdges) chosen[sets.find(to[edge]!)] = edge;
  }
  // Expands the cycles, last one first: each keeps all its edges except the one into the vertex that the
  // chosen edge from outside enters.
  for (const { set, moment, edges } of contractions.reverse()) {
    const entering = chosen[set]!;
    sets.rollback(moment);
    for (const edge of edges) chosen[sets.find(to[edge]!)] = edge;
    chosen[sets.find(to[entering]!)] = entering;
  }
  return chosen;
}

/**
 * The minimum-storage tree, ignoring budgets (the paper's MST). Of several such trees, the one with the
 * smallest sum of its edges' recreation costs.
 */
export function minimumStorageTree(graph: StorageGraph): ParentEdges {
  return minimumArborescence(graph, { first: graph.storage, second: graph.recreation });
}
