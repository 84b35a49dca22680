/**
 * Compares a plan with the store's current content. Finds the tensors to rewrite and their order, the tensors
 * that are done, and the tensors that the plan no longer fits. Writes nothing.
 */
import { hasSameLinks, listReferences, type Links } from "../../../shared/delta/links.js";
import { StemmaError } from "../../../shared/errors.js";
import { encodingCodes } from "../../../shared/delta/encoded.js";
import { mayPackInPlanes } from "../../../shared/delta/encode-tensor.js";
import type { LiveObjects, ObjectReader, TensorEncoding } from "../../../shared/objects/object-store.js";
import type { DType } from "../../../shared/tensor/dtype.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { PlannedVertex } from "../planner/storage-plan.js";
import { linksOfVertex, type ArchiveEncoding, type ArchivePlan } from "./archive-plan.js";
import { edgeKinds } from "./edge-costs.js";

/** One tensor to rewrite. */
export interface ApplyItem extends Links<Hash> {
  readonly id: Hash;
  readonly kind: string;
  readonly plannedBytes: number;
}

/** A tensor that the plan no longer fits; it stays as it is. */
export interface StaleTensor {
  readonly tensor: Hash;
  readonly code: "PLAN_STALE";
  readonly message: string;
}

export interface PendingWork {
  /** Tensors to rewrite; a tensor comes after its base. */
  readonly items: readonly ApplyItem[];
  /** Number of tensors that the plan keeps as they are. */
  readonly keptCount: number;
  /** Number of tensors that are already stored as planned. */
  readonly doneCount: number;
  readonly stale: readonly StaleTensor[];
  /** Number of kept tensors that were added after the plan was made; 0 for a plan of a part, which lacks others. */
  readonly unplannedCount: number;
}

/** Kinds of edges that this release can write. */
const writable: ReadonlySet<string> = new Set([
  edgeKinds.raw,
  edgeKinds.packed,
  edgeKinds.planes,
  edgeKinds.fixed,
  edgeKinds.delta,
  edgeKinds.deltaPlanes,
  edgeKinds.lowRank,
]);
export function encodingOfKind(kind: string): ArchiveEncoding {
  return kind === edgeKinds.fixed
    ? "fixed"
    : kind === edgeKinds.planes || kind === edgeKinds.deltaPlanes
      ? "planes"
      : "packed";
}

/** True if a tensor is stored as planned. */
function isStoredAsPlanned(current: TensorEncoding, item: ApplyItem, dtype: DType | undefined): boolean {
  const { code } = current;
  const { kind } = item;
  if (!hasSameLinks(current, item)) return false;
  if (kind === edgeKinds.raw) return code === encodingCodes.raw;
  const { raw, planes, fixedPlanes, lowRank } = encodingCodes;
  const layout = encodingOfKind(kind);
  if (layout === "packed" && code === planes) return dtype !== undefined && mayPackInPlanes(dtype);
  return layout === "fixed"
    ? code === fixedPlanes
    : layout === "planes"
      ? code === planes
      : (code === lowRank) === (kind === edgeKinds.lowRank) && code !== raw && code !== fixedPlanes;
}

/**
 * @param kept ids of the objects that kept versions need now
 * @throws PLAN_INVALID where the plan has a kind of edge that this release cannot write
 */
export function findPendingWork(
  { plan, members, part }: ArchivePlan,
  objects: Pick<ObjectReader, "has" | "encodingOf" | "stat" | "list">,
  kept: Pick<LiveObjects, "has">,
): PendingWork {
  const items = new Map<Hash, ApplyItem>();
  const stale: StaleTensor[] = [];
  let doneCount = 0;
  let keptCount = 0;
  const addStale = (tensor: Hash, message: string): void => {
    stale.push({ tensor, code: "PLAN_STALE", message });
  };
  for (const vertex of plan.vertices) {
    if (vertex.kind === edgeKinds.current) {
      keptCount++;
      continue;
    }
    if (!writable.has(vertex.kind))
      throw new StemmaError(
        "PLAN_INVALID",
        `The storage plan stores a tensor as ${JSON.stringify(vertex.kind)}, which this Stemma cannot write. Apply it with the release that made it, or make a new plan.`,
        { kind: vertex.kind },
      );
    const item = itemOf(vertex);
    const current = objects.encodingOf(item.id);
    if (current === undefined || !kept.has(item.id))
      addStale(item.id, "no kept version has this tensor any more, or it cannot be read");
    else if (!listReferences(item).every((id) => objects.has(id)))
      addStale(item.id, "a tensor that it was to be encoded against is gone");
    else if (isStoredAsPlanned(current, item, objects.stat(item.id)?.header?.dtype)) doneCount++;
    else items.set(item.id, item);
  }
  return {
    items: inWritingOrder(items, plan.vertices, members),
    keptCount,
    doneCount,
    stale,
    unplannedCount: part === undefined ? countUnplanned(plan, objects, kept) : 0,
  };
}

function countUnplanned(
  plan: ArchivePlan["plan"],
  objects: Pick<ObjectReader, "list" | "encodingOf">,
  kept: Pick<LiveObjects, "has">,
): number {
  const planned = new Set(plan.vertices.map(({ vertex }) => vertex));
  let count = 0;
  for (const { id, kind } of objects.list())
    if (kind === "tensor" && kept.has(id) && !planned.has(id) && objects.encodingOf(id) !== undefined)
      count++;
  return count;
}

function itemOf(vertex: PlannedVertex): ApplyItem {
  return {
    id: vertex.vertex as Hash,
    kind: vertex.kind,
    plannedBytes: vertex.storageCost,
    ...linksOfVertex(vertex),
  };
}

/**
 * Orders the items version by version, and a tensor's base before the tensor. Tensors that were saved
 * together share a pack; when all of them have been rewritten, the complete pack can be dropped.
 */
function inWritingOrder(
  items: ReadonlyMap<Hash, ApplyItem>,
  vertices: readonly PlannedVertex[],
  members: ArchivePlan["members"],
): readonly ApplyItem[] {
  const ordered = new Set<ApplyItem>();
  const add = (first: ApplyItem | undefined): void => {
    const waiting: ApplyItem[] = [];
    const seen = new Set<ApplyItem>();
    for (
      let item = first;
      item !== undefined && !ordered.has(item) && !seen.has(item);
      item = item.base === undefined ? undefined : items.get(item.base)
    ) {
      waiting.push(item);
      seen.add(item);
    }
    for (const item of waiting.reverse()) ordered.add(item);
  };
  for (const indices of members) for (const index of indices) add(items.get(vertices[index]!.vertex as Hash));
  for (const item of items.values()) add(item);
  return [...ordered];
}
