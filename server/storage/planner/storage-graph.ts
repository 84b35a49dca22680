/**
 * The matrix storage graph of ModelHub's archive problem (MH §IV-C, Definition 1). A vertex is a tensor, or a
 * byte segment of one; vertex 0 is the empty vertex v0. A directed edge is one way to store its target given
 * its source, with a storage cost and a recreation cost. There may be several edges between two vertices
 * (MH7).
 *
 * Independent of store, codec and plan: the kind of an edge is an arbitrary text that only the code that
 * measures edges and the code that applies a plan interpret.
 */
import { StemmaError } from "../../../shared/errors.js";

/** Plain data that is copied from an edge into the plan, for the code that applies the plan. */
export type EdgeDetail = Readonly<Record<string, string | number | boolean | null>>;

export interface VertexInput {
  /** Unique name: a tensor's hash, or hash and segment. */
  readonly id: string;
  /** Bytes of the recreated vertex in memory. */
  readonly byteLength: number;
}
export interface EdgeInput {
  /** The vertex that the target is recreated from; absent where the target is materialised (from v0). */
  readonly from?: string | undefined;
  readonly to: string;
  /** The way the target is stored: `raw`, `delta`, `planes`, `remote`, `replay`, or any other text. */
  readonly kind: string;
  /** Cost to store the target by this edge, usually in bytes; finite and not negative. */
  readonly storageCost: number;
  /** Cost to recreate the target from the source, usually in microseconds; finite and not negative. */
  readonly recreationCost: number;
  readonly detail?: EdgeDetail | undefined;
}
/** Vertices that are retrieved together. A vertex may be in several. */
export interface SnapshotInput {
  readonly id: string;
  readonly members: readonly string[];
}
export interface StorageGraphInput {
  readonly vertices: readonly VertexInput[];
  readonly edges: readonly EdgeInput[];
  readonly snapshots: readonly SnapshotInput[];
}

/** Lists of numbers in one array: row i has `items[start[i]]` to `items[start[i + 1] - 1]`. */
export interface Rows {
  readonly start: Int32Array;
  readonly items: Int32Array;
}

/**
 * A checked graph whose vertices, edges and snapshots are numbered; arrays are indexed by these numbers.
 * Plain data, so it can be sent to a worker. Vertex 0 is the empty vertex and has the id "".
 */
export interface StorageGraph {
  /** Number of vertices, including the empty one. */
  readonly vertexCount: number;
  readonly edgeCount: number;
  readonly vertexIds: readonly string[];
  readonly byteLengths: Float64Array;
  /** Source and target vertex of each edge. */
  readonly from: Int32Array;
  readonly to: Int32Array;
  /** Storage cost and recreation cost of each edge. */
  readonly storage: Float64Array;
  readonly recreation: Float64Array;
  readonly kinds: readonly string[];
  readonly details: readonly (EdgeDetail | undefined)[];
  /** Edges into each vertex, lowest storage cost first. */
  readonly incoming: Rows;
  /** Edges from each vertex. */
  readonly outgoing: Rows;
  readonly snapshotIds: readonly string[];
  /** Vertices of each snapshot. */
  readonly members: Rows;
  /** Snapshots of each vertex. */
  readonly memberships: Rows;
}

/** A spanning tree: for each vertex the edge by which it is stored; −1 for the empty vertex. */
export type ParentEdges = Int32Array;

function invalid(message: string, details: Record<string, unknown> = {}): StemmaError {
  return new StemmaError("STORAGE_GRAPH_INVALID", `The storage graph cannot be planned: ${message}`, details);
}

/**
 * Checks a graph and numbers its vertices, edges and snapshots.
 * @throws STORAGE_GRAPH_INVALID for repeated or unknown names, costs that are negative or not finite, an edge
 *   from a vertex to itself, or a vertex that no path reaches from the empty vertex
 */
