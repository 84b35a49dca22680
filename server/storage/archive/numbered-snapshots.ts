/**
 * Numbers the snapshots of a storage graph for a message to a thread. With ids, each id would be copied for
 * every snapshot that has it. Pure.
 */
import type { SnapshotInput, VertexInput } from "../planner/storage-graph.js";

/** The id of each snapshot, and the positions of its members in the list of vertices. */
export type NumberedSnapshots = readonly { readonly id: string; readonly members: Int32Array }[];

/** @returns members that are not among the vertices as −1 */
export function numberSnapshots(
  vertices: readonly VertexInput[],
  snapshots: readonly SnapshotInput[],
): NumberedSnapshots {
  const numbers = new Map(vertices.map(({ id }, i) => [id, i]));
  return snapshots.map(({ id, members }) => ({
    id,
    members: Int32Array.from(members, (member) => numbers.get(member) ?? -1),
  }));
}

export function nameSnapshots(
  vertices: readonly VertexInput[],
  snapshots: NumberedSnapshots,
): readonly SnapshotInput[] {
  return snapshots.map(({ id, members }) => ({
    id,
    members: Array.from(members, (i) => vertices[i]?.id ?? ""),
  }));
}
