/**
 * Decides what the server still needs of an announced version, and so what it requests next. Pure: the state
 * of store and journal comes in as functions, the answer is data.
 */
import { tensorByteLength } from "../../../../shared/tensor/dtype.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { LeafTable, SaveRecord } from "../../../../shared/model/model.js";
import type { ObjectRef } from "../../../../shared/wire/messages.js";
import { objectsOf, sentStreamsOf, smallObjectsOf } from "../../../../shared/model/record-objects.js";
import type { DeclaredSizes } from "./announcement.js";
import type { IngestLimits } from "../limits.js";

export type BaseState = "known" | "retired" | "unknown";

export interface NeedsView {
  readonly record: SaveRecord;
  /**
   * Tensors and objects that the device provably had and that are in the fleet's store. Whether the store
   * has any others makes no difference: the device would learn that, and get them.
   */
  isProven(id: Hash): boolean;
  /** Small objects that came with the announcement or by blocks, and are not stored yet. */
  isHeld(id: Hash): boolean;
  base(versionId: Hash): BaseState;
  /** The leaves of all trees, in the order of `treesOf`; undefined until they have arrived and can be read. */
  readonly trees: readonly LeafTable[] | undefined;
  /** The bases were requested already, and the device does not have them. */
  readonly withoutBase: boolean;
  /** A replay is to give the model's tensors: they are not requested. */
  readonly isClaim: boolean;
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
      /** The tensors in the order of `indices`, then the objects that stream. */
      readonly objects: readonly ObjectRef[];
      /** Positions of the tensors among the leaves of all trees. */
      readonly indices: readonly number[];
      readonly bytes: number;
    }
  | { readonly step: "commit" }
  | NeedsRefusal;

type SizeLimits = Pick<IngestLimits, "maxModelBytes" | "maxTensors">;

/** Returns everything a version relies on: leased from the first answer to the receipt. */
export function reliedOn(record: SaveRecord, trees: readonly LeafTable[] | undefined): readonly Hash[] {
  return [
    ...objectsOf(record).map(({ id }) => id),
    ...(trees ?? []).flatMap((leaves) => leaves.map(({ tensor }) => tensor)),
  ];
}

/**
 * The next thing to request. Bases come first, because a child is answered after them; then small objects,
 * then tensors and the objects that stream. An engine is never requested: it is code, and a server takes it
 * from its own builds or by approval.
 */
export function needsOf(view: NeedsView, declared: DeclaredSizes, limits: SizeLimits): Needs {
  const unknown = view.record.bases.filter((base) => view.base(base) === "unknown");
  if (unknown.length > 0 && !view.withoutBase) return { step: "bases", bases: unknown };
  const objects = smallObjectsOf(view.record).filter(({ id }) => !view.isProven(id) && !view.isHeld(id));
  if (objects.length > 0)
    return { step: "objects", objects: objects.map(({ kind, id }) => ({ kind, id, byteLength: 0 })) };
  const { trees } = view;
  if (trees === undefined)
    return {
      step: "refuse",
      code: "ANNOUNCE_INVALID",
      message:
        "A tree of the announced version cannot be read: the model's, a checkpoint's or the " +
        "optimizer's. The device should save the model again.",
    };
  const refusal = judgeSizes(trees, declared, limits);
  if (refusal !== undefined) return refusal;
  const isRaw = unknown.length > 0 || view.record.bases.some((base) => view.base(base) === "retired");
  return largeNeeds(view, trees, declared, isRaw);
}

function bytesOf(leaves: LeafTable): number {
  return leaves.reduce((sum, leaf) => sum + tensorByteLength(leaf.dtype, leaf.shape), 0);
}

/** Returns why a version may not have so many tensors in its trees; undefined if it may. */
export function tooManyTensors(
  tensors: number,
  { maxTensors }: Pick<IngestLimits, "maxTensors">,
): Omit<NeedsRefusal, "step"> | undefined {
  if (tensors <= maxTensors) return undefined;
  return {
    code: "SIZE_OVER_LIMIT",
    message:
      `The model has ${tensors} tensors or more, those of checkpoints and optimizer state included; this ` +
      `server takes ${maxTensors}. Raise the server's limit (maxTensors), or report a smaller model.`,
  };
}

function judgeSizes(
  [model = [], ...others]: readonly LeafTable[],
  declared: DeclaredSizes,
  limits: SizeLimits,
): NeedsRefusal | undefined {
  const tensors = others.reduce((sum, leaves) => sum + leaves.length, model.length);
  const tooMany = tooManyTensors(tensors, limits);
  if (tooMany !== undefined) return { step: "refuse", ...tooMany };
  const bytes = bytesOf(model);
  if (bytes > limits.maxModelBytes)
    return {
      step: "refuse",
      code: "SIZE_OVER_LIMIT",
      message: `The model has ${bytes} bytes; this server takes ${limits.maxModelBytes}. Raise the server's limit, or report a smaller model.`,
    };
  const usesBytes = others.reduce((sum, leaves) => sum + bytesOf(leaves), 0);
  // What is declared keeps its limit already, so trees that agree with it keep the limit, too.
  if (bytes === declared.tensorBytes && usesBytes === declared.usesTensorBytes) return undefined;
  return {
    step: "refuse",
    code: "ANNOUNCE_INVALID",
    message:
      `The announcement declares ${declared.tensorBytes} bytes of tensors ` +
      `and ${declared.usesTensorBytes} of checkpoints and optimizer state, its trees ${bytes} ` +
      `and ${usesBytes}. The device should save the model again.`,
  };
}

/**
 * Positions of all leaves in the order in which their tensors are requested: the model's, the checkpoints'
 * from the last to the first, so that each can be coded against the one after it, then the optimizer's.
 */
function requestOrder(record: SaveRecord, trees: readonly LeafTable[]): readonly number[] {
  const checkpoints = record.uses?.checkpoints?.length ?? 0;
  const firsts: number[] = [];
  let count = 0;
  for (const leaves of trees) {
    firsts.push(count);
    count += leaves.length;
  }
  const order = [0, ...Array.from({ length: checkpoints }, (_, index) => checkpoints - index)];
  if (trees.length > checkpoints + 1) order.push(checkpoints + 1);
  return order.flatMap((tree) => (trees[tree] ?? []).map((_, leaf) => (firsts[tree] ?? 0) + leaf));
}

function largeNeeds(
  view: NeedsView,
  trees: readonly LeafTable[],
  { streamed }: DeclaredSizes,
  isRaw: boolean,
): Needs {
  const all = trees.flat();
  const asked = new Set<Hash>();
  const indices: number[] = [];
  const objects: ObjectRef[] = [];
  for (const index of view.isClaim ? [] : requestOrder(view.record, trees)) {
    const leaf = all[index];
    if (leaf === undefined || asked.has(leaf.tensor) || view.isProven(leaf.tensor)) continue;
    asked.add(leaf.tensor);
    indices.push(index);
    objects.push({ kind: "tensor", id: leaf.tensor, byteLength: tensorByteLength(leaf.dtype, leaf.shape) });
  }
  for (const { kind, id } of sentStreamsOf(view.record))
    if (!view.isProven(id)) objects.push({ kind, id, byteLength: streamed.get(id) ?? 0 });
  if (objects.length === 0) return { step: "commit" };
  return {
    step: "tensors",
    reason: isRaw ? "raw" : "tensors",
    objects,
    indices,
    bytes: objects.reduce((sum, { byteLength }) => sum + byteLength, 0),
  };
}
