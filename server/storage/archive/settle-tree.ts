/**
 * Settles a planned tree: changes it so that packs can store it and every rewrite is worth its cost. Budgets
 * that held before hold afterwards. Pure.
 * - The planner's edges have one source each, but a tensor that is predicted from two tensors also needs the
 *   second one (`previous`), and some need more. An edge is sound where its source is below all of them in the
 *   tree: then decoding the source decodes them first. Where they are recreated apart (averages), it is sound
 *   where none of them needs the target. So no tensor needs itself.
 * - No chain is longer than the maximum.
 * - A tensor that would gain almost nothing keeps its current encoding.
 */
import { limitsOf, LimitMeter } from "../planner/budgets.js";
import type { PlanningScheme } from "../planner/retrieval.js";
import type { ParentEdges, StorageGraph } from "../planner/storage-graph.js";
import { StorageTree } from "../planner/storage-tree.js";
import { ReferenceCosts } from "./reference-costs.js";

/**
 * A tensor is rewritten for speed, or to save more than this share of its bytes. Smaller savings are within
 * the error of the estimates.
 */
const minSavingShare = 0.02;
/** Rounds of improvement, at most. They end earlier when a round gains nothing. */
const maxRounds = 12;
const repairRounds = 4;

export interface SettleOptions {
  /** Budget of every snapshot under the scheme; Infinity where there is none. */
  readonly budgets: Float64Array;
  readonly scheme: PlanningScheme;
  /** Maximum number of tensors to decode before another one. */
  readonly maxDepth: number;
  /** Ends the improvement early; the returned tree can still be written. */
  readonly isTimeUp?: () => boolean;
}

/** @returns the edges of the settled tree */
export function settleTree(
  graph: StorageGraph,
  parentEdge: ParentEdges,
  options: SettleOptions,
): ParentEdges {
  const settler = new Settler(graph, limitDepth(graph, parentEdge, options.maxDepth), options);
  settler.keepCurrent();
  settler.repair();
  settler.improve();
  // A move does not look at tensors that need the moved one apart from their source: these may be too deep now.
  settler.repair();
  settler.keepBudgets();
  return settler.edges;
}

/**
 * Cuts chains that are too long: the first vertex beyond the maximum is materialised in its smallest form that is
 * not dearer to recreate than by the chain. Later steps look along chains, so they must be short before.
 */
function limitDepth(graph: StorageGraph, parentEdge: ParentEdges, maxDepth: number): ParentEdges {
  const tree = new StorageTree(graph, parentEdge);
  const limited = parentEdge.slice();
  const depth = new Int32Array(graph.vertexCount).fill(-1);
  const { start, items } = graph.incoming;
  for (const v of tree.subtree(0).slice(1)) {
    depth[v] = depth[graph.from[limited[v]!]!]! + 1;
    if (depth[v] <= maxDepth) continue;
    const materialised = items
      .subarray(start[v], start[v + 1])
      .find((edge) => graph.from[edge] === 0 && graph.recreation[edge]! <= tree.recreation[v]!);
    if (materialised === undefined) continue;
    limited[v] = materialised;
    depth[v] = 0;
  }
  return limited;
}

class Settler {
  readonly #tree: StorageTree;
  readonly #meter: LimitMeter;
  readonly #references: ReferenceCosts;
  /** Edges that broke a budget with what their references cost in the tree. */
  readonly #refused = new Set<number>();
  readonly #maxDepth: number;
  readonly #isTimeUp: () => boolean;

  /** The graph, whose recreation costs change: edges with references apart cost what these cost in the tree. */
  private readonly graph: StorageGraph;

  constructor(
    graph: StorageGraph,
    parentEdge: ParentEdges,
    { budgets, scheme, maxDepth, isTimeUp = () => false }: SettleOptions,
  ) {
    this.#references = new ReferenceCosts(graph);
    this.graph = this.#references.hasApart ? { ...graph, recreation: graph.recreation.slice() } : graph;
    const tree = new StorageTree(this.graph, parentEdge);
    this.#meter = new LimitMeter(tree, limitsOf(graph, budgets, scheme));
    this.#tree = this.#meter.tree;
    this.#maxDepth = maxDepth;
    this.#isTimeUp = isTimeUp;
  }

