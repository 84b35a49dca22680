/**
 * Decides what the server still needs of an announced version, and so what it requests next. Pure: the state
 * of store and journal comes in as functions, the answer is data.
 */
import { tensorByteLength } from "../../shared/tensor/dtype.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { LeafTable, SaveRecord } from "../../shared/model/model.js";
import type { ObjectRef } from "../../shared/wire/messages.js";
import { smallObjectsOf } from "../../shared/model/record-objects.js";
import type { IngestLimits } from "./limits.js";

export type BaseState = "known" | "retired" | "unknown";

export interface NeedsView {
  readonly record: SaveRecord;
  /**
   * Tensors and small objects that the device provably had and that are in the fleet's store. Whether the store
   * has any others makes no difference: the device would learn that, and get them.
   */
  isProven(id: Hash): boolean;
  /** Small objects that came with the announcement or by blocks, and are not stored yet. */
  isHeld(id: Hash): boolean;
  base(versionId: Hash): BaseState;
  /** The leaves of the tree; undefined until the tree has arrived. */
  readonly leaves: LeafTable | undefined;
  /** The bases were requested already, and the device does not have them. */
  readonly withoutBase: boolean;
}

export interface NeedsRefusal {
  readonly step: "refuse";
  readonly code: "SIZE_OVER_LIMIT" | "ANNOUNCE_INVALID";
  readonly message: string;
}
export type Needs =
  | { readonly step: "bases"; readonly bases: readonly Hash[] }
  | { readonly step: "objects"; readonly objects: readonly ObjectRef[] }
  | {
      readonly step: "tensors";
      readonly reason: "tensors" | "raw";
      readonly objects: readonly ObjectRef[];
      readonly indices: readonly number[];
      readonly bytes: number;
    }
  | { readonly step: "commit" }
  | NeedsRefusal;

/** Everything a version relies on: leased from the first answer to the receipt. */
export function reliedOn(record: SaveRecord, leaves: LeafTable | undefined): readonly Hash[] {
  return [...smallObjectsOf(record).map(({ id }) => id), ...(leaves ?? []).map(({ tensor }) => tensor)];
}

/**
 * The next thing to request. Bases come first, because a child is answered after them; then small objects,
 * then tensors.
 */
export function needsOf(
  view: NeedsView,
  declaredBytes: number,
  limits: Pick<IngestLimits, "maxModelBytes" | "maxTensors">,
): Needs {
  const unknown = view.record.bases.filter((base) => view.base(base) === "unknown");
  if (unknown.length > 0 && !view.withoutBase) return { step: "bases", bases: unknown };
  const objects = smallObjectsOf(view.record).filter(({ id }) => !view.isProven(id) && !view.isHeld(id));
  if (objects.length > 0)
    return { step: "objects", objects: objects.map(({ kind, id }) => ({ kind, id, byteLength: 0 })) };
  const { leaves } = view;
  if (leaves === undefined)
    return {
      step: "refuse",
      code: "ANNOUNCE_INVALID",
      message: "The announced version's tree cannot be read. The device should save the model again.",
    };
  const refusal = judgeSizes(leaves, declaredBytes, limits);
  if (refusal !== undefined) return refusal;
  return tensorNeeds(
    view,
    leaves,
    unknown.length > 0 || view.record.bases.some((base) => view.base(base) === "retired"),
  );
}

function judgeSizes(
  leaves: LeafTable,
  declaredBytes: number,
  limits: Pick<IngestLimits, "maxModelBytes" | "maxTensors">,
): NeedsRefusal | undefined {
  if (leaves.length > limits.maxTensors)
    return {
      step: "refuse",
      code: "SIZE_OVER_LIMIT",
      message: `The model has ${leaves.length} tensors; this server takes ${limits.maxTensors}. Raise the server's limit, or report a smaller model.`,
    };
  const bytes = leaves.reduce((sum, leaf) => sum + tensorByteLength(leaf.dtype, leaf.shape), 0);
  if (bytes > limits.maxModelBytes)
    return {
      step: "refuse",
      code: "SIZE_OVER_LIMIT",
      message: `The model has ${bytes} bytes; this server takes ${limits.maxModelBytes}. Raise the server's limit, or report a smaller model.`,
    };
  if (bytes !== declaredBytes)
    return {
      step: "refuse",
      code: "ANNOUNCE_INVALID",
      message: `The announcement declares ${declaredBytes} bytes of tensors, its tree ${bytes}. The device should save the model again.`,
    };
  return undefined;
}

function tensorNeeds(view: NeedsView, leaves: LeafTable, isRaw: boolean): Needs {
  const asked = new Set<Hash>();
  const indices: number[] = [];
  const objects: ObjectRef[] = [];
  leaves.forEach(({ tensor, dtype, shape }, index) => {
    if (asked.has(tensor) || view.isProven(tensor)) return;
    asked.add(tensor);
    indices.push(index);
    objects.push({ kind: "tensor", id: tensor, byteLength: tensorByteLength(dtype, shape) });
  });
  if (objects.length === 0) return { step: "commit" };
  return {
    step: "tensors",
    reason: isRaw ? "raw" : "tensors",
    objects,
    indices,
    bytes: objects.reduce((sum, { byteLength }) => sum + byteLength, 0),
  };
}