export function buildStorageGraph(input: StorageGraphInput): StorageGraph {
  const vertexNumbers = numberVertices(input.vertices);
  const vertexCount = input.vertices.length + 1;
  const edgeCount = input.edges.length;
  const [from, to] = [new Int32Array(edgeCount), new Int32Array(edgeCount)];
  const [storage, recreation] = [new Float64Array(edgeCount), new Float64Array(edgeCount)];
  input.edges.forEach((edge, index) => {
    const description = `edge ${index} (${edge.kind}, from ${edge.from ?? "nothing"} to ${edge.to})`;
    const [source, target] = [
      edge.from === undefined ? 0 : vertexNumbers.get(edge.from),
      vertexNumbers.get(edge.to),
    ];
    if (source === undefined || target === undefined)
      throw invalid(
        `${description} names a vertex that is not listed. List every tensor that the edge touches.`,
        {
          edge: index,
        },
      );
    if (source === target)
      throw invalid(`${description} leads from a vertex to itself. Leave it out.`, { edge: index });
    for (const [name, cost] of [
      ["storage", edge.storageCost],
      ["recreation", edge.recreationCost],
    ] as const) {
      if (!Number.isFinite(cost) || cost < 0)
        throw invalid(`the ${name} cost of ${description} is ${cost}; it must be finite and not negative.`, {
          edge: index,
        });
    }
    from[index] = source;
    to[index] = target;
    storage[index] = edge.storageCost;
    recreation[index] = edge.recreationCost;
  });
  const incoming = rowsOf(vertexCount, to);
  for (let v = 0; v < vertexCount; v++) {
    incoming.items
      .subarray(incoming.start[v], incoming.start[v + 1])
      .sort((a, b) => storage[a]! - storage[b]! || recreation[a]! - recreation[b]! || a - b);
  }
  const graph: StorageGraph = {
    vertexCount,
    edgeCount,
    from,
    to,
    storage,
    recreation,
    incoming,
    outgoing: rowsOf(vertexCount, from),
    vertexIds: ["", ...input.vertices.map(({ id }) => id)],
    byteLengths: Float64Array.from([0, ...input.vertices.map(({ byteLength }) => byteLength)]),
    kinds: input.edges.map(({ kind }) => kind),
    details: input.edges.map(({ detail }) => detail),
    ...numberSnapshots(input.snapshots, vertexNumbers, vertexCount),
  };
  requireVerticesReachable(graph);
  return graph;
}

function numberVertices(vertices: readonly VertexInput[]): Map<string, number> {
  const vertexNumbers = new Map<string, number>();
  vertices.forEach(({ id, byteLength }, index) => {
    if (id === "")
      throw invalid(`vertex ${index} has no name. Name it; only the empty vertex has the empty name.`);
    if (vertexNumbers.has(id))
      throw invalid(`the vertex ${id} is listed twice. List it once, however many snapshots share it.`);
    if (!Number.isFinite(byteLength) || byteLength < 0)
      throw invalid(`the vertex ${id} has ${byteLength} bytes; it must be finite and not negative.`);
    vertexNumbers.set(id, index + 1);
  });
  return vertexNumbers;
}

function numberSnapshots(
  snapshots: readonly SnapshotInput[],
  vertexNumbers: ReadonlyMap<string, number>,
  vertexCount: number,
): Pick<StorageGraph, "snapshotIds" | "members" | "memberships"> {
  const seen = new Set<string>();
  const start = new Int32Array(snapshots.length + 1);
  const items: number[] = [];
  snapshots.forEach(({ id, members }, index) => {
    if (seen.has(id)) throw invalid(`the snapshot ${id} is listed twice. List it once.`);
    seen.add(id);
    const own = new Set<number>();
    for (const member of members) {
      const vertex = vertexNumbers.get(member);
      if (vertex === undefined)
        throw invalid(
          `the snapshot ${id} names ${member}, which is not listed as a vertex. List it, or leave it out.`,
        );
      own.add(vertex);
    }
    items.push(...own);
    start[index + 1] = items.length;
  });
  const members: Rows = { start, items: Int32Array.from(items) };
  return {
    snapshotIds: snapshots.map(({ id }) => id),
    members,
    memberships: transpose(members, vertexCount),
  };
}

/** Groups positions by key: row k lists the positions i with `keys[i] === k`. */
export function rowsOf(rowCount: number, keys: Int32Array): Rows {
  const start = new Int32Array(rowCount + 1);
  for (const key of keys) start[key + 1]!++;
  for (let row = 0; row < rowCount; row++) start[row + 1]! += start[row]!;
  const next = start.slice(0, rowCount);
  const items = new Int32Array(keys.length);
  keys.forEach((key, index) => {
    items[next[key]!++] = index;
  });
  return { start, items };
}

/** Transposes a relation: where row r of `rows` contains c, row c of the result contains r. */
export function transpose(rows: Rows, columnCount: number): Rows {
  const byColumn = rowsOf(columnCount, rows.items);
  const rowAt = new Int32Array(rows.items.length);
  for (let row = 0; row + 1 < rows.start.length; row++) rowAt.fill(row, rows.start[row], rows.start[row + 1]);
  return { start: byColumn.start, items: byColumn.items.map((index) => rowAt[index]!) };
}

function requireVerticesReachable(graph: StorageGraph): void {
  const reached = new Uint8Array(graph.vertexCount);
  const waiting = [0];
  reached[0] = 1;
  for (let v = waiting.pop(); v !== undefined; v = waiting.pop()) {
    for (let index = graph.outgoing.start[v]!; index < graph.outgoing.start[v + 1]!; index++) {
      const target = graph.to[graph.outgoing.items[index]!]!;
      if (reached[target] === 0) {
        reached[target] = 1;
        waiting.push(target);
      }
    }
  }
  const unreached = reached.indexOf(0);
  if (unreached >= 0)
    throw invalid(
      `nothing leads from the empty vertex to ${graph.vertexIds[unreached]}, so it could not be rebuilt. Add an edge from nothing to it, or to what it is rebuilt from.`,
      { vertex: graph.vertexIds[unreached] },
    );
}
