/** The objects and the trees that a save record refers to. Pure. */
import { streamedKinds, type ObjectKind, type SaveRecord, type StreamedKind } from "./model.js";
import type { Hash } from "../tensor/tensor.js";

/** The members of a record that references depend on. */
export type ReferringRecord = Pick<SaveRecord, "objects" | "uses">;

/**
 * The time when an object has to be in a store that keeps the version.
 * - `required`: before the version is recorded, and from then on.
 * - `redactable`: as `required`, until a fact states that it was redacted.
 * - `approved`: engines are code. A server adds them from its own builds or by approval, never from a device,
 *   so a version is recorded without its engine.
 */
export type Presence = "required" | "redactable" | "approved";

export interface RecordObject {
  readonly kind: ObjectKind;
  readonly id: Hash;
  readonly presence: Presence;
  /** True if its size has no small limit: it is written and read as a stream. */
  readonly streams: boolean;
}

const streamed: ReadonlySet<ObjectKind> = new Set(streamedKinds);

function presenceOf(kind: ObjectKind): Presence {
  if (kind === "engine") return "approved";
  return kind === "openings" ? "redactable" : "required";
}

/**
 * Every object as the record names it, with the kind of its member. A record that is wrong can name one object
 * in two roles.
 */
export function declaredObjectsOf({ objects, uses }: ReferringRecord): readonly RecordObject[] {
  const named: readonly (readonly [ObjectKind, Hash | undefined])[] = [
    ["tree", objects.tree],
    ["architecture", objects.architecture],
    ["names", objects.names],
    ["owner-map", objects.ownerMap],
    ["environment", objects.environment],
    ["metadata", objects.metadata],
    ["measurements", objects.measurements],
    ["provenance", objects.provenance],
    ["openings", objects.openings],
    ["checkpoints", objects.checkpoints],
    ...(objects.attachments ?? []).map(({ hash }) => ["attachment", hash] as const),
    ["tree", uses?.optimizer],
    ...(uses?.checkpoints ?? []).map(({ tree }) => ["tree", tree] as const),
    ["engine", uses?.engine],
    ["recipe", uses?.recipe],
    ...(uses?.data ?? []).map((id) => ["data", id] as const),
  ];
  return named.flatMap(([kind, id]) =>
    id === undefined ? [] : [{ kind, id, presence: presenceOf(kind), streams: streamed.has(kind) }],
  );
}

/**
 * All objects of a version except its record and its tensors: its own and those it uses. Each once, in a fixed
 * order: what a receiver needs first comes first, and what streams comes last.
 */
export function objectsOf(record: ReferringRecord): readonly RecordObject[] {
  const seen = new Set<Hash>();
  return declaredObjectsOf(record).filter(({ id }) => seen.size < seen.add(id).size);
}

/** The objects that do not stream, those of `uses` included: trees of checkpoints and of the optimizer. */
export function smallObjectsOf(record: ReferringRecord): readonly RecordObject[] {
  return objectsOf(record).filter(({ streams }) => !streams);
}

/** The objects that stream: engine, recipe, data. */
export function streamedObjectsOf(
  record: ReferringRecord,
): readonly (RecordObject & { readonly kind: StreamedKind })[] {
  return objectsOf(record).filter((object): object is RecordObject & { readonly kind: StreamedKind } =>
    streamed.has(object.kind),
  );
}

/**
 * Returns the objects that a device sends of a version, and gets back: all but its code. Engines come to a
 * server from its own builds or by approval, recipes by approval, and a device never brings either.
 */
export function sentObjectsOf(record: ReferringRecord): readonly RecordObject[] {
  return objectsOf(record).filter(({ kind }) => kind !== "engine" && kind !== "recipe");
}

/** The streamed objects that a device sends. */
export function sentStreamsOf(record: ReferringRecord): readonly RecordObject[] {
  return sentObjectsOf(record).filter(({ streams }) => streams);
}

/**
 * The objects that belong to the model itself, and that a device gets which is given the model: not what its
 * training used, and not the openings, whose values are to stay few enough to be redacted.
 */
export function modelObjectsOf({ objects }: ReferringRecord): readonly RecordObject[] {
  return objectsOf({ objects }).filter(({ presence }) => presence === "required");
}

/** A tree of a version. Its tensors are the version's own. */
export type TreeReference =
  | { readonly part: "model" | "optimizer"; readonly tree: Hash }
  | { readonly part: "checkpoint"; readonly iteration: number; readonly tree: Hash };

/**
 * Every tree of a version: the model's first, then the checkpoints ascending, then the optimizer's. Two may be
 * the same object.
 */
export function treesOf({ objects, uses }: ReferringRecord): readonly TreeReference[] {
  return [
    { part: "model", tree: objects.tree },
    ...(uses?.checkpoints ?? []).map(({ iteration, tree }) => ({
      part: "checkpoint" as const,
      iteration,
      tree,
    })),
    ...(uses?.optimizer === undefined ? [] : [{ part: "optimizer" as const, tree: uses.optimizer }]),
  ];
}
