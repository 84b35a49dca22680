/**
 * Computes the recreation cost of a snapshot in a planned tree under the paper's three retrieval schemes
 * (MH5, MH Table III):
 * - independent: one matrix after the other, so the costs of all paths are added up
 * - parallel: all matrices concurrently, so the most expensive path counts
 * - reusable: the parts that paths share are done once, within a memory bound if one is given
 *
 * Pure. A recovery can follow the schedule that `retrieveShared` returns.
 */
import type { ParentEdges, StorageGraph } from "./storage-graph.js";

/** Schemes for which a plan can be made. */
export const planningSchemes = ["independent", "parallel"] as const;
export type PlanningScheme = (typeof planningSchemes)[number];

/** The recreation cost of every snapshot, in the graph's order, from the recreation costs of the vertices. */
export function snapshotCosts(
  graph: StorageGraph,
  recreation: Float64Array,
  scheme: PlanningScheme,
): Float64Array {
  const { start, items } = graph.members;
  return Float64Array.from(graph.snapshotIds, (_, s) => {
    let cost = 0;
    for (let index = start[s]!; index < start[s + 1]!; index++)
      cost =
        scheme === "independent"
          ? cost + recreation[items[index]!]!
          : Math.max(cost, recreation[items[index]!]!);
    return cost;
  });
}

/** One step of a retrieval: recreate a vertex by its edge. */
export interface RetrievalStep {
  readonly vertex: number;
  readonly edge: number;
}
export interface SharedRetrieval {
  /** Sum of the recreation costs of all steps. */
  readonly cost: number;
  /**
   * Largest number of bytes in memory at one time: the kept branching points, and the source and target of
   * the current step. A result leaves memory as soon as nothing else is recreated from it.
   */
  readonly peakBytes: number;
  readonly steps: readonly RetrievalStep[];
}

/** The path from the nearest kept vertex (exclusive) to a vertex, as a list with the last step first. */
interface Walk {
  readonly vertex: number;
  readonly before: Walk | undefined;
}

/**
 * Schedules the retrieval of a snapshot so that shared work is done once (reusable scheme). In a tree, the
 * Steiner tree of the members is the union of their paths. Of a vertex's branches, the one that needs most
 * memory comes last.
 *
 * Where keeping a branching point would exceed `memoryLimitBytes`, it is dropped and recreated from the
 * nearest kept vertex for the next branch. The cost is then between those of the reusable and the independent
 * scheme. The source and target of one step are held even where they exceed the limit.
 */
export function retrieveShared(
  graph: StorageGraph,
  parentEdge: ParentEdges,
  snapshot: number,
  memoryLimitBytes = Number.POSITIVE_INFINITY,
): SharedRetrieval {
  const { byteLengths, from, recreation, members } = graph;
  const children = unionOfPaths(
    graph,
    parentEdge,
    members.items.subarray(members.start[snapshot], members.start[snapshot + 1]),
  );
  const needs = sortByMemory(graph, children);
  const steps: RetrievalStep[] = [];
  let cost = 0;
  let peakBytes = 0;
  const take = (vertex: number, heldBytes: number): void => {
    const edge = parentEdge[vertex]!;
    steps.push({ vertex, edge });
    cost += recreation[edge]!;
    peakBytes = Math.max(peakBytes, heldBytes + byteLengths[vertex]! + byteLengths[from[edge]!]!);
  };
  const repeat = (walk: Walk | undefined, heldBytes: number): void => {
    const path: number[] = [];
    for (let step = walk; step !== undefined; step = step.before) path.push(step.vertex);
    for (const vertex of path.reverse()) take(vertex, heldBytes);
  };
  // Recreates everything below v, which is in memory. The last branch continues in the loop, so long chains
  // do not deepen the call stack.
  const descend = (v: number, walk: Walk | undefined, heldBytes: number): void => {
    for (let below = children.get(v); below !== undefined; below = children.get(v)) {
      for (const child of below.slice(0, -1)) {
        const isKept = v === 0 || heldBytes + byteLengths[v]! + needs.get(child)! <= memoryLimitBytes;
        take(child, heldBytes);
        descend(
          child,
          { vertex: child, before: isKept ? undefined : walk },
          heldBytes + (isKept ? byteLengths[v]! : 0),
        );
        if (!isKept) repeat(walk, heldBytes);
      }
      v = below.at(-1)!;
      take(v, heldBytes);
      walk = { vertex: v, before: walk };
    }
  };
  descend(0, undefined, 0);
  return { cost, peakBytes, steps };
}

/** The children of each vertex in the union of the members' paths; vertices without children are left out. */
function unionOfPaths(
  graph: StorageGraph,
  parentEdge: ParentEdges,
  members: Int32Array,
): Map<number, number[]> {
  const children = new Map<number, number[]>();
  const seen = new Set<number>([0]);
  for (const member of members) {
    for (let v = member; !seen.has(v);) {
      seen.add(v);
      const parent = graph.from[parentEdge[v]!]!;
      const siblings = children.get(parent);
      if (siblings === undefined) children.set(parent, [v]);
      else siblings.push(v);
      v = parent;
    }
  }
  return children;
}

/** Sorts every list of children by the bytes that their branches need, fewest first. Returns these bytes. */
function sortByMemory(
  { byteLengths }: StorageGraph,
  children: ReadonlyMap<number, number[]>,
): Map<number, number> {
  const needs = new Map<number, number>();
  const order = [0];
  for (let index = 0; index < order.length; index++) order.push(...(children.get(order[index]!) ?? []));
  for (const v of order.reverse()) {
    const own = byteLengths[v]!;
    const below = children.get(v);
    if (below === undefined) {
      needs.set(v, own);
      continue;
    }
    below.sort((a, b) => needs.get(a)! - needs.get(b)! || a - b);
    const last = below.at(-1)!;
    needs.set(
      v,
      Math.max(
        own + byteLengths[last]!,
        needs.get(last)!,
        ...below.slice(0, -1).map((child) => own + needs.get(child)!),
      ),
    );
  }
  return needs;
}
