/**
 * What it costs to retrieve a snapshot from a planned tree, under the paper's three schemes (MH Table III):
 * one matrix after the other, all at once, or with what several paths share done once, under a memory
 * bound where there is one (MH5). Pure; the schedule it finds is what a recovery may follow.
 */
import type { ParentEdges, StorageGraph } from "./storage-graph.js";

/** Schemes under which a plan can be optimised. */
export const planningSchemes = ["independent", "parallel"] as const;
export type PlanningScheme = (typeof planningSchemes)[number];

/** Recreation costs of every snapshot, by its number, from the recreation costs of vertices. */
export function snapshotCosts(
  graph: StorageGraph,
  recreation: Float64Array,
  scheme: PlanningScheme,
): Float64Array {
  const { start, items } = graph.members;
  return Float64Array.from(graph.snapshotIds, (_, s) => {
    let cost = 0;
    for (let at = start[s]!; at < start[s + 1]!; at++)
      cost =
        scheme === "independent" ? cost + recreation[items[at]!]! : Math.max(cost, recreation[items[at]!]!);
    return cost;
  });
}

/** One step of a retrieval: rebuild a vertex by its edge. */
export interface RetrievalStep {
  readonly vertex: number;
  readonly edge: number;
}
export interface SharedRetrieval {
  /** Σ recreation costs of all steps. */
  readonly cost: number;
  /**
   * Most bytes held at once: kept branching points, and what a step reads and makes. Results are handed over
   * as soon as nothing is rebuilt from them.
   */
  readonly peakBytes: number;
  readonly steps: readonly RetrievalStep[];
}

/** The way from the nearest kept vertex (itself not in it) to a vertex, last step first. */
interface Walk {
  readonly vertex: number;
  readonly before: Walk | undefined;
}

/**
 * Retrieves a snapshot with shared work done once: in a tree, the Steiner tree of its members is the union
 * of their paths. Of a vertex's branches the one that needs most memory comes last. Where keeping a
 * branching point would pass `memoryLimitBytes`, the walk to it is repeated from the nearest kept vertex
 * instead, so the cost lies between the reusable and the independent scheme's. What one step reads and
 * makes is held whatever the limit is.
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
    const way: number[] = [];
    for (let at = walk; at !== undefined; at = at.before) way.push(at.vertex);
    for (const vertex of way.reverse()) take(vertex, heldBytes);
  };
  // Everything below v, which is in memory. Only branches before the last recurse, so long chains do not
  // deepen the stack.
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

/** Children by vertex in the union of the members' paths; vertices without any are left out. */
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

/**
 * Orders every list of children by the bytes that their branches need, least first, and returns those needs.
 */
function sortByMemory(
  { byteLengths }: StorageGraph,
  children: ReadonlyMap<number, number[]>,
): Map<number, number> {
  const needs = new Map<number, number>();
  const order = [0];
  for (let at = 0; at < order.length; at++) order.push(...(children.get(order[at]!) ?? []));
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