  get edges(): ParentEdges {
    return this.#tree.parentEdge;
  }

  /** Moves vertices back to their current storage where the planned change gains almost nothing. */
  keepCurrent(): void {
    const { graph } = this;
    const tree = this.#tree;
    const meter = this.#meter;
    graph.kinds.forEach((kind, edge) => {
      const v = graph.to[edge]!;
      const planned = tree.parentEdge[v]!;
      if (kind !== "current" || planned === edge || !this.#isSound(v, edge)) return;
      if (
        graph.storage[planned]! >= (1 - minSavingShare) * graph.storage[edge]! &&
        tree.recreationChange(v, edge) <= 0
      )
        meter.move(v, edge);
    });
  }

  /**
   * Moves every vertex whose edge is unsound, or whose chain is too long, to its cheapest valid edge. A move
   * can make other vertices invalid, so this takes several rounds. Vertices that are still invalid after the
   * last round are materialised. Then all are valid: parents are handled before children, and whether a
   * vertex is valid depends only on the vertices above it.
   */
  repair(): void {
    for (let round = 0; round < repairRounds; round++) if (!this.#repairAll((v) => this.#bestEdge(v))) return;
    this.#repairAll((v) => this.#materializedEdge(v));
  }

  /**
   * Moves each invalid vertex to the edge that `edgeFor` returns, parents first. Returns whether any moved.
   */
  #repairAll(edgeFor: (v: number) => number): boolean {
    let hasMoved = false;
    for (const v of this.#tree.subtree(0).slice(1)) {
      if (this.#isSound(v, this.#tree.parentEdge[v]!) && this.#depth(v) <= this.#maxDepth) continue;
      this.#meter.move(v, edgeFor(v));
      hasMoved = true;
    }
    return hasMoved;
  }

  /** The valid edge into v that is cheapest to store; where there is none, the materialised one. */
  #bestEdge(v: number): number {
    return (
      this.#edgesInto(v).find(
        (edge) =>
          this.#isSound(v, edge) &&
          this.#depth(this.graph.from[edge]!) < this.#maxDepth &&
          this.#meter.admits(v, edge),
      ) ?? this.#materializedEdge(v)
    );
  }

