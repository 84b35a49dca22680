/**
 * A spanning tree of the storage graph, which algorithms change one edge at a time. Every vertex except the
 * empty one is stored by one incoming edge. The tree keeps the recreation cost of every vertex up to date:
 * the sum over the edges of its path. It does not use budgets.
 */
import type { ParentEdges, StorageGraph } from "./storage-graph.js";

export class StorageTree {
  /** The edge into each vertex; −1 for the empty vertex and for vertices that are not attached yet. */
  readonly parentEdge: ParentEdges;
  /** C_r(T, v): the recreation cost of each vertex, summed along its path. */
  readonly recreation: Float64Array;
  /** The children of each vertex as doubly linked lists; −1 ends a list. */
  readonly #firstChild: Int32Array;
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  /** Work array of `subtree`. */
  readonly #stack: Int32Array;

  constructor(
    readonly graph: StorageGraph,
    parentEdge: ParentEdges,
  ) {
    const count = graph.vertexCount;
    this.parentEdge = parentEdge.slice();
    this.recreation = new Float64Array(count);
    this.#firstChild = new Int32Array(count).fill(-1);
    this.#next = new Int32Array(count).fill(-1);
    this.#previous = new Int32Array(count).fill(-1);
    this.#stack = new Int32Array(count);
    for (let v = 1; v < count; v++)
      if (this.parentEdge[v]! >= 0) this.#link(v, graph.from[this.parentEdge[v]!]!);
    this.recompute();
  }

  isAttached(v: number): boolean {
    return v === 0 || this.parentEdge[v]! >= 0;
  }
  /** The vertex that v is recreated from; −1 for the empty vertex. */
  parent(v: number): number {
    const edge = this.parentEdge[v]!;
    return edge < 0 ? -1 : this.graph.from[edge]!;
  }
  /** Returns by how much the recreation costs of v and of all vertices below it change if v is stored by `edge`. */
  recreationChange(v: number, edge: number): number {
    return this.recreation[this.graph.from[edge]!]! + this.graph.recreation[edge]! - this.recreation[v]!;
  }
  storageChange(v: number, edge: number): number {
    return this.graph.storage[edge]! - this.graph.storage[this.parentEdge[v]!]!;
  }

  get storageCost(): number {
    let sum = 0;
    for (const edge of this.parentEdge) if (edge >= 0) sum += this.graph.storage[edge]!;
    return sum;
  }

  /** True if x is v or is recreated through v. */
  isBelow(x: number, v: number): boolean {
    while (x > 0) {
      if (x === v) return true;
      x = this.parent(x);
    }
    return x === v;
  }

  /** v and all vertices that are recreated through it, parents first. Valid until the next call. */
  subtree(v: number): Int32Array {
    const stack = this.#stack;
    let length = 0;
    stack[length++] = v;
    for (let index = 0; index < length; index++) {
      for (let child = this.#firstChild[stack[index]!]!; child >= 0; child = this.#next[child]!)
        stack[length++] = child;
    }
    return stack.subarray(0, length);
  }

  /** Attaches v by `edge`. The edge's source must be attached, and v must not. */
  attach(v: number, edge: number): void {
    this.parentEdge[v] = edge;
    this.#link(v, this.graph.from[edge]!);
    this.recreation[v] = this.recreation[this.graph.from[edge]!]! + this.graph.recreation[edge]!;
  }

  /** Stores v by another edge. The edge's source must not be below v. */
  move(v: number, edge: number): void {
    const change = this.recreationChange(v, edge);
    this.#unlink(v);
    this.parentEdge[v] = edge;
    this.#link(v, this.graph.from[edge]!);
    if (change !== 0) for (const x of this.subtree(v)) this.recreation[x]! += change;
  }

  /** Computes all recreation costs again from the root, which removes the rounding errors of many moves. */
  recompute(): void {
    const { graph, recreation, parentEdge } = this;
    for (const v of this.subtree(0)) {
      const edge = parentEdge[v]!;
      recreation[v] = edge < 0 ? 0 : recreation[graph.from[edge]!]! + graph.recreation[edge]!;
    }
  }

  #link(v: number, parent: number): void {
    const first = this.#firstChild[parent]!;
    this.#next[v] = first;
    this.#previous[v] = -1;
    if (first >= 0) this.#previous[first] = v;
    this.#firstChild[parent] = v;
  }
  #unlink(v: number): void {
    const [next, previous] = [this.#next[v]!, this.#previous[v]!];
    if (next >= 0) this.#previous[next] = previous;
    if (previous >= 0) this.#next[previous] = next;
    else this.#firstChild[this.parent(v)] = next;
  }
}
