/** The graph that the planner works on: numbering, order of edges, and refused input. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  buildStorageGraph,
  type EdgeInput,
  type StorageGraphInput,
} from "../../../../../server/storage/planner/storage-graph.js";

const raw = (to: string): EdgeInput => ({ to, kind: "raw", storageCost: 4, recreationCost: 1 });
const sound: StorageGraphInput = {
  vertices: [
    { id: "a", byteLength: 4 },
    { id: "b", byteLength: 4 },
  ],
  edges: [
    raw("a"),
    { from: "a", to: "b", kind: "delta", storageCost: 1, recreationCost: 2 },
    { from: "a", to: "b", kind: "remote", storageCost: 0.5, recreationCost: 9, detail: { tier: "remote" } },
  ],
  snapshots: [
    { id: "s", members: ["a", "b", "b"] },
    { id: "t", members: ["b"] },
  ],
};

test("numbers vertices, keeps parallel edges apart, and lists incoming edges cheapest first", () => {
  const graph = buildStorageGraph(sound);
  assert.deepEqual(graph.vertexIds, ["", "a", "b"]);
  assert.deepEqual(
    [...graph.incoming.items.subarray(graph.incoming.start[2], graph.incoming.start[3])],
    [2, 1],
  );
  assert.deepEqual([...graph.members.items], [1, 2, 2], "a vertex counts once in a snapshot");
  assert.deepEqual(
    [...graph.memberships.items.subarray(graph.memberships.start[2], graph.memberships.start[3])],
    [0, 1],
  );
  assert.deepEqual(graph.details[2], { tier: "remote" });
});

const refused: readonly (readonly [string, Partial<StorageGraphInput>, RegExp])[] = [
  ["a name twice", { vertices: [...sound.vertices, { id: "a", byteLength: 1 }] }, /a is listed twice/],
  ["the empty name", { vertices: [{ id: "", byteLength: 1 }] }, /no name/],
  ["a size that is not a number", { vertices: [{ id: "a", byteLength: Number.NaN }] }, /NaN bytes/],
  ["an edge to nowhere", { edges: [raw("a"), raw("b"), raw("c")] }, /edge 2 .*not listed/],
  [
    "an edge from nowhere",
    { edges: [raw("a"), raw("b"), { ...raw("a"), from: "c" }] },
    /edge 2 .*not listed/,
  ],
  ["an edge to itself", { edges: [raw("a"), raw("b"), { ...raw("a"), from: "a" }] }, /itself/],
  [
    "a negative cost",
    { edges: [raw("a"), raw("b"), { ...raw("a"), storageCost: -1 }] },
    /storage cost .* is -1/,
  ],
  [
    "an infinite cost",
    { edges: [raw("a"), raw("b"), { ...raw("a"), recreationCost: Number.POSITIVE_INFINITY }] },
    /recreation cost .* Infinity/,
  ],
  ["a tensor that nothing leads to", { edges: [raw("a")] }, /to b/],
  [
    "tensors only rebuilt from each other",
    {
      edges: [
        { ...raw("a"), from: "b" },
        { ...raw("b"), from: "a" },
      ],
    },
    /nothing leads/,
  ],
  ["a snapshot of unknown tensors", { snapshots: [{ id: "s", members: ["c"] }] }, /s names c/],
  ["a snapshot twice", { snapshots: [...sound.snapshots, { id: "s", members: [] }] }, /s is listed twice/],
];
for (const [what, change, message] of refused) {
  test(`refuses ${what}, saying where`, () =>
    assert.throws(() => buildStorageGraph({ ...sound, ...change }), {
      code: "STORAGE_GRAPH_INVALID",
      message,
    }));
}

test("a graph without tensors is one", () =>
  assert.equal(buildStorageGraph({ vertices: [], edges: [], snapshots: [] }).vertexCount, 1));
