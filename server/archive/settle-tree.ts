/**
 * Brings a planned tree into a form that packs can hold and that is worth writing. The planner knows edges
 * from one source; a tensor that is predicted with a previous one needs that too, so it must be coded below
 * it: then it is there when it is needed, and nothing is rebuilt through itself. No chain is longer than is
 * planned for; what gains next to nothing stays as it lies. Budgets that were kept are kept. Pure.
 */
import { limitsOf, LimitMeter } from "../planner/budgets.js";
import type { PlanningScheme } from "../planner/retrieval.js";
import type { ParentEdges, StorageGraph } from "../planner/storage-graph.js";
import { StorageTree } from "../planner/storage-tree.js";
import { previousOf } from "./archive-plan.js";

/**
 * A tensor is written anew for speed, or where that saves more than this share of its bytes: estimates are no
 * better.
 */
const worthwhileShare = 0.02;
/** Rounds of improving at most; each one but the last gains something. */
const maxRounds = 12;
const repairRounds = 4;

export interface SettleOptions {
  /** Of every snapshot, Infinity where there is none; and the scheme they are meant under. */
  readonly budgets: Float64Array;
  readonly scheme: PlanningScheme;
  /** Tensors to decode before any other one, at most. */
  readonly maxDepth: number;
  /** Ends improving early; what is returned can be written all the same. */
  readonly isTimeUp?: () => boolean;
}

/** @returns the edges of the settled tree */
export function settleTree(
  graph: StorageGraph,
  parentEdge: ParentEdges,
  options: SettleOptions,
): ParentEdges {
  const settler = new Settler(graph, parentEdge, options);
  settler.keepCurrent();
  settler.repair();
  settler.improve();
  return settler.edges;
}

class Settler {
  private readonly tree: StorageTree;
  private readonly meter: LimitMeter;
  /** By edge: the vertex it predicts with besides its source; −1: none. */
  private readonly previous: Int32Array;
  private readonly maxDepth: number;
  private readonly isTimeUp: () => boolean;

  constructor(
    private readonly graph: StorageGraph,
    parentEdge: ParentEdges,
    { budgets, scheme, maxDepth, isTimeUp = () => false }: SettleOptions,
  ) {
    this.meter = new LimitMeter(new StorageTree(graph, parentEdge), limitsOf(graph, budgets, scheme));
    this.tree = this.meter.tree;
    this.maxDepth = maxDepth;
    this.isTimeUp = isTimeUp;
    const number = new Map(graph.vertexIds.map((id, v) => [id, v]));
    // A previous tensor that is no vertex can be above nothing: such an edge is never sound.
    this.previous = Int32Array.from(graph.details, (detail) => {
      const id = previousOf({ detail });
      return id === undefined ? -1 : (number.get(id) ?? graph.vertexCount);
    });
  }

  get edges(): ParentEdges {
    return this.tree.parentEdge;
  }

  keepCurrent(): void {
    const { graph, tree, meter } = this;
    graph.kinds.forEach((kind, edge) => {
      const v = graph.to[edge]!;
      const planned = tree.parentEdge[v]!;
      if (kind !== "current" || planned === edge || !this.isSound(v, edge)) return;
      if (
        graph.storage[planned]! >= (1 - worthwhileShare) * graph.storage[edge]! &&
        tree.recreationChange(v, edge) <= 0
      )
        meter.move(v, edge);
    });
  }

  /**
   * What cannot be as it is goes to the cheapest place where it can. That place may have to move itself
   * later, so this is done some rounds; whoever still cannot be in the last one is stored from nothing. Then
   * all can: from parents to children, whether a tensor can be depends on what is above it alone, and that is
   * settled.
   */
  repair(): void {
    for (let round = 0; round < repairRounds; round++) if (!this.repairAll((v) => this.bestEdge(v))) return;
    this.repairAll((v) => this.materializedEdge(v));
  }

  /** Parents first. Returns whether anything had to move. */
  private repairAll(wayFor: (v: number) => number): boolean {
    let moved = false;
    for (const v of this.tree.subtree(0).slice(1)) {
      if (this.isSound(v, this.tree.parentEdge[v]!) && this.depth(v) <= this.maxDepth) continue;
      this.meter.move(v, wayFor(v));
      moved = true;
    }
    return moved;
  }

  private bestEdge(v: number): number {
    return (
      this.edgesInto(v).find(
        (edge) =>
          this.isSound(v, edge) &&
          this.depth(this.graph.from[edge]!) < this.maxDepth &&
          this.meter.admits(v, edge),
      ) ?? this.materializedEdge(v)
    );
  }

  /**
   * Moves single tensors to where they are stored in less, as long as there are any and nothing below them
   * suffers.
   */
  improve(): void {
    const { graph, tree } = this;
    for (let round = 0, moved = true; moved && round < maxRounds; round++) {
      moved = false;
      for (let v = 1; v < graph.vertexCount; v++) {
        if (v % 256 === 0 && this.isTimeUp()) return;
        const now = tree.parentEdge[v]!;
        const worthwhile = graph.storage[now]! * (graph.kinds[now] === "current" ? 1 - worthwhileShare : 1);
        moved =
          this.edgesInto(v).some(
            (edge) =>
              graph.storage[edge]! < worthwhile &&
              this.isSound(v, edge) &&
              this.meter.admits(v, edge) &&
              this.tryMove(v, edge),
          ) || moved;
      }
    }
  }

  /** Cheapest to store first. */
  private edgesInto(v: number): readonly number[] {
    const { start, items } = this.graph.incoming;
    return Array.from(items.subarray(start[v], start[v + 1]));
  }

  /**
   * Whether the source is not rebuilt through v, and what it is predicted with is needed for the source
   * already.
   */
  private isSound(v: number, edge: number): boolean {
    const source = this.graph.from[edge]!;
    const previous = this.previous[edge]!;
    return (
      !this.tree.isBelow(source, v) &&
      (previous < 0 ||
        (previous < this.graph.vertexCount && source !== 0 && this.tree.isBelow(source, previous)))
    );
  }

  /** Tensors to decode before v. */
  private depth(v: number): number {
    let depth = -1;
    for (let at = v; at > 0; at = this.tree.parent(at)) depth++;
    return depth;
  }

  private tryMove(v: number, edge: number): boolean {
    const before = this.tree.parentEdge[v]!;
    this.meter.move(v, edge);
    const isFine = this.tree
      .subtree(v)
      .every((x) => this.depth(x) <= this.maxDepth && this.isSound(x, this.tree.parentEdge[x]!));
    if (!isFine) this.meter.move(v, before);
    return isFine;
  }

  /** The one that costs least to rebuild: no budget that can be kept is broken by it. */
  private materializedEdge(v: number): number {
    const { graph } = this;
    const ways = this.edgesInto(v).filter((edge) => graph.from[edge] === 0 && this.previous[edge]! < 0);
    return ways.reduce(
      (best, edge) => (graph.recreation[edge]! < graph.recreation[best]! ? edge : best),
      ways[0]!,
    );
  }
}