  /** Moves single vertices to edges that store them in fewer bytes, as long as every vertex stays valid. */
  improve(): void {
    for (let round = 0, hasMoved = true; hasMoved && round < maxRounds; round++) {
      hasMoved = false;
      for (let v = 1; v < this.graph.vertexCount; v++) {
        if (v % 256 === 0 && this.#isTimeUp()) return;
        hasMoved = this.#improveAt(v) || hasMoved;
      }
    }
  }

  #improveAt(v: number): boolean {
    const { graph } = this;
    const current = this.#tree.parentEdge[v]!;
    const maxStorage =
      graph.storage[current]! * (graph.kinds[current] === "current" ? 1 - minSavingShare : 1);
    return this.#edgesInto(v).some(
      (edge) =>
        graph.storage[edge]! < maxStorage &&
        this.#isSound(v, edge) &&
        this.#meter.admits(v, edge) &&
        this.#tryMove(v, edge),
    );
  }

  /**
   * Gives up edges whose references, apart from the source, cost more than the budgets leave: of every group over its
   * limit the dearest one, until none is over. Each round refuses an edge for good, so there is an end.
   */
  keepBudgets(): void {
    if (!this.#references.hasApart) return;
    for (;;) {
      this.graph.recreation.set(this.#references.recreationIn(this.#tree.parentEdge));
      this.#meter.recompute();
      const dearest = this.#dearestApart();
      if (dearest.size === 0) return;
      const vertices = [...dearest].map((edge) => this.graph.to[edge]!);
      for (const edge of dearest) this.#refused.add(edge);
      for (const v of vertices) this.#meter.move(v, this.#materializedEdge(v));
      for (const v of vertices) this.#improveAt(v);
      this.repair();
    }
  }

  /** Finds, for each group over its limit, the edge with references apart that costs most on its members' paths. */
  #dearestApart(): ReadonlySet<number> {
    const { cost, limits } = this.#meter;
    const found = new Set<number>();
    cost.forEach((_, group) => {
      if (!this.#meter.isOver(group)) return;
      let dearest = -1;
      for (let index = limits.members.start[group]!; index < limits.members.start[group + 1]!; index++)
        for (let x = limits.members.items[index]!; x > 0; x = this.#tree.parent(x)) {
          const edge = this.#tree.parentEdge[x]!;
          if (!this.#references.isApart(edge)) continue;
          if (dearest < 0 || this.graph.recreation[edge]! > this.graph.recreation[dearest]!) dearest = edge;
        }
      if (dearest >= 0) found.add(dearest);
    });
    return found;
  }

  /** Edges into v, cheapest to store first. */
  #edgesInto(v: number): readonly number[] {
    const { start, items } = this.graph.incoming;
    return Array.from(items.subarray(start[v], start[v + 1]));
  }

  /**
   * True if nothing that the edge needs needs v, and its source is below all other vertices that it needs
   * unless they are recreated apart.
   */
  #isSound(v: number, edge: number): boolean {
    const source = this.graph.from[edge]!;
    const others = this.#references.further.get(edge) ?? [];
    if (this.#tree.isBelow(source, v) || others.some((other) => other >= this.graph.vertexCount))
      return false;
    if (this.#refused.has(edge)) return false;
    if (
      !this.#references.isApart(edge) &&
      !others.every((other) => source !== 0 && this.#tree.isBelow(source, other))
    )
      return false;
    return !this.#references.hasApart || !this.#isNeededBy(v, [source, ...others]);
  }

  /** True if v is one of these vertices, or is decoded before one of them. */
  #isNeededBy(v: number, waiting: number[]): boolean {
    const seen = new Set(waiting);
    for (let x = waiting.pop(); x !== undefined; x = waiting.pop()) {
      if (x === v) return true;
      for (const next of this.#neededBy(x)) {
        if (seen.has(next)) continue;
        seen.add(next);
        waiting.push(next);
      }
    }
    return false;
  }

  /** Returns the vertices that are decoded directly before a vertex. */
  #neededBy(v: number): readonly number[] {
    if (v === 0) return [];
    return [this.#tree.parent(v), ...(this.#references.further.get(this.#tree.parentEdge[v]!) ?? [])];
  }

  /** Number of vertices to decode before v, on the longest way. A cycle is infinitely deep. */
  #depth(v: number, known = new Map<number, number>()): number {
    let steps = 0;
    for (let x = v; x > 0; x = this.#tree.parent(x)) {
      if (this.#references.isApart(this.#tree.parentEdge[x]!)) return steps + this.#depthApart(x, known);
      steps++;
    }
    return steps - 1;
  }

  #depthApart(v: number, known: Map<number, number>): number {
    const found = known.get(v);
    if (found !== undefined) return found;
    known.set(v, Number.POSITIVE_INFINITY);
    const depth = 1 + Math.max(...this.#neededBy(v).map((next) => this.#depth(next, known)));
    known.set(v, depth);
    return depth;
  }

  /** Moves v unless a vertex at or below it becomes invalid. Returns whether it moved. */
  #tryMove(v: number, edge: number): boolean {
    const before = this.#tree.parentEdge[v]!;
    this.#meter.move(v, edge);
    const isValid = this.#tree
      .subtree(v)
      .every((x) => this.#depth(x) <= this.#maxDepth && this.#isSound(x, this.#tree.parentEdge[x]!));
    if (!isValid) this.#meter.move(v, before);
    return isValid;
  }

  /** The edge from the empty vertex with the lowest recreation cost; it breaks no budget that can be kept. */
  #materializedEdge(v: number): number {
    const { graph } = this;
    const edges = this.#edgesInto(v).filter(
      (edge) => graph.from[edge] === 0 && !this.#references.further.has(edge),
    );
    return edges.reduce(
      (best, edge) => (graph.recreation[edge]! < graph.recreation[best]! ? edge : best),
      edges[0]!,
    );
  }
}
