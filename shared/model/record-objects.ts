/** The small objects that a save record refers to. Pure. */
import type { ObjectKind, SaveRecord } from "./model.js";
import type { Hash } from "../tensor/tensor.js";

/** Each once, in a fixed order: what a receiver needs first comes first. */
export function smallObjectsOf(
  record: Pick<SaveRecord, "objects">,
): readonly { readonly kind: ObjectKind; readonly id: Hash }[] {
  const { objects } = record;
  const named: readonly (readonly [ObjectKind, Hash | undefined])[] = [
    ["tree", objects.tree],
    ["architecture", objects.architecture],
    ["names", objects.names],
    ["owner-map", objects.ownerMap],
    ["environment", objects.environment],
    ["metadata", objects.metadata],
    ["measurements", objects.measurements],
    ["provenance", objects.provenance],
    ["checkpoints", objects.checkpoints],
    ...(objects.attachments ?? []).map(({ hash }) => ["attachment", hash] as const),
  ];
  const seen = new Set<Hash>();
  return named.flatMap(([kind, id]) => {
    if (id === undefined || seen.has(id)) return [];
    seen.add(id);
    return [{ kind, id }];
  });
}
