/**
 * Minimum spanning arborescence: the cheapest spanning tree of a directed graph from its root. This is the
 * algorithm of Chu, Liu and Edmonds with mergeable heaps and a union-find that can be rolled back (Tarjan
 * 1977, Gabow et al. 1986), in O(E log V). Edges are compared by a first weight, and by a second one where
 * the first is equal. Does not use snapshots or budgets.
 */
import { StemmaError } from "../../../shared/errors.js";
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
  /** Removes an edge as `pop`, and subtracts its weights from all remaining edges. */
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
  /** A state to return to by `rollback`. */
  get checkpoint(): number {
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
  rollback(checkpoint: number): void {
    while (this.#undo.length > checkpoint) {
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
  readonly checkpoint: number;
  /** Edges of the cycle. */
  readonly edges: readonly number[];
}

export interface EdgeWeights {
  readonly first: Float64Array;
  readonly second: Float64Array;
  /** True for edges that may be used; all when absent. */
  readonly isUsable?: (edge: number) => boolean;
}

/** The vertices (roots of their sets) of a path towards the root, each with the edge into it. */
interface Path {
  readonly sets: number[];
  readonly edges: number[];
}

/** Chooses the edges of the arborescence: first with cycles contracted, then with the cycles expanded. */
class ArborescenceSearch {
  /** The chosen edge into each set of contracted vertices; after `expandCycles`, into each vertex. */
  readonly chosen: ParentEdges;
  readonly #heaps: EdgeHeaps;
  /** The heap of the usable edges into each set. */
  readonly #heapInto: Int32Array;
  readonly #sets: RollbackSets;
  /** The origin of the path that reached each set; −1 where no path has. */
  readonly #seenFrom: Int32Array;
  readonly #contractions: Contraction[] = [];

  constructor(
    private readonly graph: StorageGraph,
    { first, second, isUsable }: EdgeWeights,
  ) {
    const { vertexCount, incoming } = graph;
    this.chosen = new Int32Array(vertexCount).fill(-1);
    this.#heaps = new EdgeHeaps(first, second);
    this.#heapInto = new Int32Array(vertexCount).fill(-1);
    this.#sets = new RollbackSets(vertexCount);
    this.#seenFrom = new Int32Array(vertexCount).fill(-1);
    this.#seenFrom[0] = 0;
    for (let v = 1; v < vertexCount; v++) {
      for (let index = incoming.start[v]!; index < incoming.start[v + 1]!; index++) {
        const edge = incoming.items[index]!;
        if (isUsable === undefined || isUsable(edge))
          this.#heapInto[v] = this.#heaps.merge(this.#heapInto[v]!, edge);
      }
    }
  }

  /** Follows the cheapest edges from `origin` back to a set that an earlier path reached. */
  follow(origin: number): void {
    const { graph } = this;
    const sets = this.#sets;
    const seenFrom = this.#seenFrom;
    const path: Path = { sets: [], edges: [] };
    let u = sets.find(origin);
    while (seenFrom[u]! < 0) {
      const edge = this.#takeCheapest(u, origin);
      path.sets.push(u);
      path.edges.push(edge);
      seenFrom[u] = origin;
      u = sets.find(graph.from[edge]!);
      if (seenFrom[u] === origin) u = this.#contractCycle(u, path);
    }
    for (const edge of path.edges) this.chosen[sets.find(graph.to[edge]!)] = edge;
  }

  /** Removes and returns the cheapest edge into a set from outside it. */
  #takeCheapest(set: number, origin: number): number {
    const { graph } = this;
    const heaps = this.#heaps;
    const heapInto = this.#heapInto;
    const sets = this.#sets;
    let edge = heapInto[set]!;
    while (edge >= 0 && sets.find(graph.from[edge]!) === set) edge = heaps.pop(edge);
    if (edge < 0)
      throw new StemmaError(
        "STORAGE_GRAPH_INVALID",
        `No usable edge leads to the vertex ${graph.vertexIds[origin]} or to what it is rebuilt from. Add one from nothing.`,
        { vertex: graph.vertexIds[origin] },
      );
    heapInto[set] = heaps.popAndSubtract(edge);
    return edge;
  }

  /**
   * Contracts the cycle at the end of the path, which begins at `start`, to one set. The edges into the set
   * are the edges into its members. Returns the set.
   */
  #contractCycle(start: number, path: Path): number {
    const heaps = this.#heaps;
    const heapInto = this.#heapInto;
    const sets = this.#sets;
    const { checkpoint } = sets;
    const edges: number[] = [];
    let merged = -1;
    let member: number;
    do {
      member = path.sets.pop()!;
      edges.push(path.edges.pop()!);
      merged = heaps.merge(merged, heapInto[member]!);
      sets.join(start, member);
    } while (member !== start);
    const set = sets.find(start);
    heapInto[set] = merged;
    this.#seenFrom[set] = -1;
    this.#contractions.push({ set, checkpoint, edges });
    return set;
  }

  /**
   * Expands the cycles, last one first: each keeps all its edges except the one into the vertex that the
   * chosen edge from outside enters.
   */
  expandCycles(): void {
    const { chosen } = this;
    const sets = this.#sets;
    const { to } = this.graph;
    for (const { set, checkpoint, edges } of this.#contractions.reverse()) {
      const entering = chosen[set]!;
      sets.rollback(checkpoint);
      for (const edge of edges) chosen[sets.find(to[edge]!)] = edge;
      chosen[sets.find(to[entering]!)] = entering;
    }
  }
}

/**
 * The spanning arborescence from vertex 0 with the smallest sum of first weights; of several such, the one
 * with the smallest sum of second weights. Exact where sums of weights are exact (integers below 2⁵³),
 * otherwise up to rounding.
 * @throws STORAGE_GRAPH_INVALID where the usable edges do not reach every vertex
 */
export function minimumArborescence(graph: StorageGraph, weights: EdgeWeights): ParentEdges {
  const search = new ArborescenceSearch(graph, weights);
  for (let origin = 1; origin < graph.vertexCount; origin++) search.follow(origin);
  search.expandCycles();
  return search.chosen;
}

/**
 * The minimum-storage tree, ignoring budgets (the paper's MST). Of several such trees, the one with the
 * smallest sum of its edges' recreation costs.
 */
export function minimumStorageTree(graph: StorageGraph): ParentEdges {
  return minimumArborescence(graph, { first: graph.storage, second: graph.recreation });
}
