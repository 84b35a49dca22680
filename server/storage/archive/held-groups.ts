/**
 * Groups of tensors that only other tensors' encodings keep in the store, with those that refer to them. A group's
 * bytes are freed once all of its dependants are encoded against something else, and not before.
 */
import { listReferences } from "../../../shared/delta/links.js";
import type { ObjectReader } from "../../../shared/objects/object-store.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { findHeldTensors, storedBytesOf } from "./held-tensors.js";

export interface HeldGroup {
  readonly tensors: ReadonlySet<Hash>;
  /** The memory that the held tensors take, in bytes. */
  readonly bytes: number;
  /** The kept tensors that are encoded against one of them. */
  readonly dependants: readonly Hash[];
}

/** Two groups have no held tensor and no dependant in common. */
export function findHeldGroups(
  objects: Pick<ObjectReader, "stat" | "encodingOf">,
  kept: readonly Hash[],
): readonly HeldGroup[] {
  const held = findHeldTensors(objects, kept);
  const parents = new Map([...held].map((id) => [id, id]));
  const rootOf = (id: Hash): Hash => {
    let root = id;
    for (let up = parents.get(root); up !== undefined && up !== root; up = parents.get(root)) root = up;
    parents.set(id, root);
    return root;
  };
  const heldReferences = (id: Hash): readonly Hash[] =>
    listReferences(objects.encodingOf(id) ?? {}).filter((reference) => held.has(reference));
  const dependants = new Map<Hash, readonly Hash[]>();
  for (const id of [...held, ...kept]) {
    const references = heldReferences(id);
    if (references.length === 0) continue;
    const together = held.has(id) ? [id, ...references] : references;
    const root = rootOf(together[0] as Hash);
    for (const other of together) parents.set(rootOf(other), root);
    if (!held.has(id)) dependants.set(id, references);
  }
  const groups = new Map<Hash, { tensors: Set<Hash>; bytes: number; dependants: Hash[] }>();
  for (const id of held) {
    const root = rootOf(id);
    const group = groups.get(root) ?? { tensors: new Set(), bytes: 0, dependants: [] };
    groups.set(root, group);
    group.tensors.add(id);
    group.bytes += storedBytesOf(objects, id);
  }
  for (const [id, [first]] of dependants) groups.get(rootOf(first as Hash))?.dependants.push(id);
  return [...groups.values()];
}
